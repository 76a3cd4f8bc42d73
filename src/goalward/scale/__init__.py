"""One query over a pool of any size: engines for threads, a GPU and a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from numpy.typing import NDArray

from goalward.core.kernels.compiled import accelerate
from goalward.core.pool import as_pool
from goalward.core.pool_files import PoolFile, open_pool
from goalward.errors import BadParameter
from goalward.goals import Goal
from goalward.labels import Expected, Operator
from goalward.scale.cluster import Dask
from goalward.scale.gpu import Cuda
from goalward.scale.threads import Progress, Threads
from goalward.solvers import Solution
from goalward.strategies import GoalOriented, Strategy
from goalward.strategies.engine import Engine
from goalward.strategies.goal_oriented import OperatorWord, SelectionWord
from goalward.strategies.selectors import Selector, Top
from goalward.utility import Utility
from goalward.utility.ladder import UtilityWord

__all__ = ["Cuda", "Dask", "PoolFile", "Ranking", "Threads", "accelerate", "open_pool", "rank"]


@dataclass(frozen=True)
class Ranking:
    """The rows worth a label next, best first: ids (by default positions), scores, and what was read."""

    rows: NDArray[Any]
    utility: NDArray[Any]
    positions: NDArray[Any] = field(repr=False)
    n_rows: int
    seconds: float
    bytes: int | None = None
    solver: Solution | None = field(default=None, repr=False)
    says: str = field(default="", repr=False)


def rank(
    pool: Any,
    fitted: Any,
    goal: Goal | None = None,
    *,
    strategy: Strategy | None = None,
    operator: Operator | OperatorWord | None = None,
    utility: Utility | UtilityWord | None = None,
    selection: Selector | SelectionWord | None = None,
    batch: int = 10,
    exclude: Iterable[Any] = (),
    round: int | None = None,
    costs: Any = None,
    budget: float | None = None,
    seed: int = 0,
    block: int | None = None,
    n_jobs: int = 1,
    client: Any = None,
    device: Any = None,
    progress: Progress | None = None,
) -> Ranking:
    """Return the `batch` best rows of a pool that is read once, in bounded memory.

    The rows are those of `GoalOriented(goal, ...).suggest(...)`, for any block and number of workers.

    Parameters
    ----------
    pool
        An array, sparse matrix or frame; a `PoolFile` of `open_pool`, or its path.
    goal, operator, utility, selection, seed, strategy
        As in `GoalOriented`; or any strategy. A selection over all rows picks from the 1,000 (or 10 batches) best.
    exclude, round, costs, budget, block, n_jobs, progress, client, device
        As in `suggest`, `Threads`, `Dask` and `Cuda`. With costs the pool is read twice.

    Examples
    --------
    >>> import numpy as np, goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> pool = np.linspace(-3, 3, 1000)[:, None]
    >>> gw.scale.rank(pool, fitted, gw.goals.DevLoss([[2.0]], [1]), batch=3).rows.shape
    (3,)
    """
    pool = as_pool(open_pool(pool) if isinstance(pool, str | PathLike) else pool)
    options: dict[str, Any] = {"block": block, "progress": progress}
    engine: Engine = Threads(n_jobs, **options)
    if client is not None and device is not None:
        raise BadParameter("client= and device= do not work together. Pass one of them.")
    if client is not None:
        engine = Dask(client, **options)
    elif device is not None:
        engine = Cuda(device, **options)
    if strategy is not None and (goal, operator, utility, selection, seed) != (*[None] * 4, 0):
        raise BadParameter(
            "strategy= has a goal, operator, utility, selection and seed of its own. Leave these out, or "
            "leave strategy out."
        )
    if strategy is None:
        if goal is None:
            raise BadParameter("rank needs a goal or strategy=. Pass a goal.")
        strategy = GoalOriented(
            goal,
            operator=operator or Expected(),
            utility=utility,
            selection=selection or Top(),
            seed=seed,
        )
    given = {"round": round, "costs": costs, "budget": budget}
    best = strategy.suggest(fitted, pool, batch, exclude, engine=engine, **given)
    read = (len(pool), best.seconds, pool.n_bytes)
    return Ranking(best.rows, best.values, best.positions, *read, best.solver, best.says)

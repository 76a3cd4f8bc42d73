"""The best rows of a pool of any size, by one pass over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from goalward.core.arguments import check_count
from goalward.core.pool import as_pool
from goalward.core.pool_files import open_pool
from goalward.errors import BadParameter
from goalward.goals import Goal
from goalward.labels import Expected, Operator
from goalward.models.refitted import that_predicts
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


@dataclass(frozen=True)
class Ranking:
    """The rows worth a label next, best first.

    Parameters
    ----------
    rows
        (b,) ids of the rows: positions, unless the pool has a column of ids.
    utility
        (b,) their scores.
    positions
        (b,) where they are in the pool.
    n_rows, seconds, bytes
        What was read, and how long the pass over it took.
    solver, says
        How the goal's direction was solved for; what chose, and from how many rows.
    """

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

    Same rows for any block, number of threads or workers: those of `GoalOriented(goal, ...).
    suggest(...)`, without a score kept for every row of the pool.

    Parameters
    ----------
    pool
        An array, sparse matrix or frame; a `PoolFile` of `open_pool`, or its path.
    goal, operator, utility, selection, seed
        As in `GoalOriented`. A selection that would look at all rows picks from the 1,000 best
        (or 10 batches, if that is more), a heuristic.
    strategy
        Any strategy instead of these: the recommended one, or a baseline.
    exclude
        Ids of rows not to suggest; they must be rows of the pool.
    round, costs, budget
        As in `suggest`. Rows with prices are picked from the 1,000 (or 10 batches) that gain most per
        price and, under a budget, as many that gain most, for which the pool is read twice.
    block, n_jobs, progress
        As in `Threads`.
    client
        A `dask.distributed.Client`, as in `Dask`: workers read the file, which must be at the same
        path for all of them.
    device
        A GPU of torch, "cuda" say, as in `Cuda`.

    Examples
    --------
    >>> import numpy as np, goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> pool = np.linspace(-3, 3, 1000)[:, None]
    >>> gw.scale.rank(pool, fitted, gw.goals.DevLoss([[2.0]], [1]), batch=3).rows.shape
    (3,)
    """
    pool = open_pool(pool) if isinstance(pool, str) or hasattr(pool, "__fspath__") else pool
    check_count("batch", batch)
    engine = _engine(n_jobs, block, client, device, progress)
    model = that_predicts(fitted)
    if strategy is not None and (goal, operator, utility, selection, seed) != (*[None] * 4, 0):
        raise BadParameter(
            "strategy= came with goal, operator, utility, selection or seed, which it has of its own; "
            "one or the other was expected. Leave these out."
        )
    if strategy is None:
        if goal is None:
            raise BadParameter("Neither goal nor strategy= came; one was expected. Pass a goal.")
        strategy = GoalOriented(
            goal,
            operator=operator or Expected(),
            utility=utility,
            selection=selection or Top(),
            seed=seed,
        )
    pool = as_pool(pool)
    given = {"round": round, "costs": costs, "budget": budget}
    found = strategy.suggest(model, pool, batch, exclude, engine=engine, **given)
    read = (len(pool), found.seconds, pool.n_bytes)
    return Ranking(found.rows, found.values, found.positions, *read, found.solver, found.says)


def _engine(
    n_jobs: int, block: int | None, client: Any, device: Any, progress: Progress | None
) -> Engine:
    threads = Threads(n_jobs, block=block, progress=progress)
    if client is not None and device is not None:
        raise BadParameter("client= and device= came together; one of them was expected.")
    if client is not None:
        return Dask(client, block=block, progress=progress)
    return threads if device is None else Cuda(device, block=block, progress=progress)

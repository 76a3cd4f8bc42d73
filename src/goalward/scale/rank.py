"""The best rows of a pool of any size, by one pass over it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from goalward.accelerator import accelerate, compiled
from goalward.errors import BadParameter, PoolExhausted
from goalward.goals import Goal
from goalward.labels import Expected, Operator
from goalward.learners import Fitted, as_fitted
from goalward.pool import PoolFile, n_rows, take_rows
from goalward.scale import cluster, gpu
from goalward.scale.scan import Scan
from goalward.scale.shape import block_rows, check_width, positions_of, size_of
from goalward.selection import Selector, Top
from goalward.selection.top import Best, salt
from goalward.solvers import Solution
from goalward.strategies import GoalOriented
from goalward.utility import FirstOrder, Utility

__all__ = ["Ranking", "rank"]

Progress = Callable[[int, int | None], None]
"""Called with the rows done and the rows there are, None where nobody knows."""

WORTH_COMPILING = 4 * 2**30
"""Bytes of a pool from which on a second of compiling pays."""


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
    solver
        How the goal's direction was solved for.
    """

    rows: NDArray[Any]
    utility: NDArray[Any]
    positions: NDArray[Any] = field(repr=False)
    n_rows: int
    seconds: float
    bytes: int | None = None
    solver: Solution | None = field(default=None, repr=False)


def rank(
    pool: Any,
    fitted: Any,
    goal: Goal,
    *,
    operator: Operator | None = None,
    utility: Utility | None = None,
    selection: Selector | None = None,
    batch: int = 10,
    exclude: Iterable[Any] = (),
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
        An array, sparse matrix or frame; a `PoolFile` of `open_pool`, or its path; or an
        iterable of blocks of rows.
    operator, utility
        As in `GoalOriented`: the average over labels, to first order.
    selection
        `Top()`; or another, which then picks from the 1,000 best rows (or 10 batches, if that is
        more), a heuristic.
    exclude
        Ids of rows not to suggest; they must be rows of the pool.
    block
        Rows read at a time; about 64 MB by default.
    n_jobs
        Threads that read and score blocks, each with one BLAS thread.
    client
        A `dask.distributed.Client`: workers read the file themselves and send back their best
        rows. The file must lie at the same path for all of them.
    device
        A GPU of torch, "cuda" say: rows are streamed to it through pinned memory.
    progress
        Called after every block.

    Examples
    --------
    >>> import numpy as np, goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> pool = np.linspace(-3, 3, 1000)[:, None]
    >>> gw.scale.rank(pool, fitted, gw.goals.DevLoss([[2.0]], [1]), batch=3).rows.shape
    (3,)
    """
    if isinstance(pool, (str,)) or hasattr(pool, "__fspath__"):
        from goalward.pool import open_pool

        pool = open_pool(pool)
    if not (isinstance(batch, int) and batch >= 1):
        raise BadParameter(f"batch={batch!r}; a whole number of at least 1 was expected.")
    fitted = as_fitted(fitted)
    operator = operator or Expected()
    utility = utility or FirstOrder()
    selection = selection or Top()
    keep = batch if isinstance(selection, Top) else max(1000, 10 * batch)
    if client is not None:
        goal = cluster.summed(client, goal, fitted)
    scan = Scan.of(fitted, goal, utility, operator)
    kept = Best(keep, salt(np.random.default_rng([seed, 0])))
    began = perf_counter()
    streamed = not hasattr(pool, "shape") and not isinstance(pool, (list, tuple))
    if streamed:
        if client is not None or list(exclude):
            raise BadParameter(
                "The pool is an iterable of blocks, which cannot be sent to workers, nor be asked "
                "for the rows to exclude; a file was expected for that. Use open_pool()."
            )
        kept, total = _stream(pool, scan, kept, progress)
        ids, size = None, None
    else:
        total, size = n_rows(pool), size_of(pool)
        if size is not None and size >= WORTH_COMPILING and compiled("shift") is None:
            accelerate()
        ids = pool.ids() if isinstance(pool, PoolFile) else None
        excluded = positions_of(exclude, ids, total)
        if total - len(excluded) < batch:
            raise PoolExhausted(
                f"{batch} rows were asked for and {total - len(excluded)} are left of {total} "
                f"({len(excluded)} excluded). Ask for fewer, or add rows to the pool."
            )
        check_width(pool, fitted)
        rows = block_rows(pool, scan, block)
        if client is not None:
            kept = cluster.best(client, pool, scan, rows, excluded, kept, progress)
        elif device is not None:
            kept = gpu.best(device, pool, scan, rows, excluded, kept, progress)
        else:
            kept = _threads(pool, scan, rows, excluded, kept, n_jobs, progress, ids)
    taken = perf_counter() - began
    free = np.isfinite(kept.values)
    positions, values = kept.rows[free], kept.values[free]
    if not isinstance(selection, Top):
        positions, values = _reselected(
            pool,
            fitted,
            GoalOriented(goal, operator=operator, utility=utility, selection=selection, seed=seed),
            positions,
            batch,
        )
    names = positions if ids is None else ids[positions]
    return Ranking(names, values, positions, total, taken, size, scan.scorer.report)


def _threads(
    pool: Any,
    scan: Scan,
    rows: int,
    excluded: NDArray[Any],
    kept: Best,
    n_jobs: int,
    progress: Progress | None,
    ids: Any,
) -> Best:
    """Return the best rows; threads take parts of the pool, a few at a time."""
    total, done = n_rows(pool), 0
    starts: Iterator[int] = iter(range(0, total, rows))

    def task(start: int) -> tuple[Best, int]:
        stop = min(start + rows, total)
        part = _slice(pool, start, stop)
        names = None if ids is None else ids[start:stop]
        return scan.best(part, start, rows, excluded, kept.emptied(), names), stop - start

    if n_jobs == 1:
        for start in starts:
            found, count = task(start)
            kept, done = kept.joined(found), done + count
            if progress:
                progress(done, total)
        return kept
    with threadpool_limits(limits=1), ThreadPoolExecutor(n_jobs) as threads:
        running: set[Future[tuple[Best, int]]] = set()
        for start in starts:
            running.add(threads.submit(task, start))
            if len(running) >= 2 * n_jobs:
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    found, count = future.result()
                    kept, done = kept.joined(found), done + count
                if progress:
                    progress(done, total)
        for future in running:
            kept = kept.joined(future.result()[0])
    if progress:
        progress(total, total)
    return kept


def _stream(
    pool: Iterable[Any], scan: Scan, kept: Best, progress: Progress | None
) -> tuple[Best, int]:
    """Return the best rows of blocks as they come, and how many rows came."""
    total = 0
    for X in pool:
        count = n_rows(X)
        values = scan.values(X, total, np.arange(total, total + count))
        kept, total = kept.merged(total, values), total + count
        if progress:
            progress(total, None)
    if total < kept.count:
        raise PoolExhausted(f"{kept.count} rows were asked for and {total} came. Ask for fewer.")
    return kept, total


def _slice(pool: Any, start: int, stop: int) -> Any:
    if isinstance(pool, PoolFile):
        return pool.part(start, stop)
    return pool.iloc[start:stop] if hasattr(pool, "iloc") else pool[start:stop]


def _reselected(
    pool: Any, fitted: Fitted, strategy: GoalOriented, positions: NDArray[Any], batch: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a batch picked from the rows that scored best one by one."""
    order = np.sort(positions)
    suggestion = strategy.suggest(fitted, take_rows(pool, order), batch=batch)
    return order[suggestion.rows], suggestion.utility[suggestion.rows]

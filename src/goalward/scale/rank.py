"""The best rows of a pool of any size, by one pass over it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from goalward.core.kernels.compiled import accelerate, compiled
from goalward.core.sparse import check_sparse
from goalward.errors import BadParameter, PoolExhausted
from goalward.goals import Goal
from goalward.labels import Expected, Operator, Predicted, warn_if_vacuous
from goalward.models import as_fitted
from goalward.pool import PoolFile, n_rows, open_pool, take_rows
from goalward.scale import cluster, gpu
from goalward.scale.scan import Progress, Scan
from goalward.scale.shape import (
    as_pool,
    block_rows,
    check_width,
    excluded_positions,
    size_of,
)
from goalward.selection import Selector, Top
from goalward.selection.top import Best, salt
from goalward.solvers import Solution
from goalward.strategies import GoalOriented
from goalward.strategies.strategy import is_count
from goalward.utility import FirstOrder, Information, Ladder, Utility
from goalward.utility.information import is_posterior

__all__ = ["Ranking", "rank"]

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
    round: int = 0,
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
        As in `GoalOriented`: the average over labels, to first order; `Information()` for a goal
        of the posterior.
    selection
        `Top()`; or another, which then picks from the 1,000 best rows (or 10 batches, if that is
        more), a heuristic.
    exclude
        Ids of rows not to suggest; they must be rows of the pool.
    round
        Which round this is, from 0, for schedules.
    block
        Rows read at a time, by each thread; about 64 MB by default.
    n_jobs
        Threads that read and score blocks; above 1, each with one BLAS thread.
    client
        A `dask.distributed.Client`: workers read the file themselves and send back their best
        rows. The file must lie at the same path for all of them, and hold the same: what they
        read is compared with the file here. A belief that is an estimator
        is fitted by every worker: give it a random_state.
    device
        A GPU of torch, "cuda" say: rows are streamed to it through pinned memory. For first
        order, the average, min, max and spread, and models without a pipeline.
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
    if isinstance(pool, str) or hasattr(pool, "__fspath__"):
        pool = open_pool(pool)
    _check_options(batch, block, n_jobs, client, device, utility)
    fitted = as_fitted(fitted)
    operator = operator or Expected()
    own = is_posterior(goal)
    utility = utility or (Information() if own else FirstOrder())
    selection = selection or Top()
    if isinstance(utility, FirstOrder) and operator == Expected(Predicted()):
        warn_if_vacuous(0.0, 0.0, 1.0, 1.0, repr(operator))
    keep = batch if isinstance(selection, Top) else max(1000, 10 * batch)
    source = as_pool(pool)
    if source is None and (not isinstance(selection, Top) or client or device or n_jobs > 1):
        raise BadParameter(
            "The pool is an iterable of blocks, which is read once, here; Top() without client, "
            "device and n_jobs was expected. Use open_pool() on a file for the rest."
        )
    # The sum of the workers holds for this model only; a look-ahead moves it.
    known = goal if client is None or own else cluster.summed(client, goal, fitted)
    scan = Scan.of(fitted, known, utility, operator, round)
    kept = Best(int(keep), salt(np.random.default_rng([seed, round])))
    began = perf_counter()
    ids, size = None, None
    if source is None:
        if list(exclude):
            raise BadParameter(
                "exclude= came with an iterable of blocks. Leave those rows out of it."
            )
        kept, total = _stream(pool, scan, kept, progress)
    else:
        total, size = n_rows(source), size_of(source)
        ids = source.ids() if isinstance(source, PoolFile) else None
        excluded = excluded_positions(exclude, ids, total)
        if total - len(excluded) < batch:
            raise PoolExhausted(
                f"{batch} rows were asked for and {total - len(excluded)} are left of {total} "
                f"({len(excluded)} excluded). Ask for fewer, or add rows to the pool."
            )
        check_width(source, fitted)
        rows = block_rows(source, scan, block)
        with compiling(size) as fast:
            scan = replace(scan, compiled=fast)
            if client is not None:
                kept = cluster.best(client, source, scan, rows, excluded, kept, progress)
            elif device is not None:
                kept = gpu.best(device, source, scan, rows, excluded, kept, progress)
            else:
                kept = _threads(source, scan, rows, excluded, kept, n_jobs, progress, ids)
    taken = perf_counter() - began
    free = np.isfinite(kept.values)
    positions, values = kept.rows[free], kept.values[free]
    if not isinstance(selection, Top):
        strategy = GoalOriented(
            goal, operator=operator, utility=utility, selection=selection, seed=seed
        )
        order = np.sort(positions)
        names = order if ids is None else ids[order]
        some = strategy.suggest(fitted, take_rows(source, order), batch, rows=names, round=round)
        picked = np.array([np.flatnonzero(names == row)[0] for row in some.rows])
        positions, values = order[picked], some.utility[picked]
    named = positions if ids is None else ids[positions]
    return Ranking(named, values, positions, total, taken, size, scan.scorer.report)


def _check_options(
    batch: Any, block: Any, n_jobs: Any, client: Any, device: Any, utility: Any
) -> None:
    for name, value in (("batch", batch), ("block", block), ("n_jobs", n_jobs)):
        if value is not None and not is_count(value):
            raise BadParameter(
                f"{name}={value!r}; a whole number of at least 1 was expected. Use {name}=10, say."
            )
    if client is not None and device is not None:
        raise BadParameter("client= and device= came together; one of them was expected.")
    if isinstance(utility, (str, Ladder)):
        raise BadParameter(
            "utility='auto' tries rows before it chooses, which a single pass cannot; a utility such "
            "as FirstOrder() was expected. Use GoalOriented(...).suggest()."
        )


@contextmanager
def compiling(size: int | None) -> Iterator[bool]:
    """Compile loops for a pool that is large enough, and leave the process as it was."""
    before = compiled("shift") is not None
    if not before and size is not None and size >= WORTH_COMPILING:
        accelerate()
    try:
        yield compiled("shift") is not None
    finally:
        if not before:
            accelerate(False)


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
    scan.bind()
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
            found, count = future.result()
            kept, done = kept.joined(found), done + count
            if progress:
                progress(done, total)
    return kept


def _stream(
    pool: Iterable[Any], scan: Scan, kept: Best, progress: Progress | None
) -> tuple[Best, int]:
    """Return the best rows of blocks as they come, and how many rows came."""
    total = 0
    for X in pool:
        count = n_rows(X)
        if count == 0:
            continue
        check_sparse(X, f"The block from row {total} on")
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

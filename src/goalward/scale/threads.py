"""A pool of any size by one pass over it: threads that read and score blocks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from threadpoolctl import threadpool_limits

from goalward.core.kernels.compiled import accelerate, compiled
from goalward.errors import BadParameter, ShapeMismatch
from goalward.models import Fitted
from goalward.pool import Pool
from goalward.selection.best import Best
from goalward.selection.rule import Rule
from goalward.strategies.engine import Reader, Reading
from goalward.strategies.request import Request, check_count
from goalward.utility.motion import chunk_rows

__all__ = ["Progress", "Threads", "block_rows", "reading"]

Progress = Callable[[int, int | None], None]
"""Called with the rows done and the rows there are, None where nobody knows."""

WORTH_COMPILING = 4 * 2**30
"""Bytes of a pool from which on a second of compiling pays."""


@dataclass(frozen=True)
class Threads:
    """Threads of this process; only the best rows are kept.

    Parameters
    ----------
    n_jobs
        Threads that read and score blocks; above 1, each with one BLAS thread.
    block
        Rows read at a time, by each thread; about 64 MB by default.
    progress
        Called after every block.

    Examples
    --------
    >>> Threads(n_jobs=2)
    Threads(n_jobs=2, block=None)
    """

    n_jobs: int = 1
    block: int | None = None
    progress: Progress | None = field(default=None, repr=False)
    whole = False

    def __post_init__(self) -> None:
        check_count("n_jobs", self.n_jobs)

    def scan(self, rule: Rule, request: Request, kept: Best | None) -> Reading:
        """Return the best rows; threads take parts of the pool, a few at a time."""
        pool, total, done = request.pool, len(request.pool), 0
        rows = block_rows(pool, request.fitted, self.block)
        best, empty = kept_or_fail(kept), kept_or_fail(kept).emptied()
        with reading(rule, request) as reader:

            def task(start: int) -> tuple[Best, int]:
                stop = min(start + rows, total)
                names = None if request.ids is None else request.ids[start:stop]
                part = pool.part(start, stop)
                return reader.best(part, start, rows, request.excluded, empty, names), stop - start

            for found, count in self._all(task, range(0, total, rows)):
                best, done = best.joined(found), done + count
                if self.progress:
                    self.progress(done, total)
        return Reading(best.rows, best.values)

    def _all(
        self, task: Callable[[int], tuple[Best, int]], starts: range
    ) -> Iterator[tuple[Best, int]]:
        if self.n_jobs == 1:
            yield from map(task, starts)
            return
        with threadpool_limits(limits=1), ThreadPoolExecutor(self.n_jobs) as threads:
            running: set[Future[tuple[Best, int]]] = set()
            for start in starts:
                running.add(threads.submit(task, start))
                if len(running) >= 2 * self.n_jobs:
                    finished, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in finished)
            yield from (future.result() for future in running)


def kept_or_fail(kept: Best | None) -> Best:
    """Return what to keep, which engines that are not whole are always given."""
    if kept is None:
        raise BadParameter(
            "kept=None came to an engine that keeps the best rows only; a Best was expected."
        )
    return kept


@contextmanager
def reading(rule: Rule, request: Request) -> Iterator[Reader]:
    """Give what reads the pool; loops are compiled for one that is large enough."""
    check_width(request.pool, request.fitted)
    before = compiled("shift") is not None
    size = request.pool.n_bytes
    if not before and size is not None and size >= WORTH_COMPILING:
        accelerate()
    try:
        reader = Reader.of(rule, request.fitted)
        yield replace(reader, compiled=compiled("shift") is not None)
    finally:
        if not before:
            accelerate(False)


def check_width(pool: Pool, fitted: Fitted) -> None:
    """Raise if rows have other features than the model, before any is read."""
    width = pool.width
    if fitted.transform is None and width is not None and width != fitted.n_features:
        raise ShapeMismatch(
            f"The pool has {width} features; {fitted.n_features} were expected, as in the "
            "labelled rows. Build all of them with the same features, in order."
        )


def block_rows(pool: Pool, fitted: Fitted, block: int | None) -> int:
    """Return rows per block: on the grid that scores do not depend on, about 64 MB of numbers.

    Counted as they are worked on: whole numbers become double precision, halves single.
    """
    if block is not None:
        check_count("block", block)
    kind = pool.dtype if pool.dtype is not None else np.dtype(np.float64)
    itemsize = 4 if str(kind).endswith(("float32", "float16", "bfloat16")) else 8
    grid = chunk_rows(fitted.n_classes)
    wanted = block if block is not None else 2**26 // (itemsize * (pool.width or 1000))
    return max(1, -(-wanted // grid)) * grid

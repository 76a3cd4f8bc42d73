"""A pool of any size by one pass over it: threads that read and score blocks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from threadpoolctl import threadpool_limits

from goalward.core.arguments import check_count
from goalward.core.kernels.compiled import accelerated
from goalward.core.pool import Pool
from goalward.errors import BadParameter, ShapeMismatch
from goalward.models import Fitted
from goalward.strategies.engine import Reader, ScanResult, is_large
from goalward.strategies.selectors import Best
from goalward.strategies.strategy import Request
from goalward.utility.utility import Rule, chunk_rows

Progress = Callable[[int, int], None]
"""Called with the rows done and the rows there are."""


@dataclass(frozen=True, kw_only=True)
class OnePass(ABC):
    """An engine that reads a pool once, in parts, and keeps only the best rows of it.

    Parameters
    ----------
    block
        Rows read at a time, by each thread; about 64 MB by default.
    progress
        Called after every block.
    """

    whole = False
    block: int | None = None
    progress: Progress | None = field(default=None, repr=False)

    def scan(self, rule: Rule, request: Request, kept: Best | None) -> ScanResult:
        """Return the best rows of the pool, from the best rows of its parts in any order."""
        if kept is None:
            raise BadParameter(
                "kept=None came to an engine that keeps the best rows only; a Best was expected."
            )
        best, done = kept, 0
        rows = block_rows(request.pool, request.fitted, self.block)
        for found, count in self.parts(rule, request, rows, kept.emptied()):
            best, done = best.joined(found), done + count
            if self.progress:
                self.progress(done, len(request.pool))
        return ScanResult(best.rows, best.values)

    @abstractmethod
    def parts(
        self, rule: Rule, request: Request, rows: int, empty: Best
    ) -> Iterator[tuple[Best, int]]:
        """Return the best rows of each part of the pool, and how many rows it has."""


@dataclass(frozen=True)
class Threads(OnePass):
    """Threads of this process; only the best rows are kept.

    Parameters
    ----------
    n_jobs
        Threads that read and score blocks; above 1, each with one BLAS thread.
    block, progress
        See `OnePass`.

    Examples
    --------
    >>> Threads(n_jobs=2)
    Threads(block=None, n_jobs=2)
    """

    n_jobs: int = 1

    def __post_init__(self) -> None:
        check_count("n_jobs", self.n_jobs)

    def parts(
        self, rule: Rule, request: Request, rows: int, empty: Best
    ) -> Iterator[tuple[Best, int]]:
        total = len(request.pool)
        with reading(rule, request) as reader:

            def task(start: int) -> tuple[Best, int]:
                stop = min(start + rows, total)
                names = None if request.ids is None else request.ids[start:stop]
                part = request.pool.part(start, stop)
                return reader.best(part, start, rows, request.excluded, empty, names), stop - start

            starts = range(0, total, rows)
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


@contextmanager
def reading(rule: Rule, request: Request) -> Iterator[Reader]:
    """Give what reads the pool; loops are compiled for one that is large enough."""
    width, expected = request.pool.width, request.fitted.n_features
    if request.fitted.transform is None and width is not None and width != expected:
        raise ShapeMismatch(
            f"The pool has {width} features; {expected} were expected, as in the labelled rows. "
            "Build all of them with the same features, in order."
        )
    with accelerated(is_large(request)) as compiled:
        yield replace(Reader.of(rule, request.fitted), compiled=compiled)


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

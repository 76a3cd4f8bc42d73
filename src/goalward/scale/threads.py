"""A pool of any size by one pass over it: threads that read and score blocks of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from threadpoolctl import threadpool_limits

from goalward.core.arguments import check_count
from goalward.core.kernels.compiled import accelerated
from goalward.core.pool import Pool
from goalward.errors import BadParameter, ShapeMismatch
from goalward.models import Fitted
from goalward.models.fitted import MAPPED
from goalward.strategies.engine import Engine, Reader, ScanResult, is_large
from goalward.strategies.selectors import Best
from goalward.strategies.strategy import Request
from goalward.utility.utility import Rule, chunk_rows

Progress = Callable[[int, int], None]  # called with the rows done and all rows
Parts = Iterator[tuple[Best, int]]  # the best rows of each part of a pool, and how many rows it has


@dataclass(frozen=True, kw_only=True)
class OnePass(Engine):
    """An engine that reads a pool once, in blocks (about 64 MB by default), and keeps its best rows."""

    block: int | None = None
    progress: Progress | None = field(default=None, repr=False)

    def scan(self, rule: Rule, request: Request, kept: Best | None) -> ScanResult:
        if kept is None:
            raise BadParameter("kept must be a Best for an engine that keeps the best rows only.")
        best, done = kept, 0
        rows = block_rows(request.pool, request.fitted, self.block)
        for part, count in self.parts(rule, request, rows, kept.emptied()):
            best, done = best.joined(part), done + count
            if self.progress:
                self.progress(done, len(request.pool))
        return ScanResult(best.rows, best.values)

    @abstractmethod
    def parts(self, rule: Rule, request: Request, rows: int, empty: Best) -> Parts:
        """Return the best rows of each part of the pool."""


@dataclass(frozen=True)
class Threads(OnePass):
    """Threads of this process; above one, each has one BLAS thread. Only the best rows are kept.

    `block` rows are read at a time, about 64 MB by default; `progress` is called after every block.

    Examples
    --------
    >>> Threads(n_jobs=2)
    Threads(block=None, n_jobs=2)
    """

    n_jobs: int = 1

    def __post_init__(self) -> None:
        check_count("n_jobs", self.n_jobs)

    def parts(self, rule: Rule, request: Request, rows: int, empty: Best) -> Parts:
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
                yield from threads.map(task, starts)


@contextmanager
def reading(rule: Rule, request: Request) -> Iterator[Reader]:
    """Yield a reader of the pool; loops are compiled for a large one."""
    width, expected = request.pool.width, request.fitted.n_features
    if request.fitted.transform is None and width is not None and width != expected:
        raise ShapeMismatch(
            f"The pool must have {expected} features, as the labelled rows have, got {width}. Build both "
            "with the same features, in order."
        )
    with accelerated(is_large(request)) as compiled:
        yield replace(Reader.of(rule, request.fitted), compiled=compiled)


def block_rows(pool: Pool, fitted: Fitted, block: int | None) -> int:
    """Return rows per block: on the grid that scores do not depend on, about 64 MB of numbers."""
    if block is not None:
        check_count("block", block)
    # As they are worked on: whole numbers become double precision, halves single.
    itemsize = 4 if str(pool.dtype).endswith(("float32", "float16")) else 8
    grid = chunk_rows(fitted.n_classes)
    width = max(pool.width or 1000, fitted.n_features if fitted.model.is_linear else 0)
    wanted = block or (MAPPED if fitted.transform is not None else 2**26 // (itemsize * width))
    return max(1, -(-wanted // grid)) * grid

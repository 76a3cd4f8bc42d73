"""Engines that score a pool by a rule; here in memory, others in `goalward.scale`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import eps, namespace, rows_at, to_numpy
from goalward.core.cores import cores, one_blas_thread
from goalward.core.kernels.compiled import accelerated
from goalward.core.pool import as_pool
from goalward.core.rows import Candidates
from goalward.labels import warn_if_vacuous
from goalward.models import Fitted, Labelled
from goalward.models.fitted import MAPPED
from goalward.strategies.selectors import Best
from goalward.utility.utility import RowScores, Rule, block_size, check_scores, chunk_rows, stacked

if TYPE_CHECKING:
    from goalward.strategies.strategy import Request

LARGEST_TABLE = 256 * 2**20
"""Bytes of (N, K) utilities that a suggestion keeps."""
LARGE = 2**26
"""Size of a pool (features plus 8 per label, times rows) from which threads pay."""


@dataclass(frozen=True, eq=False)
class ScanResult:
    """The best rows of a pool, best first, and all scores where an engine keeps them.

    `table` is (N, K) or a function for it; `play` is the rule with all rows of the pool in play.
    """

    positions: NDArray[Any]
    values: NDArray[Any]
    utility: NDArray[Any] | None = None
    table: NDArray[Any] | Callable[[], Any] | None = None
    leverage: float | None = None
    play: tuple[Rule, Candidates] | None = None

    def joined(self, positions: NDArray[Any], values: NDArray[Any]) -> ScanResult:
        new = ~np.isin(positions, self.positions)
        positions = np.append(self.positions, positions[new])
        return replace(self, positions=positions, values=np.append(self.values, values[new]))


class Engine(Protocol):
    """A way to read a pool: in memory, by threads, on a cluster, on a GPU.

    An optional `narrowed(request, positions)` serves strategies that run on any device.
    """

    whole: bool = False
    """Whether it keeps the score of every row."""

    @abstractmethod
    def scan(self, rule: Rule, request: Request, kept: Best | None) -> ScanResult:
        """Return the best rows of a pool under a rule; all of them where `kept` is None."""


@dataclass(frozen=True, eq=False)
class Reader:
    """A rule with its model, for any process."""

    rule: Rule
    fitted: Fitted
    compiled: bool = False

    @classmethod
    def of(cls, rule: Rule, fitted: Fitted) -> Reader:
        """Return the reader to send, with one labelled row, since a model needs one."""
        old = fitted.labelled
        first = Labelled(rows_at(old.X, slice(0, 1)), old.targets[:1, :], old.weights[:1])
        return cls(rule.portable(), replace(fitted, labelled=first))

    def best(
        self, part: Any, start: int, block: int, excluded: NDArray[Any], kept: Best, ids: Any = None
    ) -> Best:
        for where, X in as_pool(part).blocks(block):
            first = start + where.start
            names = np.arange(first, start + where.stop) if ids is None else ids[where]
            rows = self.fitted.candidates(X, names, first)
            scores = self.rule(rows)
            check_scores(scores, rows)
            values = to_numpy(scores).astype(np.float64)
            low, high = np.searchsorted(excluded, [first, first + len(values)])
            values[excluded[low:high] - first] = -np.inf
            kept = kept.merged(first, values)
        return kept


def is_large(request: Request) -> bool:
    """Return whether a pool is worth threads, and a second of compiling."""
    per_row = (request.pool.width or 1000) + 8 * request.fitted.n_classes
    return len(request.pool) * per_row >= LARGE


def _shared(
    look: Callable[[slice, Any], RowScores], rule: Rule, request: Request
) -> Iterable[RowScores]:
    """Return the scores of each block of the pool, in order; large pools use all cores."""
    pool, fitted, size = request.pool, request.fitted, block_size(request.fitted.n_classes)
    plain = array_api_compat.is_numpy_array(fitted.params) and fitted.portable
    if not (plain and rule.parallel and is_large(request)):
        return (look(*block) for block in pool.blocks(size))
    jobs, total, grid = cores(), len(pool), chunk_rows(fitted.n_classes)
    wanted = max(size, min(-(-total // (8 * jobs)), LARGE // 8 // (pool.width or 1000)))
    wanted = wanted if fitted.transform is None else MAPPED
    size = -(-wanted // grid) * grid

    def task(start: int) -> RowScores:
        part = slice(start, min(start + size, total))
        return look(part, pool.part(part.start, part.stop))

    with accelerated(True), one_blas_thread(), ThreadPoolExecutor(jobs) as threads:
        return list(threads.map(task, range(0, total, size)))


@dataclass(frozen=True)
class Memory(Engine):
    """Block by block in this process, on all cores for large pools; all scores are kept.

    Uses as many threads as BLAS (OMP_NUM_THREADS, `threadpoolctl`).

    Examples
    --------
    >>> Memory()
    Memory()
    """

    whole = True

    def scan(self, rule: Rule, request: Request, kept: Best | None) -> ScanResult:
        fitted, total = request.fitted, len(request.pool)
        utility = np.empty(total)
        small = total * fitted.n_classes * 8 <= LARGEST_TABLE

        # All rows stay in play, so their scores serve the picks.
        few = total <= block_size(fitted.n_classes) and (kept is None or kept.count >= total)
        play: list[tuple[Rule, Candidates]] = []

        def look(part: slice, X: Any) -> RowScores:
            names = request.names(np.arange(part.start, part.stop))
            rows = fitted.candidates(X, names, part.start)
            scorer = rule.playing(rows) if few else rule
            if few:
                play.append((scorer, rows))
            scores = scorer.scores(rows)
            check_scores(scores.values, rows)
            utility[part] = to_numpy(scores.values)
            return scores

        tables: list[Any] = []
        leverages, lows, highs, unit = [], [], [], 0.0
        for scores in _shared(look, rule, request):
            if scores.leverage is not None:
                leverages.append(to_numpy(scores.leverage))
            if scores.per_label is not None:
                block, xp = scores.per_label, namespace(scores.per_label)
                lows.append(to_numpy(xp.min(block, axis=0)))
                highs.append(to_numpy(xp.max(block, axis=0)))
                unit = max(unit, eps(block))
                if small:
                    tables.append(to_numpy(block))
        if lows and total > 1:
            scale = float(np.max(np.max(highs, axis=0) - np.min(lows, axis=0)))
            least, most = float(utility.min()), float(utility.max())
            warn_if_vacuous(least, most, scale, unit, rule.name)
        table: Any = stacked(tables) if tables else None
        if table is None and small and rule.explained:
            table = partial(_table, rule, request)
        mean = float(np.concatenate(leverages).mean()) if leverages else None
        values = utility.copy()
        values[request.excluded] = -np.inf
        if kept is None:
            return ScanResult(np.arange(total), values, utility, table, mean, *play)
        best = kept.merged(0, values)
        return ScanResult(best.rows, best.values, utility, table, mean, *play)


def _table(rule: Rule, request: Request) -> Any:
    """Return the utilities of every row under every label, read again."""
    parts = []
    for part, X in request.pool.blocks(block_size(request.fitted.n_classes)):
        names = request.names(np.arange(part.start, part.stop))
        parts.append(rule.table(request.fitted.candidates(X, names, part.start)))
    return stacked(parts)

"""How a pool is read through a rule; here in memory, in `goalward.scale` elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import eps, namespace, rows_at, to_numpy
from goalward.core.kernels.compiled import accelerated
from goalward.core.pool import as_pool
from goalward.core.rows import Candidates
from goalward.core.threads import cores, one_blas_thread
from goalward.labels import warn_if_vacuous
from goalward.models import Fitted, Labelled
from goalward.strategies.selectors import Best, Shortlist
from goalward.utility.utility import (
    ExplainedRule,
    RowScores,
    Rule,
    SequentialRule,
    block_size,
    check_scores,
    chunk_rows,
    stacked,
)

if TYPE_CHECKING:
    from goalward.strategies.strategy import Request

LARGEST_TABLE = 256 * 2**20
"""Bytes of (N, K) utilities that a suggestion keeps."""
LARGE = 2**26
"""Numbers from which on threads and compiled loops pay: features, and eight for each label."""


@dataclass(frozen=True, eq=False)
class ScanResult:
    """What an engine brings back: the best rows, and all scores where it keeps them.

    Parameters
    ----------
    positions, values
        Of the rows kept, best first.
    utility
        (N,) score of every row.
    table
        (N, K) utilities under every label, or how to get them.
    leverage
        Mean leverage of the pool.
    play
        The rule with all rows of the pool in play, and these rows, where they are few.
    """

    positions: NDArray[Any]
    values: NDArray[Any]
    utility: NDArray[Any] | None = None
    table: NDArray[Any] | Callable[[], Any] | None = None
    leverage: float | None = None
    play: tuple[Rule, Candidates] | None = None

    def shortlist(self, rule: Rule, request: Request) -> Shortlist:
        """Return the rows that a batch is picked from; what was read is not read again."""
        if self.play is None:
            return Shortlist(rule, self.positions, self.values, request.read)
        playing, rows = self.play

        def read(positions: NDArray[Any]) -> Candidates:
            whole = np.array_equal(positions, np.arange(len(rows)))
            return rows if whole else request.read(positions)

        return Shortlist(playing, self.positions, self.values, read)

    def joined(self, positions: NDArray[Any], values: NDArray[Any]) -> ScanResult:
        """Return the rows kept and others."""
        new = ~np.isin(positions, self.positions)
        positions = np.append(self.positions, positions[new])
        return replace(self, positions=positions, values=np.append(self.values, values[new]))


class Engine(Protocol):
    """A way to read a pool: in memory, by threads, on a cluster, on a GPU.

    One that has arrays of its own may also say `narrowed(request, positions)`: the request of a few
    rows alone, with these and the model where it works. Strategies for which that makes no difference
    (`Strategy.anywhere`) then work on a short list there.
    """

    whole: bool
    """Whether it keeps the score of every row."""

    def scan(self, rule: Rule, request: Request, kept: Best | None) -> ScanResult:
        """Return the best rows of a pool under a rule; all of them where `kept` is None."""
        ...


@dataclass(frozen=True, eq=False)
class Reader:
    """A rule and the model it sees rows with: rows in, one number a row out, in any process.

    Parameters
    ----------
    compiled
        Whether compiled loops are used, so that all processes round alike.
    """

    rule: Rule
    fitted: Fitted
    compiled: bool = False

    @classmethod
    def of(cls, rule: Rule, fitted: Fitted) -> Reader:
        """Return what travels: no labelled rows but one, which a model must have."""
        old = fitted.labelled
        first = Labelled(rows_at(old.X, slice(0, 1)), old.targets[:1, :], old.weights[:1])
        return cls(rule.portable(), replace(fitted, labelled=first))

    def values(self, X: Any, start: int, ids: NDArray[Any]) -> NDArray[Any]:
        """Return the scores of rows that start at a position of the pool."""
        rows = self.fitted.candidates(X, ids, start)
        scores = self.rule(rows)
        check_scores(scores, rows)
        return to_numpy(scores)

    def best(
        self, part: Any, start: int, block: int, excluded: NDArray[Any], kept: Best, ids: Any = None
    ) -> Best:
        """Return the best rows of a part of the pool that starts at a position."""
        for where, X in as_pool(part).blocks(block):
            first = start + where.start
            names = np.arange(first, start + where.stop) if ids is None else ids[where]
            values = self.values(X, first, names)
            kept = kept.merged(first, without(values, first, excluded))
        return kept


def is_large(request: Request) -> bool:
    """Return whether a pool is worth threads, and a second of compiling."""
    per_row = (request.pool.width or 1000) + 8 * request.fitted.n_classes
    return len(request.pool) * per_row >= LARGE


def _shared(
    look: Callable[[slice, Any], RowScores], rule: Rule, request: Request
) -> Iterable[RowScores]:
    """Return what is seen of each block of the pool, in order; all cores look at a large one."""
    pool, fitted, size = request.pool, request.fitted, block_size(request.fitted.n_classes)
    plain = array_api_compat.is_numpy_array(fitted.params) and fitted.transform is None
    if not (plain and rule.parallel and is_large(request)):
        return (look(*block) for block in pool.blocks(size))
    jobs, total, grid = cores(), len(pool), chunk_rows(fitted.n_classes)
    wanted = min(-(-total // (8 * jobs)), LARGE // 8 // (pool.width or 1000))
    size = max(size, -(-wanted // grid) * grid)

    def task(start: int) -> RowScores:
        part = slice(start, min(start + size, total))
        return look(part, pool.part(part.start, part.stop))

    with accelerated(True), one_blas_thread(), ThreadPoolExecutor(jobs) as threads:
        return list(threads.map(task, range(0, total, size)))


def without(values: NDArray[Any], start: int, excluded: NDArray[Any]) -> NDArray[Any]:
    """Return the values with those at sorted excluded positions at minus infinity."""
    low, high = np.searchsorted(excluded, [start, start + len(values)])
    if low == high:
        return values
    kept = values.astype(np.float64)
    kept[excluded[low:high] - start] = -np.inf
    return kept


@dataclass(frozen=True)
class Memory:
    """Block by block in this process, a large pool by all cores; the score of every row is kept.

    As many threads as BLAS has, so OMP_NUM_THREADS and `threadpoolctl` say how many.

    Examples
    --------
    >>> Memory()
    Memory()
    """

    whole = True

    def scan(self, rule: Rule, request: Request, kept: Best | None) -> ScanResult:
        """Return the best rows, and every score."""
        fitted, total = request.fitted, len(request.pool)
        utility = np.empty(total)
        small = total * fitted.n_classes * 8 <= LARGEST_TABLE

        # All of them stay in play: what scores them serves the picks.
        few = total <= block_size(fitted.n_classes) and (kept is None or kept.count >= total)
        play: list[tuple[Rule, Candidates]] = []

        def look(part: slice, X: Any) -> RowScores:
            names = request.names(np.arange(part.start, part.stop))
            rows = fitted.candidates(X, names, part.start)
            scorer = rule
            if few and isinstance(rule, SequentialRule):
                scorer = rule.playing(rows)
                play.append((scorer, rows))
            scores = scorer.scores(rows)
            check_scores(scores.values, rows)
            utility[part] = to_numpy(scores.values)
            return scores

        tables: list[Any] = []
        leverages: list[NDArray[Any]] = []
        ends: list[tuple[Any, Any, float]] = []
        for scores in _shared(look, rule, request):
            if scores.leverage is not None:
                leverages.append(to_numpy(scores.leverage))
            if scores.per_label is not None:
                ends.append(_ends(scores.per_label))
                if small:
                    tables.append(to_numpy(scores.per_label))
        if ends and total > 1:
            low, high, unit = map(np.array, zip(*ends, strict=True))
            scale = float(np.max(high.max(axis=0) - low.min(axis=0)))
            least, most = float(utility.min()), float(utility.max())
            warn_if_vacuous(least, most, scale, float(unit.max()), rule.name)
        table: Any = stacked(tables) if tables else None
        if table is None and small and isinstance(rule, ExplainedRule):
            table = partial(self._table, rule, request)
        mean = float(np.concatenate(leverages).mean()) if leverages else None
        values = without(utility, 0, request.excluded)
        if kept is None:
            return ScanResult(np.arange(total), values, utility, table, mean, *play)
        best = kept.merged(0, values)
        return ScanResult(best.rows, best.values, utility, table, mean, *play)

    def _table(self, rule: ExplainedRule, request: Request) -> Any:
        """Return the utilities of every row under every label, read again."""
        parts = []
        for part, X in request.pool.blocks(block_size(request.fitted.n_classes)):
            names = request.names(np.arange(part.start, part.stop))
            parts.append(rule.table(request.fitted.candidates(X, names, part.start)))
        return stacked(parts)


def _ends(table: Any) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Return the least and largest utility of each label in a block, and the rounding unit."""
    xp = namespace(table)
    return to_numpy(xp.min(table, axis=0)), to_numpy(xp.max(table, axis=0)), eps(table)

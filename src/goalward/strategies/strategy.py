"""What every strategy does: score the pool, pick a batch, say why."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.core.candidates import Candidates
from goalward.errors import BadParameter, DuplicateRows, NotFinite, PoolExhausted, ShapeMismatch
from goalward.models import Fitted, as_fitted
from goalward.pool import PoolFile, blocks, n_rows, take_rows
from goalward.selection import Score, Selector, Top
from goalward.solvers import Solution
from goalward.strategies.lookahead import Settled
from goalward.utility import Fidelity
from goalward.utility.utility import block_size

__all__ = [
    "Scores",
    "Strategy",
    "Suggestion",
    "as_objects",
    "candidate_blocks",
    "clean_ids",
    "free_rows",
    "is_count",
]


Table: TypeAlias = NDArray[Any] | Callable[[], Any]
"""(N, K) utilities, or how to get them: most callers only want the rows."""


@dataclass(frozen=True)
class Suggestion:
    """The rows worth a label next, best first, and what was thought of all of them.

    Parameters
    ----------
    rows
        (b,) ids of the rows: positions in the pool, unless ids were given.
    utility
        (N,) score of every row of the pool; excluded rows have theirs too.
    table
        How to get `per_label`, or the table itself.
    solver
        How the goal's direction was solved for: residual, iterations, which and why.
    leverage
        Mean leverage tr(ΛM) of the pool, where the utility knows it: up to about 0.1 first
        order is enough.
    fidelity
        How the scores compare with retraining, if that was asked for.
    """

    rows: NDArray[Any]
    utility: NDArray[Any] = field(repr=False)
    table: Table | None = field(default=None, repr=False)
    solver: Solution | None = field(default=None, repr=False)
    leverage: float | None = None
    fidelity: Fidelity | None = None

    @cached_property
    def per_label(self) -> NDArray[Any] | None:
        """(N, K) utility under every label; taken from the pool when first asked for.

        So the pool must still be what it was: ask before it is changed.
        None for strategies that have none, and for pools whose table would not fit in 256 MB.
        """
        return to_numpy(self.table()) if callable(self.table) else self.table


class Scores(NamedTuple):
    """What a strategy thinks of a pool."""

    utility: NDArray[Any]
    per_label: Table | None = None
    solver: Solution | None = None
    leverage: float | None = None
    used: Any = None


class Strategy(ABC):
    """A way to choose the rows to label next. The model is fitted outside, once a round."""

    seed: int
    selection: Selector = Top()
    needs: ClassVar[frozenset[str]] = frozenset()

    def build(self, **data: Any) -> Strategy:
        """Return the strategy itself: it has its data, where a recipe waits for them."""
        return self

    @property
    def labels_held(self) -> int:
        """How many labels it brings along, beside those of the model."""
        return 0

    def progress(self, fitted: Fitted) -> float:
        """Return the value of its goal at a model; NaN without one."""
        return float("nan")

    def at(self, fitted: Fitted, round: int = 0) -> Strategy:
        """Return the strategy as it stands for one round; most are the same in all of them."""
        return self

    @abstractmethod
    def score(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any], round: int) -> Scores:
        """Return the utility of every row of the pool."""

    def suggest(
        self,
        fitted: Fitted,
        X_pool: Any,
        batch: int = 10,
        exclude: Iterable[Any] = (),
        *,
        rows: Any = None,
        round: int = 0,
        fidelity: int = 0,
    ) -> Suggestion:
        """Return the `batch` rows of the pool worth labelling next, best first.

        Parameters
        ----------
        X_pool
            (N, d) rows: an array, a memory map, sparse, or a frame; read in blocks.
        exclude
            Ids of rows not to suggest: labelled or asked already. An id that is not in the
            pool is refused, since it is a mistake as a rule.
        rows
            Ids of the rows, distinct; positions by default.
        round
            Which round this is, from 0, for schedules.
        fidelity
            Retrain this many candidates, spread over the scores, and report how far the
            utilities can be trusted. Only strategies with a goal can.
        """
        fitted = as_fitted(fitted)
        total = n_rows(X_pool)
        if rows is None and isinstance(X_pool, PoolFile):
            rows = X_pool.ids()
        ids = clean_ids(rows, total)
        free = free_rows(ids, exclude)
        if not is_count(batch):
            raise BadParameter(
                f"batch={batch!r}; a whole number of at least 1 was expected. Ask for 1 or more."
            )
        left = int(free.sum())
        if batch > left and total > 0:
            raise PoolExhausted(
                f"{batch} rows were asked for and {left} are left of {total} "
                f"({total - left} excluded). Ask for fewer, or add rows to the pool."
            )
        now = self.at(fitted, round)
        scores = now.score(fitted, X_pool, ids, round)
        if not np.all(np.isfinite(scores.utility)):
            raise NotFinite(
                f"{np.sum(~np.isfinite(scores.utility))} rows have a utility that is not a finite "
                "number; finite ones were expected. Check the strategy at these rows."
            )
        rng = np.random.default_rng([now.seed, round])
        values = np.where(free, scores.utility, -np.inf)
        score = now.outlook(fitted, X_pool, ids, values, round, scores.used)
        chosen = now.selection(score, int(batch), rng)
        checked = None
        if fidelity:
            where = np.flatnonzero(free)
            checked = now.check(fitted, take_rows(X_pool, where), fidelity, ids[where], round)
        return Suggestion(ids[chosen], *scores[:4], fidelity=checked)

    def check(
        self, fitted: Fitted, X_pool: Any, rows: int, ids: NDArray[Any], round: int
    ) -> Fidelity:
        """Return how the scores compare with retraining; refused without a goal."""
        raise BadParameter(
            f"fidelity={rows} was asked of {type(self).__name__}, which predicts no utility; "
            "GoalOriented was expected. Leave fidelity out."
        )

    def outlook(
        self,
        fitted: Fitted,
        X_pool: Any,
        rows: NDArray[Any],
        values: NDArray[Any],
        round: int,
        used: Any = None,
    ) -> Score:
        """Return the scores as a selector sees them; they do not change without a goal."""
        return Settled(values)


def candidate_blocks(
    fitted: Fitted, X_pool: Any, rows: NDArray[Any]
) -> Iterator[tuple[slice, Candidates]]:
    """Return the pool in blocks, each with what the model predicts for it."""
    for part, X in blocks(X_pool, block_size(fitted.n_classes)):
        features = fitted.features(X, "X_pool")
        proba = fitted.loss.proba(fitted.logits_of(features))
        yield part, Candidates(rows[part], features, proba)


def is_count(batch: Any) -> bool:
    """Return whether it is a whole number of at least 1."""
    return type(batch) is not bool and isinstance(batch, Integral) and int(batch) >= 1


def clean_ids(rows: Any, total: int) -> NDArray[Any]:
    """Return ids as they came: an array of one type, or of objects where types are mixed."""
    if rows is None:
        return np.arange(total)
    ids = rows if isinstance(rows, np.ndarray) else as_objects(list(rows))
    if ids.shape != (total,):
        raise ShapeMismatch(
            f"rows has shape {ids.shape}; ({total},), an id for each row of the pool, was "
            "expected. Pass one id per row."
        )
    listed = ids.tolist()
    if len(set(listed)) < total:
        twice = next(i for i, n in Counter(listed).items() if n > 1)
        raise DuplicateRows(
            f"Row id {twice!r} stands {listed.count(twice)} times; distinct ids were expected. "
            "Drop the repeated rows or number them anew."
        )
    return ids


def as_objects(listed: list[Any]) -> NDArray[Any]:
    """Return a list as an array that keeps every element what it is."""
    one_type = len({type(value) for value in listed}) == 1
    if one_type and isinstance(listed[0], (bool, int, float, str, np.generic)):
        return np.array(listed)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def free_rows(ids: NDArray[Any], exclude: Any) -> NDArray[Any]:
    """Return which rows may be suggested."""
    free = np.ones(len(ids), dtype=bool)
    listed = exclude.tolist() if isinstance(exclude, np.ndarray) else list(exclude)
    if not listed:
        return free
    flags = sum(isinstance(row, (bool, np.bool_)) for row in listed)
    # True equals 1 to Python, and names no row unless an id is a boolean too.
    if flags and not any(isinstance(known, bool) for known in ids.tolist()):
        came = "is a mask of" if flags == len(listed) else f"has {len(listed)} entries, among them"
        raise BadParameter(
            f"exclude {came} {flags} booleans; ids of rows were expected. Pass np.flatnonzero(mask), or "
            "the ids at the mask."
        )
    place = {row: i for i, row in enumerate(ids.tolist())}
    unknown = [row for row in listed if row not in place]
    if unknown:
        raise BadParameter(
            f"exclude names {len(unknown)} rows that are not in the pool, the first {unknown[0]!r} "
            f"({type(unknown[0]).__name__}); ids of the pool, like {ids.tolist()[0]!r}, were "
            "expected. Pass positions in the pool, or rows= with the ids that exclude names."
        )
    free[[place[row] for row in listed]] = False
    return free

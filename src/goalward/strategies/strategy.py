"""What every strategy does: score the pool, pick a batch, say why."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter, DuplicateRows, PoolExhausted, ShapeMismatch
from goalward.learners import Candidates, Fitted
from goalward.pool import blocks, n_rows
from goalward.selection import Selector, Top
from goalward.solvers import Solution
from goalward.utility.utility import block_size

__all__ = ["Scores", "Strategy", "Suggestion", "candidate_blocks"]


@dataclass(frozen=True)
class Suggestion:
    """The rows worth a label next, best first, and what was thought of all of them.

    Parameters
    ----------
    rows
        (b,) ids of the rows: positions in the pool, unless ids were given.
    utility
        (N,) score of every row of the pool; excluded rows have theirs too.
    per_label
        (N, K) utility under every label; None for strategies that have none, and for
        pools whose table would not fit in 256 MB.
    solver
        How the goal's direction was solved for: residual, iterations, which and why.
    """

    rows: NDArray[Any]
    utility: NDArray[Any] = field(repr=False)
    per_label: NDArray[Any] | None = field(default=None, repr=False)
    solver: Solution | None = field(default=None, repr=False)


class Scores(NamedTuple):
    """What a strategy thinks of a pool."""

    utility: NDArray[Any]
    per_label: NDArray[Any] | None = None
    solver: Solution | None = None


class Strategy(ABC):
    """A way to choose the rows to label next. The model is fitted outside, once a round."""

    seed: int
    selection: Selector = Top()

    @abstractmethod
    def score(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any], round: int) -> Scores:
        """Return the utility of every row of the pool."""

    def suggest(
        self,
        fitted: Fitted,
        X_pool: Any,
        batch: int = 10,
        exclude: Collection[Any] = (),
        *,
        rows: Any = None,
        round: int = 0,
    ) -> Suggestion:
        """Return the `batch` rows of the pool worth labelling next, best first.

        Parameters
        ----------
        X_pool
            (N, d) rows: an array, a memory map, sparse, or a frame; read in blocks.
        exclude
            Ids of rows not to suggest: labelled or asked already.
        rows
            Ids of the rows, distinct; positions by default.
        round
            Which round this is, from 0, for schedules.
        """
        total = n_rows(X_pool)
        ids = _ids(rows, total)
        free = _free(ids, exclude)
        if not _is_count(batch):
            raise BadParameter(
                f"batch={batch!r}; a whole number of at least 1 was expected. Ask for 1 or more."
            )
        left = int(free.sum())
        if batch > left and total > 0:
            raise PoolExhausted(
                f"{batch} rows were asked for and {left} are left of {total} "
                f"({total - left} excluded). Ask for fewer, or add rows to the pool."
            )
        scores = self.score(fitted, X_pool, ids, round)
        rng = np.random.default_rng([self.seed, round])
        chosen = self.selection(_Values(np.where(free, scores.utility, -np.inf)), int(batch), rng)
        return Suggestion(ids[chosen], *scores)


@dataclass(frozen=True)
class _Values:
    utility: NDArray[Any]

    def values(self) -> NDArray[Any]:
        return self.utility


def candidate_blocks(
    fitted: Fitted, X_pool: Any, rows: NDArray[Any]
) -> Iterator[tuple[slice, Candidates]]:
    """Return the pool in blocks, each with what the model predicts for it."""
    for part, X in blocks(X_pool, block_size(fitted.n_classes)):
        features = fitted.features(X, "X_pool")
        proba = fitted.loss.proba(fitted.logits_of(features))
        yield part, Candidates(rows[part], features, proba)


def _is_count(batch: Any) -> bool:
    return isinstance(batch, Integral) and int(batch) >= 1


def _ids(rows: Any, total: int) -> NDArray[Any]:
    if rows is None:
        return np.arange(total)
    ids = np.asarray(rows)
    if ids.shape != (total,):
        raise ShapeMismatch(
            f"rows has shape {ids.shape}; ({total},), an id for each row of the pool, was "
            "expected. Pass one id per row."
        )
    distinct, counts = np.unique(ids, return_counts=True)
    if len(distinct) < total:
        raise DuplicateRows(
            f"Row id {distinct[counts > 1].tolist()[0]!r} stands {counts.max()} times; distinct ids were "
            "expected. Drop the repeated rows or number them anew."
        )
    return ids


def _free(ids: NDArray[Any], exclude: Collection[Any]) -> NDArray[Any]:
    if len(exclude) == 0:
        return np.ones(len(ids), dtype=bool)
    listed = np.asarray(exclude if isinstance(exclude, np.ndarray) else list(exclude))
    free: NDArray[Any] = ~np.isin(ids, listed)
    return free

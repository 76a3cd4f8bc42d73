"""A dear strategy on a random part of the pool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.models import Fitted
from goalward.pool import n_rows, take_rows
from goalward.strategies.strategy import Scores, Strategy, Suggestion, clean_ids, free_rows

__all__ = ["Subsampled"]


@dataclass(frozen=True)
class Subsampled(Strategy):
    """Another strategy, shown `candidates` free rows drawn at random in every round.

    For utilities that cost a fit each: `Retrain` of a network, or of a classifier without
    curvature. Rows that were not drawn have NaN for a utility.

    Parameters
    ----------
    strategy
        What scores the rows drawn.
    candidates
        How many are drawn; the batch, if that is larger.

    Examples
    --------
    >>> from goalward.strategies import Margin
    >>> Subsampled(Margin(), candidates=100)
    Subsampled(strategy=Margin(seed=0), candidates=100, seed=0)
    """

    strategy: Strategy
    candidates: int = field(default=100, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise BadParameter(f"candidates={self.candidates!r}; at least 1 was expected. Use 100.")

    def score(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any], round: int) -> Scores:
        """Return the scores of the strategy within, for every row."""
        return self.strategy.score(fitted, X_pool, rows, round)

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
        """Return the `batch` rows worth labelling next among those drawn, best first."""
        total = n_rows(X_pool)
        ids = clean_ids(rows, total)
        free = np.flatnonzero(free_rows(ids, exclude))
        if not isinstance(batch, (int, np.integer)) or not 1 <= batch <= len(free):
            # The checks, and what they say, are those of every strategy.
            return super().suggest(fitted, X_pool, batch, exclude, rows=rows, round=round)
        rng = np.random.default_rng([self.seed, round])
        count = min(len(free), max(self.candidates, int(batch)))
        drawn = np.sort(rng.choice(free, size=count, replace=False))
        inner = self.strategy.suggest(
            fitted,
            take_rows(X_pool, drawn),
            batch,
            rows=ids[drawn],
            round=round,
            fidelity=fidelity,
        )
        utility = np.full(total, np.nan)
        utility[drawn] = inner.utility
        table = None
        if inner.per_label is not None:
            table = np.full((total, inner.per_label.shape[1]), np.nan)
            table[drawn] = inner.per_label
        return replace(inner, utility=utility, table=table)

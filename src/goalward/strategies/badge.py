"""BADGE: diverse rows with large gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, rows_at, to_numpy
from goalward.models import Fitted
from goalward.pool import n_rows
from goalward.selection import Score
from goalward.strategies.strategy import Scores, Strategy, candidate_blocks

__all__ = ["Badge"]


@dataclass(frozen=True)
class Badge(Strategy):
    """k-means++ on gradients of the likeliest label (Ash et al. 2020, arXiv 1906.03671).

    The gradient of a row is x (p - e_ŷ)ᵀ. Its inner products are products of two small ones,
    so the N x d x K table of gradients is never made. A row is never drawn twice.

    Examples
    --------
    >>> Badge(seed=1)
    Badge(seed=1)
    """

    seed: int = 0

    def score(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any], round: int) -> Scores:
        """Return the length of each row's gradient."""
        lengths = np.empty(n_rows(X_pool))
        for part, candidates in candidate_blocks(fitted, X_pool, rows):
            slope = _slopes(to_numpy(candidates.proba))
            norms = to_numpy(fitted.model.squared_norms(candidates.X, fitted.params))
            lengths[part] = np.sqrt(norms * np.sum(slope * slope, axis=1))
        return Scores(lengths)

    def outlook(
        self,
        fitted: Fitted,
        X_pool: Any,
        rows: NDArray[Any],
        values: NDArray[Any],
        round: int,
        used: Any = None,
    ) -> Score:
        """Return distances between gradients, to the nearest one that is taken."""
        features = fitted.features(X_pool, "X_pool")
        proba = to_numpy(fitted.loss.proba(fitted.logits_of(features)))
        X = features if is_sparse(features) else to_numpy(features)
        intercept = fitted.linear("Badge").intercept
        return _Gradients(X, _slopes(proba), values, intercept)

    @property
    def selection(self) -> Any:  # type: ignore[override]
        """k-means++: the longest first, then at random by squared distance."""
        return _plus_plus


def _plus_plus(score: Any, batch: int, rng: np.random.Generator) -> NDArray[Any]:
    values = score.values()
    picked = [int(rng.choice(np.flatnonzero(values == values.max())))]
    while len(picked) < batch:
        score.absorb(picked[-1])
        weights = score.values()
        free = np.isfinite(weights)
        weights = np.where(free, weights, 0.0)
        total = weights.sum()
        # All gradients equal to one that is taken: any free row is as good.
        chances = weights / total if total > 0.0 else free / free.sum()
        picked.append(int(rng.choice(len(weights), p=chances)))
    return np.array(picked)


class _Gradients:
    """Squared distances to the nearest gradient taken; lengths before the first."""

    def __init__(
        self, X: Any, slopes: NDArray[Any], lengths: NDArray[Any], intercept: bool
    ) -> None:
        self._X, self._slopes, self._constant = X, slopes, float(intercept)
        self._lengths = lengths
        self._nearest: NDArray[Any] | None = None

    def values(self) -> NDArray[Any]:
        return self._lengths if self._nearest is None else self._nearest

    def focus(self, rows: NDArray[Any]) -> None:
        """Keep everything in play: diversity has no short list."""

    def absorb(self, row: int, update: str = "", radius: float = 0.0) -> None:
        product = self._X @ rows_at(self._X, np.array([row])).T
        product = product.toarray() if is_sparse(product) else product
        inner = (product[:, 0] + self._constant) * (self._slopes @ self._slopes[row])
        squares = np.where(np.isfinite(self._lengths), self._lengths**2, np.inf)
        gap = np.maximum(squares + self._lengths[row] ** 2 - 2.0 * inner, 0.0)
        before = np.full(len(gap), np.inf) if self._nearest is None else self._nearest
        nearest = np.minimum(before, gap)
        nearest[~np.isfinite(self._lengths)] = -np.inf
        nearest[row] = -np.inf
        if self._nearest is not None:
            nearest[~np.isfinite(self._nearest)] = -np.inf
        self._nearest = nearest


def _slopes(proba: NDArray[Any]) -> NDArray[Any]:
    slopes: NDArray[Any] = proba.copy()
    slopes[np.arange(len(proba)), proba.argmax(axis=1)] -= 1.0
    return slopes

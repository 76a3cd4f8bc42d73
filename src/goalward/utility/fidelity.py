"""How far a cheap utility can be trusted here: a few candidates, really retrained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import like, to_numpy
from goalward.errors import BadParameter

if TYPE_CHECKING:
    from goalward.goals import Goal
    from goalward.labels import Resolver
    from goalward.models import Fitted
    from goalward.utility.utility import Utility

__all__ = ["Fidelity", "fidelity", "rank_correlation", "stratified"]


@dataclass(frozen=True)
class Fidelity:
    """Agreement of a utility with retraining on a sample of (row, label) pairs.

    Parameters
    ----------
    rank, low, high
        Spearman correlation and its 95 % interval over rows, by bootstrap: of the scores
        after an operator where one is known, else of all (row, label) pairs.
    pairs
        Spearman correlation of all (row, label) pairs.
    slope
        Of retrained on predicted utilities; below 1 the utility over-estimates.
    rows
        Positions retrained.
    """

    utility: str
    rank: float
    low: float
    high: float
    slope: float
    rows: NDArray[Any]
    pairs: float

    def __str__(self) -> str:
        return (
            f"{self.utility}: rank correlation with retraining {self.rank:.2f} "
            f"[{self.low:.2f}, {self.high:.2f}], slope {self.slope:.2f}, on {len(self.rows)} rows"
        )


def stratified(scores: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return `count` positions, one at random from each stretch of the sorted scores."""
    order = np.argsort(scores, kind="stable")
    parts = np.array_split(order, min(count, len(order)))
    return np.sort([rng.choice(part) for part in parts])


def fidelity(
    utility: Utility,
    fitted: Fitted,
    goal: Goal,
    X_pool: Any,
    *,
    rows: int = 20,
    seed: int = 0,
    resolver: Resolver | None = None,
    ids: NDArray[Any] | None = None,
) -> Fidelity:
    """Return the agreement of `utility` with retraining on a stratified sample of the pool.

    Parameters
    ----------
    resolver, ids
        An operator bound to the model, and the ids of the rows: what is compared then are the
        scores, which can disagree where the utilities agree.
    """
    from goalward.pool import n_rows, take_rows
    from goalward.utility.retrain import Retrain

    if min(rows, n_rows(X_pool)) < 3:
        raise BadParameter(
            f"rows={rows} of a pool of {n_rows(X_pool)}; at least 3 were expected. Use 20."
        )
    rng = np.random.default_rng(seed)
    predicted = to_numpy(utility(fitted, goal, X_pool))
    names = np.arange(len(predicted)) if ids is None else ids
    sample = stratified(predicted.mean(axis=1), rows, rng)
    some = take_rows(X_pool, sample)
    guess, exact = predicted[sample], to_numpy(Retrain()(fitted, goal, some))
    a, b = guess, exact
    if resolver is not None:
        block = fitted.candidates(some, names[sample])
        a, b = (to_numpy(resolver(like(u, fitted.params), block)) for u in (guess, exact))
        # Equal to rounding is equal: ranks of noise say nothing.
        a = a if np.ptp(a) > 1e-9 * np.abs(guess).max() else np.zeros_like(a)
    ranks = []
    for _ in range(500):
        draw = rng.integers(len(sample), size=len(sample))
        ranks.append(_rank(a[draw], b[draw]))
    low, high = np.quantile(ranks, [0.025, 0.975])
    spread = float(np.sum((guess - guess.mean()) ** 2))
    slope = float(np.sum((guess - guess.mean()) * (exact - exact.mean())) / spread)
    return Fidelity(
        repr(utility), _rank(a, b), float(low), float(high), slope, sample, _rank(guess, exact)
    )


def _rank(a: NDArray[Any], b: NDArray[Any]) -> float:
    return 0.0 if np.ptp(a) == 0.0 or np.ptp(b) == 0.0 else rank_correlation(a, b)


def rank_correlation(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return Spearman's correlation: that of the ranks, equal values sharing theirs."""
    return float(np.corrcoef(_ranks(a.ravel()), _ranks(b.ravel()))[0, 1])


def _ranks(values: NDArray[Any]) -> NDArray[Any]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]

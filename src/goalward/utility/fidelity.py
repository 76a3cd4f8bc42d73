"""How far a cheap utility can be trusted here: a few candidates, really retrained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from goalward.arrays import to_numpy
from goalward.errors import BadParameter

if TYPE_CHECKING:
    from goalward.goals import Goal
    from goalward.learners import Fitted
    from goalward.utility.utility import Utility

__all__ = ["Fidelity", "fidelity", "stratified"]


@dataclass(frozen=True)
class Fidelity:
    """Agreement of a utility with retraining on a sample of (row, label) pairs.

    Parameters
    ----------
    rank, low, high
        Spearman correlation and its 95 % interval over rows, by bootstrap.
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
) -> Fidelity:
    """Return the agreement of `utility` with retraining on a stratified sample of the pool."""
    from goalward.pool import take_rows
    from goalward.utility.retrain import Retrain

    if rows < 3:
        raise BadParameter(f"rows={rows}; at least 3 were expected. Use 20.")
    rng = np.random.default_rng(seed)
    predicted = to_numpy(utility(fitted, goal, X_pool))
    sample = stratified(predicted.mean(axis=1), rows, rng)
    exact = to_numpy(Retrain()(fitted, goal, take_rows(X_pool, sample)))
    guess = predicted[sample]
    ranks = []
    for _ in range(500):
        draw = rng.integers(len(sample), size=len(sample))
        ranks.append(_rank(guess[draw], exact[draw]))
    low, high = np.quantile(ranks, [0.025, 0.975])
    spread = float(np.sum((guess - guess.mean()) ** 2))
    slope = float(np.sum((guess - guess.mean()) * (exact - exact.mean())) / spread)
    return Fidelity(repr(utility), _rank(guess, exact), float(low), float(high), slope, sample)


def _rank(a: NDArray[Any], b: NDArray[Any]) -> float:
    if np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        return 0.0
    return float(spearmanr(a.ravel(), b.ravel()).statistic)

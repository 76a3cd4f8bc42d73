"""BAIT: rows whose information, added to what is known, best covers the pool's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from goalward.goals import FisherRatio
from goalward.models import Fitted
from goalward.selection import Score, Sequential
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.strategy import Scores, Strategy
from goalward.strategies.taking import Taking
from goalward.utility import Information

__all__ = ["Bait"]


@dataclass(frozen=True)
class Bait(Strategy):
    """Forward greedy on tr((𝓗 + Σ Λ)⁻¹ F) (Ash et al. 2021, arXiv 2106.09675).

    F is the Fisher information of the pool, 𝓗 the curvature of the labelled rows with the
    penalty: the goal `FisherRatio` with the whole pool as reference. Taking a row x lowers the
    trace (over the number of rows) by tr((Λ⁻¹ + M)⁻¹ N) with M = J𝓗⁻¹Jᵀ its leverage and N = J𝓗⁻¹F𝓗⁻¹Jᵀ. The published backward
    pass is left out. With more than 1,000 unknowns the leading directions of the pool stand for
    the features.

    Examples
    --------
    >>> Bait()
    Bait(seed=0)
    """

    seed: int = 0
    # One row at a time over the whole pool: each adds its information.
    selection = Sequential(shortlist=None, radius=0.0)

    def score(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any], round: int) -> Scores:
        """Return how much each row alone would lower the trace."""
        scores = GoalOriented(FisherRatio(X_pool)).score(fitted, X_pool, rows, round)
        return scores._replace(per_label=None)

    def outlook(
        self,
        fitted: Fitted,
        X_pool: Any,
        rows: NDArray[Any],
        values: NDArray[Any],
        round: int,
        used: Any = None,
    ) -> Score:
        """Return gains that follow what has been taken."""
        gains = used or Information().prepare(fitted, FisherRatio(X_pool))
        return Taking(fitted, X_pool, rows, values, gains, copies=True)

"""BAIT: rows whose information, added to what is known, best covers the pool's."""

from __future__ import annotations

from dataclasses import dataclass

from goalward.goals import FisherRatio
from goalward.selection import Rule, Sequential
from goalward.strategies.request import Request
from goalward.strategies.strategy import Strategy
from goalward.utility import Information
from goalward.utility.information import GainRule

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
    selection = Sequential(shortlist=None, radius=None)

    def bind(self, request: Request) -> Rule:
        """Return how much each row alone would lower the trace."""
        return GainRule(Information().prepare(request.fitted, FisherRatio(request.pool.source)))

"""BAIT: rows whose information, added to what is known, best covers the pool's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import rows_at
from goalward.goals import FisherRatio
from goalward.strategies.request import Request
from goalward.strategies.selectors import Sequential
from goalward.strategies.strategy import Strategy
from goalward.utility import Information
from goalward.utility.information import GainRule, Together
from goalward.utility.rule import Rule, Shortlist

__all__ = ["Bait", "BaitBackward"]


@dataclass(frozen=True)
class Bait(Strategy):
    """Forward greedy on tr((𝓗 + Σ Λ)⁻¹ F) (Ash et al. 2021, arXiv 2106.09675).

    F is the Fisher information of the pool, 𝓗 the curvature of the labelled rows with the
    penalty: the goal `FisherRatio` with the whole pool as reference. Taking a row x lowers the
    trace (over the number of rows) by tr((Λ⁻¹ + M)⁻¹ N) with M = J𝓗⁻¹Jᵀ its leverage and N = J𝓗⁻¹F𝓗⁻¹Jᵀ. The published backward
    pass is left out: `BaitBackward` has it. With more than 1,000 unknowns the leading directions of
    the pool stand for the features.

    Examples
    --------
    >>> Bait()
    Bait(seed=0)
    """

    seed: int = 0
    # One row at a time over the whole pool: each adds its information.
    selection = Sequential(shortlist=None, radius=None)
    zero = 0.0

    def bind(self, request: Request) -> Rule:
        """Return how much each row alone would lower the trace."""
        return GainRule(Information().prepare(request.fitted, FisherRatio(request.pool.source)))


@dataclass(frozen=True)
class BaitBackward(Bait):
    """BAIT as published: twice the batch forward, then back to the batch.

    Of the rows that `Bait` takes for twice the batch, the one whose loss raises the trace least is
    given back, again and again, exactly. Both passes are greedy, so the way back can end at a higher
    trace than the forward pass alone; then that one's batch is taken. Rows are in the order in which
    they were taken.

    Examples
    --------
    >>> BaitBackward()
    BaitBackward(seed=0)
    """

    @property
    def selection(self) -> Any:  # type: ignore[override]
        """Forward, then backward."""
        return ForwardBackward()


@dataclass(frozen=True)
class ForwardBackward:
    """Twice the batch one at a time, then the rows that are needed least go again."""

    def keep(self, batch: int) -> None:
        """Return None: the whole pool stays in play."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions that stay, in the order in which they were taken."""
        free = len(shortlist.ordered().positions)
        taken = Bait.selection(shortlist, min(2 * batch, free), rng)
        rule: Any = shortlist.rule
        X = shortlist.read(taken).X
        forward = Together.of(rule.gains, rows_at(X, np.arange(batch)))
        together, kept = Together.of(rule.gains, X), np.ones(len(taken), dtype=bool)
        while kept.sum() > batch:
            least = int(np.where(kept, together.losses(), np.inf).argmin())
            kept[least], together = False, together.without(least)
        return np.asarray(taken[kept] if together.gain > forward.gain else taken[:batch])

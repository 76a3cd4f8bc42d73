"""One strategy until there are labels enough, then another."""

from __future__ import annotations

from dataclasses import dataclass, field

from goalward.models import Fitted
from goalward.selection import Rule
from goalward.strategies.request import Request, check_count
from goalward.strategies.strategy import Strategy

__all__ = ["Then"]


@dataclass(frozen=True)
class Then(Strategy):
    """`first` while the model has fewer than `labels` labelled rows, `later` from then on.

    Strategies that look for what is not known pay early, strategies that refine a boundary late.

    Parameters
    ----------
    labels
        Labelled rows of the model, those of the start included.

    Examples
    --------
    >>> from goalward.strategies import Margin, Random
    >>> Then(Random(), Margin(), labels=100)
    Then(first=Random(seed=0), later=Margin(seed=0), labels=100, seed=0)
    """

    first: Strategy
    later: Strategy
    labels: int = field(default=100, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        check_count("labels", self.labels)

    @property
    def labels_held(self) -> int:
        """The labels of either strategy: the same may serve both."""
        return max(self.first.labels_held, self.later.labels_held)

    def turn(self, fitted: Fitted, round: int) -> Strategy:
        """Return the strategy of this round."""
        few = len(fitted.labelled) < self.labels
        return (self.first if few else self.later).turn(fitted, round)

    def bind(self, request: Request) -> Rule:
        """Return the rule of the strategy of this round."""
        return self.turn(request.fitted, request.round).bind(request)

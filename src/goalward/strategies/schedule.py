"""One strategy until there are labels enough, then another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.models import Fitted
from goalward.strategies.strategy import Scores, Strategy, is_count

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
        if not is_count(self.labels):
            raise BadParameter(
                f"labels={self.labels!r}; a whole number of at least 1 was expected. Use 100."
            )

    def at(self, fitted: Fitted, round: int = 0) -> Strategy:
        """Return the strategy of this round."""
        few = len(fitted.labelled) < self.labels
        return (self.first if few else self.later).at(fitted, round)

    def score(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any], round: int) -> Scores:
        """Return what the strategy of this round thinks of the pool."""
        return self.at(fitted, round).score(fitted, X_pool, rows, round)

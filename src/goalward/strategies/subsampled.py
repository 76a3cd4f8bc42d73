"""A dear strategy on a random part of the pool."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.models import Fitted
from goalward.selection import Rule
from goalward.strategies.engine import Engine, Memory
from goalward.strategies.request import Request
from goalward.strategies.strategy import Strategy, Suggestion

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

    @property
    def labels_held(self) -> int:
        """The labels of the strategy within."""
        return self.strategy.labels_held

    def progress(self, fitted: Fitted) -> float:
        """Return the value of the goal of the strategy within."""
        return self.strategy.progress(fitted)

    def bind(self, request: Request) -> Rule:
        """Return the rule of the strategy within."""
        return self.strategy.bind(request)

    def choose(self, request: Request, engine: Engine) -> Suggestion:
        """Return the rows worth labelling next among those drawn, best first."""
        free, total = request.free, len(request.pool)
        rng = np.random.default_rng([self.seed, request.round])
        count = min(len(free), max(self.candidates, request.batch))
        drawn = np.sort(rng.choice(free, size=count, replace=False))
        few = request.narrowed(drawn)
        inner = self.strategy.turn(few.fitted, few.round).choose(few, Memory())
        utility = np.full(total, np.nan)
        utility[drawn] = inner.utility
        table = partial(_table, inner, drawn, total)
        return replace(inner, utility=utility, table=table, positions=drawn[inner.positions])


def _table(inner: Suggestion, drawn: NDArray[Any], total: int) -> NDArray[Any] | None:
    """Return what was said of the rows drawn, under every label; NaN of the others."""
    if inner.per_label is None:
        return None
    table = np.full((total, inner.per_label.shape[1]), np.nan)
    table[drawn] = inner.per_label
    return table

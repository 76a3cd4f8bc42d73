"""Greedy sampling for numbers: rows far from those that are known, in features and in what is said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import plain_rows, rows_at, stack_rows, to_numpy
from goalward.core.candidates import Candidates
from goalward.selection import Rule, Sequential
from goalward.selection.rule import FollowingRule
from goalward.strategies.core_set import squared_distances
from goalward.strategies.request import Request
from goalward.strategies.strategy import Strategy

__all__ = ["GreedySampling"]


@dataclass(frozen=True)
class GreedySampling(Strategy):
    """iGS (Wu, Lin and Huang 2019): the row whose distance to all known ones, in x times y, is largest.

    The score is min over known rows m of ‖x - x_m‖ ‖f(x) - y_m‖, in the model's features, with each
    number in units of its deviation among the labels. A row taken into a batch counts as known, with
    what is predicted for it.

    Examples
    --------
    >>> GreedySampling()
    GreedySampling(seed=0)
    """

    seed: int = 0
    selection = Sequential(shortlist=None, radius=None)

    def bind(self, request: Request) -> Rule:
        """Return each row's distance to the nearest known row."""
        fitted = request.fitted
        fitted.check_kind("GreedySampling", ("numbers",))
        y = to_numpy(fitted.labelled.targets)
        scale = np.maximum(y.std(axis=0), 1e-12)
        return _GreedyRule(plain_rows(fitted.labelled.X), y / scale, scale)


@dataclass(frozen=True, eq=False)
class _GreedyRule(FollowingRule):
    known: Any
    y: NDArray[Any]
    scale: NDArray[Any]

    def fresh(self, rows: Candidates) -> NDArray[Any]:
        """Return the score of every row."""
        return np.asarray(self._apart(rows, self.known, self.y).min(axis=1))

    def following(self, rows: Candidates, values: NDArray[Any]) -> Rule:
        """Return the rule with the scores that the pool was scanned for."""
        return replace(self, taken=(rows, values))

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        """Return the rule with one more row known, as it is predicted."""
        newest = rows_at(plain_rows(rows.X), np.array([position]))
        said = to_numpy(rows.proba)[[position]] / self.scale
        nearer = np.minimum(self(rows), self._apart(rows, newest, said)[:, 0])
        known, y = stack_rows(self.known, newest), np.vstack([self.y, said])
        return _GreedyRule(known, y, self.scale, taken=(rows, nearer))

    def _apart(self, rows: Candidates, known: Any, y: NDArray[Any]) -> NDArray[Any]:
        said = to_numpy(rows.proba) / self.scale
        apart = squared_distances(plain_rows(rows.X), known) * squared_distances(said, y)
        return np.asarray(np.sqrt(apart))

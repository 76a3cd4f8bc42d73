"""What is done to a block of rows, wherever it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import rows_at, to_numpy
from goalward.core.candidates import Candidates
from goalward.goals import Goal
from goalward.labels import Operator
from goalward.labels.operators import Resolver
from goalward.models import Fitted, Labelled
from goalward.pool import blocks
from goalward.selection.top import Best
from goalward.utility import FirstOrder, Utility
from goalward.utility.first_order import Direction
from goalward.utility.motion import chunk_rows
from goalward.utility.utility import Scorer, check_scores

__all__ = ["Progress", "Scan"]

Progress = Callable[[int, int | None], None]
"""Called with the rows done and the rows there are, None where nobody knows."""


@dataclass(frozen=True)
class Scan:
    """A query without its pool: rows in, one number a row out, in any process.

    To first order and for operators that are a statistic it carries the goal's direction, a few
    numbers per feature. Other utilities and operators are bound where they are used, once.

    Parameters
    ----------
    direction
        A first-order utility bound to the goal, or None.
    statistic
        The operator by name, where the direction computes it without a table.
    compiled
        Whether compiled loops are used, so that all processes round alike.
    """

    fitted: Fitted
    goal: Goal | None
    utility: Utility
    operator: Operator
    round: int = 0
    direction: Direction | None = None
    statistic: str | None = None
    compiled: bool = False

    @classmethod
    def of(
        cls, fitted: Fitted, goal: Goal, utility: Utility, operator: Operator, round: int = 0
    ) -> Scan:
        """Return the scan for a query: what does not depend on the pool is done here."""
        goal = goal.settled(fitted, round)
        whole = cls(fitted, goal, utility, operator, round)
        if not isinstance(utility, FirstOrder):
            return whole
        direction = utility.prepare(fitted, goal)
        if not isinstance(direction, Direction):
            return whole
        if not direction.reduces(operator.statistic):
            return replace(whole, direction=direction, goal=None)
        light = _light(fitted)
        return cls(light, None, utility, operator, round, direction, operator.statistic)

    @cached_property
    def scorer(self) -> Scorer:
        """The utility bound to the model and the goal."""
        if self.direction is not None:
            return self.direction
        assert self.goal is not None
        return self.utility.prepare(self.fitted, self.goal)

    @cached_property
    def resolve(self) -> Resolver:
        """The operator bound to the model."""
        return self.operator.prepare(self.fitted, self.round)

    def bind(self) -> None:
        """Bind utility and operator now: threads that met here would each do it."""
        if self.statistic is None:
            _ = self.scorer, self.resolve

    @property
    def grid(self) -> int:
        """A number of rows; blocks that start at its multiples give the same scores."""
        return chunk_rows(self.fitted.n_classes)

    def values(self, X: Any, start: int, ids: NDArray[Any]) -> NDArray[Any]:
        """Return the scores of rows that start at a position of the pool."""
        # Numbers that are none show in the scores: the rows are read once.
        features = self.fitted.features(X, "X_pool", finite=False)
        if self.direction is not None and self.statistic is not None:
            scores = self.direction.reduced(features, self.statistic)
        else:
            per_label, proba, _ = self.scorer(features)
            check_scores(per_label, features, start)
            scores = self.resolve(per_label, Candidates(ids, features, proba))
        check_scores(scores, features, start)
        return to_numpy(scores)

    def best(
        self, pool: Any, start: int, block: int, excluded: NDArray[Any], kept: Best, ids: Any = None
    ) -> Best:
        """Return the best rows of a part of the pool that starts at a position."""
        for part, X in blocks(pool, block):
            first = start + part.start
            names = np.arange(first, start + part.stop) if ids is None else ids[part]
            values = self.values(X, first, names)
            kept = kept.merged(first, without(values, first, excluded))
        return kept


def without(values: NDArray[Any], start: int, excluded: NDArray[Any]) -> NDArray[Any]:
    """Return the values with those at sorted excluded positions at minus infinity."""
    low, high = np.searchsorted(excluded, [start, start + len(values)])
    if low == high:
        return values
    kept = values.astype(np.float64)
    kept[excluded[low:high] - start] = -np.inf
    return kept


def _light(fitted: Fitted) -> Fitted:
    """Return the model with one labelled row: the rest is of no use where a pool is read."""
    old = fitted.labelled
    first = Labelled(rows_at(old.X, slice(0, 1)), old.targets[:1, :], old.weights[:1])
    return replace(fitted, labelled=first)

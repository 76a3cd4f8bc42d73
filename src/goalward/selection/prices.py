"""What rows cost: gain per price, and what a budget pays for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Prices"]


@dataclass(frozen=True, eq=False)
class Prices:
    """What each row costs, what may be spent, and the score of a row that brings nothing.

    Rows are taken by gain per price. Under a budget, the rows of the largest gains, as many as it pays
    for, are taken instead where they bring more. With both, and gains that never rise as rows are taken,
    a batch brings at least (1 - 1/e)/2 of what the best one for the budget would (Khuller, Moss and Naor
    1999; Leskovec et al. 2007), unless the size of the batch ends it first.

    Parameters
    ----------
    costs
        Of rows in a row, the first of which is at `start`.
    zero
        Gains are scores less this. A row without a gain is never taken.

    Examples
    --------
    >>> prices = Prices(np.array([1.0, 4.0, 2.0]), budget=5.0)
    >>> prices.worth(np.array([1.0, 8.0, -1.0]))
    array([  1.,   2., -inf])
    >>> prices.taken(np.array([0.5, 8.0, 1.5]), orders=[np.array([1, 2, 0])], batch=3)
    array([1, 0])
    """

    costs: NDArray[Any] = field(repr=False)
    budget: float = math.inf
    zero: float = 0.0
    start: int = 0

    def part(self, start: int, stop: int) -> Prices:
        """Return those of a part of the pool."""
        return replace(self, costs=self.costs[start - self.start : stop - self.start], start=start)

    def at(self, positions: NDArray[Any]) -> Prices:
        """Return those of some rows, in their order."""
        return replace(self, costs=self.costs[positions - self.start], start=0)

    def worth(self, values: NDArray[Any], taken: Any = (), *, per: bool = True) -> NDArray[Any]:
        """Return gain per price of rows with these scores, or gain; -inf of what brings or leaves nothing."""
        gains, spent = values - self.zero, math.fsum(self.costs[list(taken)])
        pays = (gains > 0.0) & (spent + self.costs <= self.budget)
        return np.where(pays, gains / self.costs if per else gains, -np.inf)

    def taken(
        self, values: NDArray[Any], orders: Iterable[NDArray[Any]], batch: int
    ) -> NDArray[Any]:
        """Return the rows that the budget pays for, `batch` at most, by the order that brings most."""
        gains = values - self.zero
        found = [self._fitting(order[gains[order] > 0.0], batch) for order in orders]
        return max(found, key=lambda rows: float(gains[rows].sum()))

    def _fitting(self, order: NDArray[Any], batch: int) -> NDArray[Any]:
        """Return each row in turn that what is left pays for."""
        found: list[int] = []
        while len(found) < batch and len(order):
            spent = math.fsum(self.costs[found])
            order = order[spent + self.costs[order] <= self.budget]
            total = spent + np.cumsum(self.costs[order])
            first = min(int(np.searchsorted(total, self.budget, side="right")), batch - len(found))
            found += order[: max(first, 1)].tolist()[: len(order)]
            order = order[max(first, 1) :]
        return np.array(found, dtype=np.int64)

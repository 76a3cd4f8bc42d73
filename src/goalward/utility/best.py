"""The best rows of a pool, wherever they were found."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Best", "Prices", "best", "mixed", "salt"]


def best(
    values: NDArray[Any],
    count: int,
    rng: np.random.Generator,
    positions: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return where the `count` largest values stand, best first, ties by `rng`.

    Parameters
    ----------
    positions
        Of the rows in the pool, which decide between equal values; by default their place here.
    """
    if positions is None:
        return Best(count, salt(rng)).merged(0, values).rows
    last = -np.partition(-values, count - 1)[count - 1] if count < len(values) else -np.inf
    tied = np.flatnonzero(values >= last)
    order = np.lexsort((mixed(positions[tied].astype(np.uint64) ^ salt(rng)), -values[tied]))
    return tied[order[:count]]


def salt(rng: np.random.Generator) -> np.uint64:
    """Return what decides between equal values, for positions in a pool."""
    return rng.integers(2**63, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Best:
    """The best rows seen so far, best first: merge blocks in any order, the result is one.

    Equal values are ordered by a number that the salt and the row's position decide.

    Parameters
    ----------
    count
        How many to keep.
    salt
        See `salt`.
    floor
        What a row must reach to be looked at.
    prices
        Where rows have one, they are compared by gain per price, and `values` are that.
    """

    count: int
    salt: np.uint64
    floor: float = -np.inf
    rows: NDArray[Any] = field(default_factory=partial(np.empty, 0, np.int64))
    values: NDArray[Any] = field(default_factory=partial(np.empty, 0))
    prices: Prices | None = None

    def merged(self, start: int, values: NDArray[Any]) -> Best:
        """Return the best of these and of the rows from position `start` on."""
        if self.prices is not None:
            values = self.prices.part(start, start + len(values)).worth(values)
        # Everything tied with the last place must stay in the draw.
        fresh = np.flatnonzero(values >= self.least) if self.least > -np.inf else slice(None)
        if len(values[fresh]) > self.count:
            least = np.partition(values[fresh], -self.count)[-self.count]
            fresh = np.flatnonzero(values >= least)
        fresh = np.arange(len(values))[fresh]
        return self._joined(fresh + start, values[fresh])

    @property
    def least(self) -> float:
        """The value below which a row is not among the best."""
        return float(self.values[-1]) if len(self.rows) == self.count else self.floor

    def emptied(self) -> Best:
        """Return none of the rows, but what must be beaten: for another part of the pool."""
        return Best(self.count, self.salt, self.least, prices=self.prices)

    def within(self, start: int, stop: int) -> Best:
        """Return the same with the prices of a part of the pool, and no others."""
        return self if self.prices is None else replace(self, prices=self.prices.part(start, stop))

    def joined(self, other: Best) -> Best:
        """Return the best of both."""
        return self._joined(other.rows, other.values)

    def _joined(self, rows: NDArray[Any], values: NDArray[Any]) -> Best:
        if len(rows) == 0:
            return self
        rows, values = np.concatenate([self.rows, rows]), np.concatenate([self.values, values])
        order = np.lexsort((mixed(rows.astype(np.uint64) ^ self.salt), -values))[: self.count]
        return replace(self, rows=rows[order], values=values[order])


def mixed(keys: NDArray[Any]) -> NDArray[Any]:
    """Return SplitMix64's finaliser (Steele et al. 2014): every bit decides every bit."""
    with np.errstate(over="ignore"):
        z = keys + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        shuffled: NDArray[Any] = z ^ (z >> np.uint64(31))
    return shuffled


# What rows cost: gain per price, and what a budget pays for.


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

"""The best rows of a pool, wherever they were found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.selection.prices import Prices

__all__ = ["Best", "best", "mixed", "salt"]


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

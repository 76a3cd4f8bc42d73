"""The b rows of highest utility."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Score", "Selector", "Top"]


@runtime_checkable
class Score(Protocol):
    """What a selector may ask while it picks."""

    def values(self) -> NDArray[Any]:
        """Return the utility of every row now; -inf where it must not be picked."""
        ...


@runtime_checkable
class Selector(Protocol):
    """A way to pick b rows."""

    def __call__(self, score: Score, batch: int, rng: np.random.Generator) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Top:
    """The `batch` rows of highest utility, in order of preference.

    To first order, and for operators that add up over rows, no batch is better (Remark 2).
    Equal rows are ordered at random, by the seed.

    Examples
    --------
    >>> Top()
    Top()
    """

    def __call__(self, score: Score, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions of the best rows."""
        values = score.values()
        # A random order first and a stable sort after it: ties fall as the seed says.
        shuffled = rng.permutation(len(values))
        if batch < len(values):
            # Everything tied with the last place must stay in the draw.
            threshold = -np.partition(-values, batch - 1)[batch - 1]
            shuffled = shuffled[values[shuffled] >= threshold]
        order = np.argsort(-values[shuffled], kind="stable")
        return shuffled[order[:batch]]

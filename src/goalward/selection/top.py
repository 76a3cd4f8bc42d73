"""The b rows of highest utility."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.selection.score import Score

__all__ = ["Top", "best"]


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
        return best(score.values(), batch, rng)


def best(values: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return the positions of the `count` largest values, best first, ties by `rng`."""
    # A random order first and a stable sort after it: ties fall as the seed says.
    shuffled = rng.permutation(len(values))
    if count < len(values):
        # Everything tied with the last place must stay in the draw.
        threshold = -np.partition(-values, count - 1)[count - 1]
        shuffled = shuffled[values[shuffled] >= threshold]
    order = np.argsort(-values[shuffled], kind="stable")
    return shuffled[order[:count]]

"""What a selector may ask while it picks."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Score", "Selector"]


@runtime_checkable
class Score(Protocol):
    """The scores of a pool, which may change as rows are absorbed."""

    def values(self) -> NDArray[Any]:
        """Return the utility of every row now; -inf where it must not be picked."""
        ...

    def focus(self, rows: NDArray[Any]) -> None:
        """Keep only these positions in play: the others are not scored again."""
        ...

    def absorb(self, row: int, update: str, radius: float = 0.0) -> None:
        """Suppose that a row is labelled: the others' scores change, its near-copies are out."""
        ...


@runtime_checkable
class Selector(Protocol):
    """A way to pick b rows."""

    def __call__(self, score: Score, batch: int, rng: np.random.Generator) -> NDArray[Any]: ...

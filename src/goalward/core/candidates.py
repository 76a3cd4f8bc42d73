"""Rows that may be asked about, as the model sees them now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, rows_at

__all__ = ["Candidates"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """A block of unlabelled rows.

    Parameters
    ----------
    rows
        Their ids: positions in the pool, unless the caller gave others.
    X
        Their features, clean and in the model's array library.
    predicted
        What the model predicts for them, or how to get it from X: most rules never ask.
    """

    rows: NDArray[Any]
    X: Rows
    predicted: Float[Array, "n k"] | Callable[[Any], Any]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def proba(self) -> Float[Array, "n k"]:
        """What the model predicts for them."""
        return self.predicted(self.X) if callable(self.predicted) else self.predicted

    def at(self, position: int) -> Candidates:
        """Return one of them."""
        one = rows_at(self.X, np.array([position]))
        return Candidates(self.rows[position : position + 1], one, self.predicted_at(position))

    def predicted_at(self, position: int) -> Any:
        """Return what is known of the prediction for one of them."""
        if callable(self.predicted):
            return self.predicted
        return self.predicted[position : position + 1, :]

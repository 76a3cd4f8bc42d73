"""Rows that may be asked about, as the model sees them now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows

__all__ = ["Candidates"]


@dataclass(frozen=True)
class Candidates:
    """A block of unlabelled rows.

    Parameters
    ----------
    rows
        Their ids: positions in the pool, unless the caller gave others.
    X
        Their features, clean and in the model's array library.
    proba
        What the model predicts for them.
    """

    rows: NDArray[Any]
    X: Rows
    proba: Float[Array, "n k"]

    def __len__(self) -> int:
        return len(self.rows)

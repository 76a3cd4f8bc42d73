"""Columns of numbers as features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.errors import BadInput, NotFinite
from goalward.tables.encoder import Encoder, Rows, Tick, checked_columns, silent

__all__ = ["Numbers", "floats"]


@dataclass(frozen=True, eq=False)
class Numbers(Encoder):
    """Columns of numbers, each with mean 0 and deviation 1 where they were fitted."""

    columns: Sequence[str]
    mean: NDArray[Any] = field(repr=False)
    spread: NDArray[Any] = field(repr=False)

    @classmethod
    def fitted(cls, table: pl.DataFrame, columns: Sequence[str]) -> Self:
        """Return the encoder of a table's columns."""
        X = _columns(table, columns)
        mean = X.mean(axis=0)
        spread = (X - mean).std(axis=0)
        return cls(list(columns), mean, np.where(spread > 0, spread, 1.0))

    @property
    def says(self) -> str:
        """What is read."""
        return f"the numbers of {', '.join(self.columns)}"

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return the columns of a frame, scaled."""
        if not isinstance(rows, pl.DataFrame):
            raise BadInput(
                f"A {type(rows).__name__} came; a frame with the columns {', '.join(self.columns)} was "
                "expected. Pass polars.DataFrame(...)."
            )
        X: NDArray[Any] = (_columns(rows, self.columns) - self.mean) / self.spread
        return X.astype(np.float32)


def _columns(table: pl.DataFrame, columns: Sequence[str]) -> NDArray[Any]:
    checked_columns(table, columns)
    X = np.stack([floats(table[name]) for name in columns], axis=1)
    for name, finite in zip(columns, np.isfinite(X).T, strict=True):
        if not finite.all():
            first = int(finite.argmin())
            raise NotFinite(
                f"Column {name!r} has {np.sum(~finite)} cells that are not finite numbers, the first "
                f"in row {first}: {table[name][first]!r}; numbers were expected. Fill or drop those "
                "rows, or leave the column out."
            )
    return X


def floats(column: pl.Series) -> NDArray[Any]:
    """Return a column as numbers; NaN for what is missing, and for what is none."""
    return column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()

"""Columns of numbers and categories as features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.errors import BadInput, NotFinite
from goalward.studio.tables.cells import texts
from goalward.studio.tables.encoder import Encoder, Rows, Tick, checked_columns, silent

__all__ = [
    "Categories",
    "Numbers",
    "SideBySide",
    "TamedNumbers",
    "floats",
    "is_missing",
    "measured",
]

MISSING = ("", "na", "n/a", "nan", "null", "none", "nil", "-", "?", ".")
"""What people write where there is nothing, in small letters."""
THOUSANDS = r"^[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$"
DECIMAL = r"^[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+$"
POINTED = r",|^[-+]?\d{1,3}(?:\.\d{3})+$"
MOST_VALUES = 50


@dataclass(frozen=True, eq=False)
class Numbers(Encoder):
    """Columns of numbers, each with mean 0 and deviation 1 where they were fitted.

    Those of studies of the first version; a cell that is no number is an error.
    """

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

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return the columns of a frame, scaled."""
        X = (_columns(_frame(rows, self.columns), self.columns) - self.mean) / self.spread
        return np.asarray(X, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class TamedNumbers(Encoder):
    """Columns of numbers with their tails tamed, gaps filled, mean 0 and deviation 1.

    asinh((x - median) / width), with the width of the middle half as that of a normal distribution,
    is a line around the median and a logarithm far from it. A gap is the median.

    Parameters
    ----------
    commas
        How each column uses commas: "decimal", "thousands" or "".
    """

    columns: Sequence[str]
    commas: Sequence[str] = field(repr=False)
    median: NDArray[Any] = field(repr=False)
    width: NDArray[Any] = field(repr=False)
    mean: NDArray[Any] = field(repr=False)
    spread: NDArray[Any] = field(repr=False)

    @classmethod
    def fitted(cls, table: pl.DataFrame, columns: Sequence[str]) -> Self:
        """Return the encoder of a table's columns."""
        cells = [measured(table[name]) for name in columns]
        X = np.stack([values for values, _ in cells], axis=1)
        for name, column in zip(columns, X.T, strict=True):
            if not np.isfinite(column).any():
                raise BadInput(
                    f"Column {name!r} holds no number; numbers were expected. Leave it out, or take it "
                    "as text or as values."
                )
        low, median, high = np.nanquantile(X, [0.25, 0.5, 0.75], axis=0)
        deviation = np.nanstd(X, axis=0)
        width = np.where(high > low, (high - low) / 1.349, np.where(deviation > 0, deviation, 1.0))
        tamed = np.arcsinh((np.where(np.isnan(X), median, X) - median) / width)
        spread = tamed.std(axis=0)
        shape = tamed.mean(axis=0), np.where(spread > 0, spread, 1.0)
        return cls(list(columns), [comma for _, comma in cells], median, width, *shape)

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return the columns of a frame."""
        frame = _frame(rows, self.columns)
        pairs = zip(self.columns, self.commas, strict=True)
        X = np.stack([measured(frame[name], comma)[0] for name, comma in pairs], axis=1)
        tamed = np.arcsinh((np.where(np.isnan(X), self.median, X) - self.median) / self.width)
        return np.asarray((tamed - self.mean) / self.spread, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Categories(Encoder):
    """A 0/1 column for each value of some columns; a value that was not fitted has none."""

    columns: Sequence[str]
    values: Sequence[Sequence[str]] = field(repr=False)

    @classmethod
    def fitted(cls, table: pl.DataFrame, columns: Sequence[str]) -> Self:
        """Return the encoder of a table's columns: of each, its most frequent values."""
        values = []
        for name in columns:
            cells = texts(table[name])
            counts = cells.filter(~is_missing(cells)).rename("value").value_counts()
            kept = counts.sort(["count", "value"], descending=[True, False])["value"]
            values.append(sorted(kept[:MOST_VALUES].to_list()))
        return cls(list(columns), values)

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return the indicators of a frame's cells."""
        frame = _frame(rows, self.columns)
        pairs = zip(self.columns, self.values, strict=True)
        made = [texts(frame[name]).fill_null("") == value for name, all_ in pairs for value in all_]
        return np.stack([column.to_numpy() for column in made], axis=1).astype(np.float32)


@dataclass(frozen=True, eq=False)
class SideBySide(Encoder):
    """Several kinds of features side by side.

    Parameters
    ----------
    scales
        What each is multiplied by.
    """

    parts: Sequence[Encoder]
    scales: Sequence[float]

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return the features of all parts."""
        made = [p.transform(rows, tick) * s for p, s in zip(self.parts, self.scales, strict=True)]
        return np.concatenate(made, axis=1, dtype=np.float32)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what is to be kept of all parts."""
        states = [part.state() for part in self.parts]
        arrays = {f"{i}.{name}": a for i, s in enumerate(states) for name, a in s[1].items()}
        described = [one for one, _ in states]
        return {"kind": "sidebyside", "parts": described, "scales": list(self.scales)}, arrays

    @classmethod
    def made(cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the encoder of a state."""
        own: list[dict[str, NDArray[Any]]] = [{} for _ in plain["parts"]]
        for name, array in arrays.items():
            part, _, rest = name.partition(".")
            own[int(part)][rest] = array
        parts = [Encoder.restored(*pair) for pair in zip(plain["parts"], own, strict=True)]
        return cls(parts, plain["scales"])


def measured(column: pl.Series, comma: str | None = None) -> tuple[NDArray[Any], str]:
    """Return a column as numbers, NaN where there is none, and how it uses commas.

    That is found out unless it is given: "decimal" (1,5), "thousands" (1,500), or "".
    """
    if column.dtype != pl.String:
        if column.dtype.is_numeric() or column.dtype == pl.Boolean:
            values = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
            return np.where(np.isfinite(values), values, np.nan), ""
        column = texts(column)
    cells = column.str.strip_chars()
    if comma is None:
        with_comma = cells.filter(cells.str.contains(",", literal=True))
        ways = {"thousands": THOUSANDS, "decimal": DECIMAL}
        fitting = (way for way, pattern in ways.items() if with_comma.str.contains(pattern).all())
        comma = next(fitting, "") if len(with_comma) else ""
    if comma == "decimal":
        # A point before three digits is between thousands then.
        bare = cells.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        cells = bare.zip_with(cells.str.contains(POINTED).fill_null(False), cells)
    elif comma == "thousands":
        cells = cells.str.replace_all(",", "", literal=True)
    values = floats(cells)
    return np.where(np.isfinite(values), values, np.nan), comma


def is_missing(cells: pl.Series) -> pl.Series:
    """Return which texts stand for nothing."""
    return cells.is_null() | cells.str.strip_chars().str.to_lowercase().is_in(list(MISSING))


def floats(column: pl.Series) -> NDArray[Any]:
    """Return a column as numbers; NaN for what is missing, and for what is none."""
    return column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()


def _frame(rows: Rows, columns: Sequence[str]) -> pl.DataFrame:
    if not isinstance(rows, pl.DataFrame):
        raise BadInput(
            f"A {type(rows).__name__} came; a frame with the columns {', '.join(columns)} was "
            "expected. Pass polars.DataFrame(...)."
        )
    checked_columns(rows, columns)
    return rows


def _columns(table: pl.DataFrame, columns: Sequence[str]) -> NDArray[Any]:
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

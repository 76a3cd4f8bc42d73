"""Tables of labels: which row of a pool each line means, and what was said of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from goalward.errors import DataMissing
from goalward.tables.cells import listed, texts, unescaped
from goalward.tables.read import ending_of, read_table

__all__ = ["label_column", "read_labels", "row_number", "rows_meant", "short"]

# Digits as they are typed: no sign, space, _ or other script. A column with a gap says 3.0 for 3.
DIGITS = re.compile(r"[0-9]{1,100}(?:\.0+)?")
EXACT = 2.0**53
"""Up to here every whole number is a float of its own."""
KINDS = {
    pl.Int64: r"^-?[0-9]{1,18}$",
    pl.Float64: r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$",
    pl.Boolean: r"^(?i:true|false)$",
}
"""How the cells of a text table are written whose column is one of numbers or booleans."""


def read_labels(path: str | Path, *, label: str, key: str) -> tuple[pl.DataFrame, int]:
    """Return a table with these two columns, and the number of its first line.

    Lines are counted as an editor does: after the header of a text table, from 1 in other files.
    """
    path = Path(path)
    frame = read_table(path)
    ending = ending_of(path)
    if ending in (".csv", ".tsv"):
        frame = unescaped(frame)
    for name in (key, label):
        if name not in frame.columns:
            raise DataMissing(
                f"{path.name} has the columns {listed(frame.columns)} and no {name!r}; {key} "
                f"and {label} were expected. Rename one, or name others: `goalward import` has "
                "--key and --label."
            )
    return frame, 1 if ending in (".jsonl", ".json", ".parquet") else 2


def rows_meant(
    cells: pl.Series, places: Mapping[Any, int] | None, total: int
) -> Iterable[int | str]:
    """Give the row that each cell means, or why it means none.

    `places` are text -> row where rows have names, and None where cells are numbers of `total` rows.
    """
    if places is not None:
        return (places.get(cell, f"{short(cell)} is not in the pool") for cell in texts(cells))
    return (_numbered(cell, total) for cell in cells)


def _numbered(cell: Any, total: int) -> int | str:
    row = row_number(cell)
    if row is None:
        return f"{short(cell)} is not a row number"
    return row if 0 <= row < total else f"row {row} is not in the pool of {total}"


def label_column(column: pl.Series) -> list[Any]:
    """Return labels as numbers or booleans where all of them are, so that they sort as such.

    Empty cells are missing ones then.
    """
    if column.dtype == pl.String:
        there = column.filter(column != "")
        for kind, pattern in KINDS.items():
            if len(there) and there.str.contains(pattern).all():
                cells = column.replace("", None)
                typed = (
                    cells.str.to_lowercase() == "true"
                    if kind == pl.Boolean
                    else cells.cast(kind, strict=False)
                )
                return typed.to_list()
    return column.to_list()


def row_number(value: Any) -> int | None:
    """Return the row that a cell names, or None if it names none: 3.7, True, "1_0", "".

    Examples
    --------
    >>> [row_number(cell) for cell in (3, "3", 3.0, "3.0", 3.7, "+3", True, None)]
    [3, 3, 3, 3, None, None, None, None]
    """
    if isinstance(value, str):
        return int(value.partition(".")[0]) if DIGITS.fullmatch(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() and 0 <= value <= EXACT else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def short(value: Any) -> str:
    """Return a cell as a message quotes it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

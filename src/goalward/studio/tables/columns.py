"""The kind of each column of a table: text, numbers, categories, pictures, or unused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.studio.tables.cells import short, texts
from goalward.studio.tables.read import PICTURES, Format

COUNTS = re.compile(
    r"(?i)(?:id|idx|index|row|nr|uuid|guid|key|unnamed.*|(?:row|record|item|serial)[ _-]?(?:id|no|nr|number)"
    r"|.*[ _-]id|)$"
)
"""Names of columns that say which row it is."""
ANSWERS = re.compile(r"(?i)(?:labels?|class(?:es)?|targets?|answers?|gold|truth|y|folder)$")
"""Names of columns that may hold answers; of pictures, the folder's."""
DATE = r"^\s*(?:\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{2,4})(?:[ T].*)?$"
PATH = rf"(?i)^[^\s<>|]+(?:{'|'.join(re.escape(suffix) for suffix in PICTURES)})$"
MISSING = ("", "na", "n/a", "nan", "null", "none", "nil", "-", "?", ".")
"""Lower-case texts that people write for missing values."""
COMMAS = {
    "thousands": r"^[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$",
    "decimal": r"^[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+$",
}
POINTED = r",|^[-+]?\d{1,3}(?:\.\d{3})+$"
MOST_VALUES = 50
"""Different values of a category, at most."""
LONG = 40
"""Characters above which a value is a text."""
PROSE = 2.0
"""Mean words per cell from which a column is one to be read."""
CODES = "codes or names, hardly one twice"
GIVEN = "mostly empty, with few values: probably answers"
READ = "beside what is read; several can be read"
USES = ("text", "numbers", "category", "picture")


@dataclass(frozen=True)
class Kinds:
    """Columns by their use; `left` has the reasons why others are not features."""

    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    pictures: tuple[str, ...]
    left: dict[str, str]

    def notes(self, without: str = "") -> tuple[str, ...]:
        """Return why columns are not features; `without` is the reason for usable ones."""
        unused = dict.fromkeys(self.numbers + self.categories, without) if without else {}
        reasons = [f"{name} ({why})" for name, why in (self.left | unused).items()]
        return (f"Not features: {'; '.join(reasons)}.",) if reasons else ()

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Kinds:
        """Return the kinds of a table's columns, by their names and cells."""
        kinds = {column.name: _kind(column) for column in frame if column.name != "text"}
        codes = [name for name, kind in kinds.items() if kind == CODES]
        # A column called text is the text, whatever its cells look like.
        if "text" in frame.columns:
            kinds = {name: READ if kind == "text" else kind for name, kind in kinds.items()}
            kinds["text"] = "text"
        # Single words are read where there is nothing else to learn from.
        elif len(codes) == 1 and not any(kind in USES for kind in kinds.values()):
            kinds[codes[0]] = "text"
        read, numbers, categories, pictures = (
            tuple(name for name, kind in kinds.items() if kind == use) for use in USES
        )
        left = {name: kind for name, kind in kinds.items() if kind not in USES}
        return cls(read, numbers, categories, pictures, left)


def _kind(column: pl.Series) -> str:
    """Return the use of a column, one of `USES`, or the reason why there is none."""
    name, kind = column.name, column.dtype
    if kind.is_nested() or kind == pl.Binary:
        return "lists or bytes"
    if COUNTS.match(name):
        return "its name is that of a row id"
    if ANSWERS.match(name):
        return "named like answers"
    if kind.is_temporal():
        return "times"
    cells = texts(column)
    there = cells.filter(~is_missing(cells))
    if there.n_unique() < min(2, len(cells)):
        return "the same everywhere" if len(there) else "empty"
    if 2 * len(there) <= len(cells) and values_of(column):
        return GIVEN
    values, comma = numbers_in(column)
    finite = values[np.isfinite(values)]
    # One odd cell among many numbers is a fault of that cell.
    if len(finite) == len(there) or len(finite) >= max(0.95 * len(there), 20):
        return "counts the rows" if _counts(finite) and not comma else "numbers"
    if there.str.contains(DATE).all():
        return "times"
    if there.str.contains(PATH).all():
        return "picture"
    words = there.str.split(" ").list.len().mean()
    few = there.n_unique() <= min(MOST_VALUES, len(there) // 3)
    if few and int(there.str.len_chars().max() or 0) <= LONG:  # type: ignore[arg-type]
        return "category"
    return "text" if isinstance(words, float) and words >= PROSE else CODES


def values_of(column: pl.Series) -> list[str]:
    """Return the answers that a column may hold: a few; short ones unless its name says answers."""
    cells = texts(column).str.strip_chars()
    there = cells.filter(cells != "")
    values = sorted(there.unique())
    short = max(map(len, values), default=0) <= LONG and 2 * len(values) <= len(there)
    few = 2 <= len(values) <= MOST_VALUES
    return values if few and (short or ANSWERS.match(column.name)) else []


def _counts(values: NDArray[Any]) -> bool:
    """Return whether numbers are those of rows: whole, each once, without a gap, in any order."""
    ordered = np.sort(values)
    return bool(len(values) > 2 and ordered[0] % 1 == 0 and np.all(np.diff(ordered) == 1))


def numbers_in(column: pl.Series, comma: str | None = None) -> tuple[NDArray[Any], str]:
    """Return a column as numbers, NaN for gaps, and its commas: "decimal", "thousands" or ""."""
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        cells, comma = column, ""
    else:
        cells = texts(column).str.strip_chars()
    if comma is None:
        with_comma = cells.filter(cells.str.contains(",", literal=True))
        ways = (way for way, pattern in COMMAS.items() if with_comma.str.contains(pattern).all())
        comma = next(ways, "") if len(with_comma) else ""
    if comma == "decimal":
        # A point before three digits is between thousands then.
        bare = cells.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        cells = bare.zip_with(cells.str.contains(POINTED).fill_null(False), cells)
    elif comma == "thousands":
        cells = cells.str.replace_all(",", "", literal=True)
    values = cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    return np.where(np.isfinite(values), values, np.nan), comma


def is_missing(cells: pl.Series) -> pl.Series:
    """Return which texts stand for nothing."""
    return cells.is_null() | cells.str.strip_chars().str.to_lowercase().is_in(list(MISSING))


def without_text(read: Sequence[str]) -> list[int]:
    """Return the rows whose texts hold no letter and no digit."""
    return pl.Series(read, dtype=pl.String).str.contains(r"\w").not_().arg_true().to_list()


def copies_in(frame: pl.DataFrame) -> dict[int, int]:
    """Return copy -> the first row with the same cells."""
    rows = frame.to_struct("key").to_frame().with_row_index("row")
    same = rows.select("row", of=pl.col("row").first().over("key"))
    return dict(same.filter(pl.col("row") != pl.col("of")).iter_rows())


def notes_of(
    path: str, frame: pl.DataFrame, how: Format, numbers: Sequence[str], read: Sequence[str] | None
) -> list[str]:
    """Return notes about a table for its annotators."""
    notes = []
    encoding, separator = how.encoding or "utf-8", how.separator
    odd = [f"as {encoding}"] if not encoding.startswith("utf-8") else []
    odd += [f"with {separator!r} between cells"] if separator not in (None, ",", "\t") else []
    if len(how.sheets) > 1:
        sheets = ", ".join(how.sheets)
        notes.append(f"The sheet {how.sheet} was read, of {sheets}. Another can be chosen.")
    if odd:
        read_as = f"{Path(path).name} was read {' and '.join(odd)}"
        notes.append(f"{read_as}. Where that is wrong, save it as CSV UTF-8.")
    for name in numbers:
        gaps = np.flatnonzero(np.isnan(numbers_in(frame[name])[0])).tolist()
        if gaps:
            where = f"{_rows(len(gaps))} (first in row {gaps[0]}: {short(frame[name][gaps[0]])})"
            notes.append(f"{name} has no number in {where}; its median stands in.")
    if read is not None and (empty := len(without_text(read))):
        notes.append(f"{_rows(empty)} without text are set aside, and never asked.")
    if read is None and numbers and (again := frame.height - frame.n_unique()):
        notes.append(f"{_rows(again)} repeat another.")
    return notes


def _rows(n: int) -> str:
    return f"{n:,} row{'s' if n > 1 else ''}"

"""What each column of a table is: text to read, numbers, categories, or nothing to learn from."""

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
from goalward.studio.tables.numbers import is_missing, measured
from goalward.studio.tables.read import PICTURES, Written

__all__ = ["Kinds", "notes_of", "values_of", "without_text"]

COUNTS = re.compile(
    r"(?i)(?:id|idx|index|row|nr|uuid|guid|key|unnamed.*|(?:row|record|item|serial)[ _-]?(?:id|no|nr|number)"
    r"|.*[ _-]id|)$"
)
"""Names of columns that say which row it is."""
ANSWERS = re.compile(r"(?i)(?:labels?|class(?:es)?|targets?|answers?|gold|truth|y|folder)$")
"""Names of columns that may hold what the model shall learn to say; of pictures, the folder's."""
DATE = r"^\s*(?:\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{2,4})(?:[ T].*)?$"
PATH = rf"(?i)^[^\s<>|]+(?:{'|'.join(re.escape(ending) for ending in PICTURES)})$"
MOST_VALUES = 50
"""Different values of a category, at most."""
LONG = 40
"""Characters above which a value is a text."""
PROSE = 2.0
"""Words a cell, on average, from which a column is one to be read."""


@dataclass(frozen=True)
class Kinds:
    """Columns by what they are for; `left` says of the others why they teach nothing."""

    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    left: dict[str, str]
    pictures: tuple[str, ...] = ()

    def notes(self, without: str = "") -> tuple[str, ...]:
        """Return why columns are no features: `without` of those that could be, if they are not."""
        unused = dict.fromkeys(self.numbers + self.categories, without) if without else {}
        said = [f"{name} ({why})" for name, why in (self.left | unused).items()]
        return (f"Not features: {'; '.join(said)}.",) if said else ()

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Kinds:
        """Return what the columns of a table are, by their names and cells."""
        found: dict[str, list[str]] = {"text": [], "numbers": [], "category": [], "picture": []}
        left: dict[str, str] = {}
        short: list[str] = []
        if "text" in frame.columns:
            # Its name says it, whatever its cells look like.
            named = [name for name in frame.columns if name != "text"]
            rest = cls.of(frame.select(named)) if named else cls((), (), (), {})
            return cls(
                ("text",),
                rest.numbers,
                rest.categories,
                rest.left | dict.fromkeys(rest.texts, READ),
                rest.pictures,
            )
        for column in frame:
            kind = _kind(column)
            if kind in found:
                found[kind].append(column.name)
            else:
                left[column.name] = kind
                short += [column.name] if kind == CODES else []
        # Single words are read where there is nothing else to learn from.
        if not any(found.values()) and len(short) == 1:
            found["text"] = short
            left.pop(short[0])
        read, numbers, categories, pictures = map(tuple, found.values())
        return cls(read, numbers, categories, left, pictures)


CODES = "codes or names, hardly one twice"
GIVEN = "half empty or more, with few values: answers, perhaps"
READ = "beside what is read; several can be read"


def _kind(column: pl.Series) -> str:
    """Return "text", "numbers" or "category", or why a column is none of them."""
    name, kind = column.name, column.dtype
    if kind.is_nested() or kind == pl.Binary:
        return "lists or bytes"
    if COUNTS.match(name):
        return "named as what says which row it is"
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
    values, comma = measured(column)
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
    """Return the answers that a column may hold: a few; where its name is another's, short ones."""
    cells = texts(column).str.strip_chars()
    there = cells.filter(cells != "")
    found = sorted(there.unique())
    short = max(map(len, found), default=0) <= LONG and 2 * len(found) <= len(there)
    few = 2 <= len(found) <= MOST_VALUES
    return found if few and (short or ANSWERS.match(column.name)) else []


def _counts(values: NDArray[Any]) -> bool:
    """Return whether numbers are those of rows: whole, each once, without a gap, in any order."""
    n = len(values)
    return bool(
        n > 2
        and np.all(values == np.round(values))
        and values.max() - values.min() == n - 1
        and len(np.unique(values)) == n
    )


def without_text(read: Sequence[str]) -> list[int]:
    """Return the rows whose texts hold no letter and no digit."""
    return pl.Series(read, dtype=pl.String).str.contains(r"\w").not_().arg_true().to_list()


def copies_in(frame: pl.DataFrame) -> dict[int, int]:
    """Return row -> the first row that is the same, for those that are not the first."""
    rows = frame.to_struct("key").to_frame().with_row_index("row")
    same = rows.select("row", of=pl.col("row").first().over("key"))
    return dict(same.filter(pl.col("row") != pl.col("of")).iter_rows())


def notes_of(
    path: str,
    frame: pl.DataFrame,
    how: Written,
    numbers: Sequence[str],
    read: Sequence[str] | None,
) -> list[str]:
    """Return what a person should know of a table before answering anything.

    Parameters
    ----------
    how
        How it was written.
    numbers, read
        Columns of numbers that are features, and the texts that are.
    """
    said = []
    encoding, separator = how.encoding or "utf-8", how.separator
    odd = [f"as {encoding}"] if not encoding.startswith("utf-8") else []
    odd += [f"with {separator!r} between cells"] if separator not in (None, ",", "\t") else []
    if len(how.sheets) > 1:
        said.append(
            f"The sheet {how.sheet} was read, of {', '.join(how.sheets)}. Another can be chosen."
        )
    if odd:
        said.append(
            f"{Path(path).name} was read {' and '.join(odd)}. Where that is wrong, save it as CSV UTF-8."
        )
    for name in numbers:
        gaps = np.flatnonzero(np.isnan(measured(frame[name])[0]))
        if len(gaps):
            cell = f"row {gaps[0]}: {short(frame[name][int(gaps[0])])}"
            said.append(
                f"{name} has no number in {_rows(len(gaps))} (first in {cell}); its median stands in."
            )
    if read is not None and (empty := len(without_text(read))):
        said.append(f"{_rows(empty)} without text are set aside, and never asked.")
    if read is None and numbers and (again := frame.height - frame.n_unique()):
        said.append(f"{_rows(again)} repeat another.")
    return said


def _rows(n: int) -> str:
    return f"{n:,} row{'s' if n > 1 else ''}"

"""Text files as they are found: which characters their bytes mean, and what stands between cells."""

from __future__ import annotations

import codecs
import csv
import io
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import polars as pl

from goalward.errors import BadInput, BadParameter

__all__ = ["Written", "decoded", "separated", "separator_of"]


class Written(NamedTuple):
    """How a table is written: the encoding of a text and what separates its cells, or the sheet."""

    encoding: str | None = None
    separator: str | None = None
    sheet: str | None = None
    sheets: tuple[str, ...] = ()


SEPARATORS = ",;\t|"
NAMED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|"}
"""Separators by name, for command lines."""
LARGEST_CELL = 2**31 - 1
SAMPLE = 2**16
"""Characters looked at to find out how a file is written."""
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
FOREIGN = 0.3
"""Share of letters beyond ASCII above which a text is of no language that is written in cp1252."""


def decoded(path: Path, content: bytes, encoding: str | None = None) -> tuple[str, str]:
    """Return the text and its encoding: the one given, else found out.

    Its first bytes may say it. Else it is UTF-16 where every other byte is 0, UTF-8 where it can be,
    and Windows-1252, which holds all of Latin-1, where that makes a text of a European language.
    """
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError as error:
            raise BadParameter(
                f"The encoding {encoding!r} is not known; cp1252, utf-16 or shift_jis, say, was "
                "expected. Leave it out to have it found out."
            ) from error
    else:
        encoding = next((name for mark, name in MARKS if content.startswith(mark)), None)
    guessed = encoding or _every_other_is_zero(content[:SAMPLE]) or "utf-8"
    try:
        return content.decode(guessed), guessed
    except UnicodeDecodeError as error:
        if encoding is None and guessed == "utf-8" and (text := _european(content)) is not None:
            return text, "cp1252"
        line = content[: error.start].count(b"\n") + 1
        raise BadInput(
            f"{path.name} is not {guessed.upper()} at byte {error.start} (line {line}); text was "
            "expected. Say what encoding it is (cp1252, utf-16, cp1251, shift_jis, gb18030), or "
            "save it as UTF-8, in a spreadsheet as 'CSV UTF-8'."
        ) from error


def _every_other_is_zero(sample: bytes) -> str | None:
    zeros = [sample[start::2].count(0) / max(len(sample) // 2, 1) for start in (0, 1)]
    if max(zeros) < 0.3 or min(zeros) > 0.05:
        return None
    return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"


def _european(content: bytes) -> str | None:
    """Return bytes that are not UTF-8 as cp1252, if that is likely what they are."""
    broken = content.decode("utf-8", "replace")
    bad = broken.count("\ufffd")
    # More pairs that are whole than broken: UTF-8 with a fault, which this would hide.
    if sum(map(len, re.findall(r"[^\x00-\x7f\ufffd]+", broken))) > bad or 0 in content:
        return None
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        return None
    letters = sum(map(str.isalpha, text[:SAMPLE]))
    beyond = sum(c.isalpha() and not c.isascii() for c in text[:SAMPLE])
    return text if beyond <= FOREIGN * max(letters, 1) else None


def separator_of(text: str, usual: str) -> str:
    """Return what stands between the cells: that which cuts most lines as it cuts the first one.

    The first must have two cells at least, and half of the others as many; the usual one is taken
    where it cuts as many lines as any, or where none does.
    """
    said = re.match(r"sep=(.)\r?\n", text)
    if said:
        return said[1]
    fits = {one: _fit(text, one) for one in SEPARATORS}
    best = max(fits, key=fits.__getitem__)
    return usual if fits[usual][0] >= fits[best][0] else best


def _fit(text: str, separator: str) -> tuple[float, int]:
    """Return which share of the lines has as many cells as the first, and how many that is."""
    sample = text[:SAMPLE]
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=separator, strict=True)
    counts: list[int] = []
    # A fault is named where the file is read; the last line of a part may be cut anywhere.
    with suppress(csv.Error):
        counts.extend(len(row) for row in reader if row)
    rest = counts[1:] if len(sample) == len(text) else counts[1:-1]
    if not rest or counts[0] < 2:
        return 0.0, 0
    share = rest.count(counts[0]) / len(rest)
    return (share, counts[0]) if share >= 0.5 else (0.0, 0)


def separated(path: Path, text: str, separator: str) -> pl.DataFrame:
    """Return a table of texts, every cell as it stands in the file."""
    separator = NAMED.get(separator, separator)
    if len(separator) != 1 or separator in '"\r\n':
        raise BadParameter(
            f"The separator {separator!r} came; one character was expected: ';', or tab by "
            "its name. Leave it out to have it found out."
        )
    text = re.sub(r"\Asep=.\r?\n", "", text)
    # Python's reader keeps every cell as it stands: NUL, line breaks, spaces, empty ones.
    csv.field_size_limit(LARGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[list[str]] = []
    try:
        names = next(reader, [])
        for row in reader:
            if len(row) == len(names):
                rows.append(row)
            elif row:
                raise BadInput(
                    f"Line {reader.line_num} of {path.name} has {len(row)} cells; {len(names)} were "
                    "expected, as in its first line. Put quotes around cells that hold the separator "
                    f"({separator!r}), or say what separates them."
                )
    except csv.Error as error:
        raise BadInput(
            f"{path.name} could not be read at line {reader.line_num} ({error}); a table with a line "
            "of names was expected. Check quotes, and what separates cells."
        ) from error
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(
            f"{path.name} names a column twice ({twice!r}); distinct names were expected in its first "
            "line. Rename one."
        )
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return pl.DataFrame(
        {
            name: pl.Series(cells, dtype=pl.String)
            for name, cells in zip(names, columns, strict=True)
        }
    )

"""CSV, TSV, JSONL and Parquet as a frame of texts and numbers, whatever wrote them."""

from __future__ import annotations

import codecs
import csv
import io
import json
from pathlib import Path
from typing import Any

import polars as pl

from goalward.errors import BadInput

__all__ = ["ENDINGS", "read_table"]

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
LARGEST_CELL = 2**31 - 1
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_table(path: str | Path) -> pl.DataFrame:
    """Return a table; every column of a CSV or TSV is text, as it stands in the file."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise BadInput(
            f"{path.name} ends in {ending!r}; {', '.join(ENDINGS)} was expected. Convert it."
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{path} could not be opened ({error.strerror}); a table was expected. Check the path."
        ) from error
    if ending == ".parquet":
        try:
            table = pl.read_parquet(content)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise BadInput(
                f"{path.name} could not be read ({_first(error)}); a Parquet file was expected."
            ) from error
    elif ending == ".jsonl":
        table = _jsonl(path, _decoded(path, content))
    else:
        table = _separated(path, _decoded(path, content), "\t" if ending == ".tsv" else ",")
    if table.height == 0:
        raise BadInput(f"{path.name} has no rows; at least 1 was expected. Add some.")
    return table


def _decoded(path: Path, content: bytes) -> str:
    """Return the text: UTF-8, or what its first bytes say."""
    encoding = next((name for mark, name in MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadInput(
            f"{path.name} is not {encoding.upper()} at byte {error.start} (line {line}); UTF-8, or "
            "UTF-16 with its mark, was expected. Save it as UTF-8, in a spreadsheet as 'CSV UTF-8'."
        ) from error


def _separated(path: Path, text: str, separator: str) -> pl.DataFrame:
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
                    "expected, as in its first line. Check quotes and separators."
                )
    except csv.Error as error:
        raise BadInput(
            f"{path.name} could not be read at line {reader.line_num} ({error}); a table with a line "
            "of names was expected. Check quotes and separators."
        ) from error
    if len(set(names)) < len(names):
        raise BadInput(
            f"{path.name} names a column twice; distinct names were expected in its first line."
        )
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def _jsonl(path: Path, text: str) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    # Only \n ends a line: a text may hold other line separators.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            line.encode()
            json.dumps(row, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise BadInput(
                f"Line {number} of {path.name} could not be read ({error}); an object of whole "
                "characters was expected. Repair the line."
            ) from error
        if not isinstance(row, dict):
            raise BadInput(
                f"Line {number} of {path.name} is a {type(row).__name__}; an object such as "
                '{"text": "..."} was expected. Repair the line.'
            )
        nested = {
            k: json.dumps(v, ensure_ascii=False)
            for k, v in row.items()
            if isinstance(v, (dict, list))
        }
        rows.append(row | nested)
    for name in dict.fromkeys(name for row in rows for name in row):
        if _mixed([row.get(name) for row in rows]):
            for row in rows:
                cell = row.get(name)
                row[name] = cell if cell is None or isinstance(cell, str) else json.dumps(cell)
    try:
        return pl.DataFrame(rows, infer_schema_length=None)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        raise BadInput(
            f"{path.name} could not be made a table ({_first(error)}); values of one kind in each "
            "field were expected. Make them all texts or all numbers."
        ) from error


def _mixed(cells: list[Any]) -> bool:
    """Return whether one column would change values of several kinds: true to 1, say."""
    kinds = {type(cell) for cell in cells} - {type(None)}
    large = kinds == {int, float} and any(type(c) is int and abs(c) > 2**53 for c in cells)
    return large or (len(kinds) > 1 and not kinds.isdisjoint({bool, str}))


def _first(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]

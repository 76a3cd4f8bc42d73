"""Cells of any type as JSON, text and labels, and in files that are safe for spreadsheets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from goalward.core.arguments import needing
from goalward.core.files import refuse_existing, refuse_inputs, whole_file
from goalward.errors import BadInput, DataMissing
from goalward.studio.tables.read import Format, read_table, suffix_of

PER_SECOND = {"ms": 3, "us": 6, "ns": 9}
"""Digits after the point of a second, by the unit of a column."""
RUN = "=+\\-@＝＋－＠"
"""First characters that make a spreadsheet compute a cell (OWASP, CSV injection)."""
SIGNS = rf"{RUN}\t\r\n\x00"
NUMBER = r"[-+](?:(?:[0-9][0-9.,]*|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?%?|(?i:inf|infinity|nan)) *"
"""A number with a sign, which nothing computes."""
BREAK = r'[;\t\r\n]"*'
"""Where a spreadsheet may begin a cell inside a text, if it takes another separator."""
SUSPECT = f"^'*[{SIGNS}]|{BREAK}'*[{RUN}]"
# Always one ' more, so that it can be undone; numbers and list items ("- ") stay as they are.
FORMULA = re.compile(
    rf"\A(?!{NUMBER}\Z)(?='*[{SIGNS}])|({BREAK})(?![-+] |{NUMBER}(?:[;\t\r\n]|\Z))(?='*[{RUN}])"
)
ESCAPED = re.compile(rf"\A'(?='*[{SIGNS}])|({BREAK})'(?='*[{RUN}])")


def as_json(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame as JSON holds it: bytes as base64, times as ISO 8601, decimals as texts."""
    # By position: a name may look like a pattern.
    cells = enumerate(frame.schema.items())
    return frame.select(_plain(pl.nth(i), kind).alias(name) for i, (name, kind) in cells)


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame as a CSV holds it: lists and structs are JSON texts, decimals numbers."""
    plain = as_json(frame).with_columns(frame.select(cs.decimal()).get_columns())
    made = []
    for i, (name, kind) in enumerate(plain.schema.items()):
        if kind.is_nested():
            # Only structs can be encoded: {"x":...} is put around and taken away.
            whole = pl.struct(x=pl.nth(i)).struct.json_encode()
            inner = whole.str.slice(5).str.head(-1)
            made.append(pl.when(pl.nth(i).is_not_null()).then(inner).alias(name))
    return plain.with_columns(made)


def texts(column: pl.Series) -> pl.Series:
    """Return a column of any type as texts; nulls stay null."""
    return as_text(column.to_frame()).to_series().cast(pl.String)


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names as a message lists them: all of a few, else how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def short(value: Any) -> str:
    """Return a cell as a message quotes it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def escaped(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame as a CSV holds it, with a ' before texts and names like formulas."""
    return _rewritten(as_text(frame), FORMULA, r"\1'")


def unescaped(frame: pl.DataFrame) -> pl.DataFrame:
    """Undo `escaped`: its exact inverse on texts."""
    return _rewritten(frame, ESCAPED, r"\1")


def _rewritten(frame: pl.DataFrame, pattern: re.Pattern[str], by: str) -> pl.DataFrame:
    made = frame.clone()
    for i, column in enumerate(frame):
        if column.dtype == pl.String:
            suspect = column.str.contains(SUSPECT) & ~column.str.contains(f"^{NUMBER}$")
            at = suspect.arg_true()
            cells = [pattern.sub(by, cell) for cell in column.gather(at)]
            made.replace_column(i, column.clone().scatter(at, cells))
    return made.rename(lambda name: pattern.sub(by, name))


def _plain(cell: pl.Expr, kind: Any, *, inside: bool = False) -> pl.Expr:
    match kind:
        case pl.Array():
            return _plain(cell.arr.to_list(), pl.List(kind.inner), inside=inside)
        case pl.List():
            return cell.list.eval(_plain(pl.element(), kind.inner, inside=True))
        case pl.Struct():
            made = [
                _plain(cell.struct.field(field.name), field.dtype, inside=True).alias(field.name)
                for field in kind.fields
            ]
            return pl.when(cell.is_not_null()).then(pl.struct(made))
        case pl.Duration():
            return _duration(cell, PER_SECOND[kind.time_unit])
        case pl.Datetime():
            zone = "%:z" if kind.time_zone else ""
            return cell.dt.strftime(f"%Y-%m-%dT%H:%M:%S%.{PER_SECOND[kind.time_unit]}f{zone}")
        case pl.Time():
            return cell.dt.strftime("%H:%M:%S%.9f")
        case pl.Binary():
            return cell.bin.encode("base64")
        case pl.Date() | pl.Decimal() | pl.Categorical() | pl.Enum():
            return cell.cast(pl.String)
    return pl.when(cell.is_finite()).then(cell) if inside and kind.is_float() else cell


def _duration(cell: pl.Expr, digits: int) -> pl.Expr:
    """Return ISO 8601 in seconds, PT90.500S, to the last digit of the unit."""
    ticks = cell.cast(pl.Int64)
    sign = pl.when(ticks < 0).then(pl.lit("-PT")).otherwise(pl.lit("PT"))
    seconds = (ticks.abs() // 10**digits).cast(pl.String)
    rest = (ticks.abs() % 10**digits).cast(pl.String).str.zfill(digits)
    return pl.when(ticks.is_not_null()).then(sign + seconds + "." + rest + "S")


# Digits as they are typed: no sign, space, _ or other script. A column with a gap says 3.0 for 3.
DIGITS = re.compile(r"[0-9]{1,100}(?:\.0+)?")
EXACT = 2.0**53
"""Up to here every whole number is a float of its own."""
TYPES = {
    pl.Int64: r"^-?[0-9]{1,18}$",
    pl.Float64: r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$",
    pl.Boolean: r"^(?i:true|false)$",
}
"""How the cells of a text table are written whose column is one of numbers or booleans."""


def read_labels(path: str | Path, *, label: str, key: str) -> tuple[pl.DataFrame, int]:
    """Return a table with these two columns, and the number of its first line as an editor has it."""
    path = Path(path)
    frame, suffix = read_table(path), suffix_of(path)
    if suffix in (".csv", ".tsv"):
        frame = unescaped(frame)
    for name in (key, label):
        if name not in frame.columns:
            raise DataMissing(
                f"Column {name!r} is not in {path.name} (columns: {listed(frame.columns)}). Rename one, "
                "or name others: `goalward import` has --key and --label."
            )
    return frame, 1 if suffix in (".jsonl", ".json", ".parquet") else 2


def rows_meant(
    cells: pl.Series, places: Mapping[Any, int] | None, total: int
) -> Iterable[int | str]:
    """Yield the row of each cell, or an error; `places` maps names to rows, None for numbers."""
    if places is not None:
        return (places.get(cell, f"{short(cell)} is not in the pool") for cell in texts(cells))
    return (_row(cell, total) for cell in cells)


def _row(cell: Any, total: int) -> int | str:
    """Return the row that a cell names, or why it names none: 3.7, True, "1_0", ""."""
    if isinstance(cell, str) and DIGITS.fullmatch(cell):
        cell = int(cell.partition(".")[0])
    elif isinstance(cell, float) and cell.is_integer() and 0 <= cell <= EXACT:
        cell = int(cell)
    if type(cell) is not int:
        return f"{short(cell)} is not a row number"
    return cell if 0 <= cell < total else f"row {cell} is not in the pool of {total}"


def label_column(column: pl.Series) -> list[Any]:
    """Return labels as numbers or booleans where all of them are; empty cells are missing then."""
    if column.dtype == pl.String:
        there, cells = column.filter(column != ""), column.replace("", None)
        for kind, pattern in TYPES.items():
            if len(there) and there.str.contains(pattern).all():
                if kind == pl.Boolean:
                    return (cells.str.to_lowercase() == "true").to_list()
                return cells.cast(kind, strict=False).to_list()
    return column.to_list()


WRITTEN = (".csv", ".tsv", ".xlsx", ".jsonl", ".parquet")
EXCEL_ROWS, EXCEL_COLUMNS, EXCEL_CELL = 2**20 - 1, 2**14, 2**15 - 1
"""Limits of an Excel sheet below its header, and the characters of a cell."""
TIMES = {pl.Date: "yyyy-mm-dd", pl.Datetime: "yyyy-mm-dd hh:mm:ss"}


def check_target(
    path: str | Path, *, force: bool = False, inputs: Iterable[str | Path] = ()
) -> None:
    """Raise if a table cannot be written: over a file, over `inputs`, or by its suffix."""
    path = Path(path)
    refuse_inputs(path, inputs)
    if path.suffix.lower() not in WRITTEN:
        raise BadInput(
            f"{path.name} must end in {', '.join(WRITTEN)}, got {path.suffix.lower()!r}. Rename it."
        )
    if not force:
        refuse_existing(path)


def write_table(
    frame: pl.DataFrame,
    path: str | Path,
    *,
    raw: bool = False,
    force: bool = False,
    like: Format | None = None,
) -> None:
    """Write a frame as .csv, .tsv, .xlsx, .jsonl or .parquet: whole, or not at all.

    A CSV is written `like` another file: by its separator, with a BOM where that was not plain UTF-8.
    Parquet keeps every type; elsewhere bytes become base64, times ISO 8601 but for those Excel can hold,
    and lists JSON. By default a text of a CSV that starts like a formula gets a ' in front, which `goalward import` removes; `raw`
    keeps it as it is. `force` replaces an existing file, otherwise `WouldOverwrite`.
    """
    path = Path(path)
    check_target(path, force=force)
    suffix = path.suffix.lower()
    with whole_file(path, force=force) as partial:
        if suffix == ".parquet":
            frame.write_parquet(partial)
        elif suffix == ".jsonl":
            as_json(frame).write_ndjson(partial)
        elif suffix == ".xlsx":
            _write_workbook(frame, partial, path.name)
        else:
            shown = as_text(frame) if raw else escaped(frame)
            how = like or Format()
            own = how.separator if how.separator in (";", "|") else ","
            own, marked = "\t" if suffix == ".tsv" else own, how.encoding not in (None, "utf-8")
            shown.write_csv(partial, separator=own, include_bom=marked)


def _write_workbook(frame: pl.DataFrame, path: Path, name: str) -> None:
    """Write an Excel file of one sheet: dates are dates, and texts are never formulas."""
    with needing("An Excel file"):
        from xlsxwriter import Workbook, exceptions
    # Excel knows no dates before 1900, no zones, and nothing below a millisecond.
    times = frame.select(cs.date() | cs.datetime(time_zone=None))
    fits = lambda t: ((t.dt.year() >= 1900) & (t.cast(pl.Datetime("ms")).cast(t.dtype) == t)).all()
    shown = as_text(frame).with_columns(filter(fits, times))
    lengths = shown.select(cs.string().str.len_chars().max().fill_null(0))
    longest = max(lengths.row(0), default=0) if lengths.width else 0
    if frame.height > EXCEL_ROWS or frame.width > EXCEL_COLUMNS or longest > EXCEL_CELL:
        raise BadInput(
            f"{name} must have at most {EXCEL_ROWS:,} rows, {EXCEL_COLUMNS:,} columns and {EXCEL_CELL:,} "
            f"characters in a cell, as Excel has, got {frame.height:,}, {frame.width:,} and "
            f"{longest:,}. Write .csv or .parquet."
        )
    plain = {"strings_to_formulas": False, "strings_to_urls": False, "constant_memory": True}
    try:
        with path.open("wb") as file, Workbook(file, plain) as book:
            sheet = book.add_worksheet("Table")
            for at, kind in enumerate(shown.dtypes):  # a narrow column shows no date
                look = {"num_format": TIMES.get(kind.base_type(), "General")}
                sheet.set_column(at, at, 19, book.add_format(look))
            for at, row in enumerate(chain([shown.columns], shown.iter_rows())):
                sheet.write_row(at, 0, map(_cell, row))
    except exceptions.FileCreateError as error:
        raise error.args[0] from error  # as the system said it


def _cell(value: Any) -> Any:
    # Excel computes with finite floats: whole numbers beyond them would lose digits.
    large = isinstance(value, int) and abs(value) > EXACT
    return str(value) if large or (isinstance(value, float) and not math.isfinite(value)) else value

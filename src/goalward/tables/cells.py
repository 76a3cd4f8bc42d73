"""Cells of any type: as JSON holds them, as a line of text does, and so that no spreadsheet runs them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl
import polars.selectors as cs

__all__ = ["as_json", "as_text", "escaped", "listed", "texts", "unescaped"]

PER_SECOND = {"ms": 3, "us": 6, "ns": 9}
"""Digits after the point of a second, by the unit of a column."""
RUN = "=+\\-@＝＋－＠"
"""First characters that make a spreadsheet compute a cell, full-width ones too (OWASP, CSV
injection)."""
SIGNS = rf"{RUN}\t\r\n\x00"
NUMBER = r"[-+](?:(?:[0-9][0-9.,]*|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?%?|(?i:inf|infinity|nan)) *"
"""A number with a sign, which nothing computes."""
BREAK = r'[;\t\r\n]"*'
"""Where a spreadsheet may begin a cell inside a text, if it takes another separator."""
SUSPECT = f"^'*[{SIGNS}]|{BREAK}'*[{RUN}]"
# One ' more than there is: what begins with ' and a sign from the start comes back whole. Numbers,
# and the items of a list inside a text ("- "), stay as they are.
FORMULA = re.compile(
    rf"\A(?!{NUMBER}\Z)(?='*[{SIGNS}])|({BREAK})(?![-+] |{NUMBER}(?:[;\t\r\n]|\Z))(?='*[{RUN}])"
)
ESCAPED = re.compile(rf"\A'(?='*[{SIGNS}])|({BREAK})'(?='*[{RUN}])")


def as_json(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with nothing but texts, numbers, booleans, and lists and structs of them.

    Bytes become base64, times ISO 8601, decimals their digits. NaN and infinite numbers, which
    JSON does not have, are null inside lists and structs.
    """
    # By position: a name may look like a pattern.
    cells = enumerate(frame.schema.items())
    return frame.select(_plain(pl.nth(i), kind).alias(name) for i, (name, kind) in cells)


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame as a CSV holds it: as in JSON, but lists and structs as JSON text.

    Decimals stay the numbers they are.
    """
    plain = as_json(frame).with_columns(frame.select(cs.decimal()).get_columns())
    made = []
    for i, (name, kind) in enumerate(plain.schema.items()):
        if kind.is_nested():
            # Only structs can be encoded: {"x":...} is put around and taken away.
            whole = pl.struct(x=pl.nth(i)).struct.json_encode()
            inner = whole.str.slice(5).str.head(-1)
            made.append(pl.when(pl.nth(i).is_not_null()).then(inner).alias(name))
    return plain.with_columns(made)


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names as a message lists them: all of a few, else how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def texts(column: pl.Series) -> pl.Series:
    """Return a column of any type as texts; what is missing stays so."""
    return as_text(column.to_frame()).to_series().cast(pl.String)


def escaped(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame as a CSV holds it, with a ' before texts and names like formulas."""
    return _rewritten(as_text(frame), FORMULA, r"\1'")


def unescaped(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame without what `escaped` put in: its exact inverse on texts."""
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
                _plain(cell.struct.field(one.name), one.dtype, inside=True).alias(one.name)
                for one in kind.fields
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

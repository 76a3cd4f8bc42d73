"""Cells of any type: as JSON holds them, as a line of text does, and so that no spreadsheet runs them."""

from __future__ import annotations

import json
import re
from typing import Any

import polars as pl

__all__ = ["as_json", "as_text", "escaped", "storable", "texts", "unescaped"]

PER_SECOND = {"ms": 3, "us": 6, "ns": 9}
"""Digits after the point of a second, by the unit of a column."""
SIGNS = "=+\\-@＝＋－＠\t\r\n\x00"
"""First characters that make a spreadsheet compute a cell, full-width ones too (OWASP, CSV
injection), and NUL."""
# One ' more than there is: what begins with ' and a sign from the start comes back whole.
FORMULA = f"^'*[{SIGNS}]"
ESCAPED = f"^'+[{SIGNS}]"


def as_json(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with nothing but texts, numbers, booleans, and lists and structs of them.

    Bytes become base64, times ISO 8601, decimals their digits. NaN and infinite numbers, which
    JSON does not have, are null inside lists and structs.
    """
    frame = _without_objects(frame)
    made = [_simple(pl.col(c), kind).alias(c) for c, kind in frame.schema.items() if _odd(kind)]
    return frame.with_columns(made)


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame as a CSV holds it: as in JSON, but lists and structs as JSON text.

    Decimals stay the numbers they are.
    """
    decimals = [c for c, kind in frame.schema.items() if isinstance(kind, pl.Decimal)]
    return _encoded(as_json(frame).with_columns(frame.select(decimals).get_columns()))


def storable(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame as Parquet holds it: all as it is, but Python objects as texts."""
    frame = _without_objects(frame)
    childless = [c for c, kind in frame.schema.items() if _childless(kind)]
    return frame.with_columns(_encoded(as_json(frame.select(childless))).get_columns())


def texts(column: pl.Series) -> pl.Series:
    """Return a column of any type as texts; what is missing stays so."""
    return as_text(column.to_frame()).to_series().cast(pl.String)


def escaped(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame as a CSV holds it, with a ' before texts and names like formulas."""
    frame, text = as_text(frame), pl.col(pl.String)
    marked = pl.when(text.str.contains(FORMULA)).then(pl.lit("'") + text).otherwise(text)
    names = {name: f"'{name}" for name in frame.columns if re.match(FORMULA, name)}
    return frame.with_columns(marked.name.keep()).rename(names)


def unescaped(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame without what `escaped` put in: its exact inverse on texts."""
    text = pl.col(pl.String)
    bare = pl.when(text.str.contains(ESCAPED)).then(text.str.slice(1)).otherwise(text)
    names = {name: name[1:] for name in frame.columns if re.match(ESCAPED, name)}
    return frame.with_columns(bare.name.keep()).rename(names)


def _encoded(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with JSON texts for lists and structs."""
    made = []
    for name, kind in frame.schema.items():
        if kind.is_nested():
            # Only structs can be encoded: {"x":...} is put around and taken away.
            whole = pl.struct(x=pl.col(name)).struct.json_encode()
            inner = whole.str.slice(5, whole.str.len_chars() - 6)
            made.append(pl.when(pl.col(name).is_not_null()).then(inner).alias(name))
    return frame.with_columns(made)


def _odd(kind: Any) -> bool:
    """Return whether JSON has no such values."""
    if isinstance(kind, (pl.List, pl.Array)):
        return isinstance(kind, pl.Array) or kind.inner.is_float() or _odd(kind.inner)
    if isinstance(kind, pl.Struct):
        return any(field.dtype.is_float() or _odd(field.dtype) for field in kind.fields)
    return kind.is_temporal() or isinstance(kind, (pl.Binary, pl.Decimal, pl.Categorical, pl.Enum))


def _simple(cell: pl.Expr, kind: Any, *, inside: bool = False) -> pl.Expr:
    if isinstance(kind, pl.Array):
        return _simple(cell.arr.to_list(), pl.List(kind.inner), inside=inside)
    if isinstance(kind, pl.List):
        return cell.list.eval(_simple(pl.element(), kind.inner, inside=True))
    if isinstance(kind, pl.Struct) and kind.fields:
        made = [
            _simple(cell.struct.field(one.name), one.dtype, inside=True).alias(one.name)
            for one in kind.fields
        ]
        return pl.when(cell.is_not_null()).then(pl.struct(made))
    if isinstance(kind, pl.Duration):
        return _duration(cell, PER_SECOND[kind.time_unit])
    if isinstance(kind, pl.Datetime):
        zone = "%:z" if kind.time_zone else ""
        return cell.dt.strftime(f"%Y-%m-%dT%H:%M:%S%.{PER_SECOND[kind.time_unit]}f{zone}")
    if isinstance(kind, pl.Time):
        return cell.dt.strftime("%H:%M:%S%.9f")
    if isinstance(kind, pl.Binary):
        return cell.bin.encode("base64")
    if kind.is_float() and inside:
        return pl.when(cell.is_finite()).then(cell)
    return cell.cast(pl.String) if _odd(kind) else cell


def _duration(cell: pl.Expr, digits: int) -> pl.Expr:
    """Return ISO 8601 in seconds, PT90.500S, to the last digit of the unit."""
    ticks = cell.cast(pl.Int64)
    sign = pl.when(ticks < 0).then(pl.lit("-PT")).otherwise(pl.lit("PT"))
    seconds = (ticks.abs() // 10**digits).cast(pl.String)
    rest = (ticks.abs() % 10**digits).cast(pl.String).str.zfill(digits)
    return pl.when(ticks.is_not_null()).then(sign + seconds + "." + rest + "S")


def _without_objects(frame: pl.DataFrame) -> pl.DataFrame:
    objects = [c for c, kind in frame.schema.items() if kind == pl.Object]
    return frame.with_columns(
        pl.Series(name, [_said(value) for value in frame[name].to_list()], dtype=pl.String)
        for name in objects
    )


def _said(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)


def _childless(kind: Any) -> bool:
    """Return whether there is a struct without fields inside, which Parquet cannot hold."""
    if isinstance(kind, pl.Struct):
        return not kind.fields or any(_childless(field.dtype) for field in kind.fields)
    return isinstance(kind, (pl.List, pl.Array)) and _childless(kind.inner)

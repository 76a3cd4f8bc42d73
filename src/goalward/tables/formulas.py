"""Texts that a spreadsheet would compute, marked so that it does not, and unmarked again."""

from __future__ import annotations

import re

import polars as pl

from goalward.tables.cells import as_text

__all__ = ["escaped", "unescaped"]

SIGNS = "=+\\-@＝＋－＠\t\r\n\x00"
"""First characters that make a spreadsheet compute a cell, full-width ones too (OWASP, CSV
injection), and NUL."""
# One ' more than there is: what begins with ' and a sign from the start comes back whole.
FORMULA = f"^'*[{SIGNS}]"
ESCAPED = f"^'+[{SIGNS}]"


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

"""Frames as files that a spreadsheet opens without running anything."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

from goalward.errors import BadInput, NotWritten

__all__ = ["escaped", "unescaped", "write_table"]

FORMULAS = r"^[=+\-@\t\r\n\x00]"
"""First characters that make a spreadsheet compute a cell (OWASP, CSV injection), and NUL."""
ESCAPED = r"^'([=+\-@\t\r\n\x00])"


def write_table(frame: pl.DataFrame, path: str | Path, *, raw: bool = False) -> None:
    """Write a frame as .csv, .tsv, .jsonl or .parquet: whole, or not at all.

    Parameters
    ----------
    raw
        Leave texts of a CSV or TSV as they are. By default one that starts like a formula gets a
        ' in front; `goalward import` takes it away again.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in (".csv", ".tsv", ".jsonl", ".parquet"):
        raise BadInput(
            f"{path.name} ends in {ending!r}; .csv, .tsv, .jsonl or .parquet was expected."
        )
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if ending == ".parquet":
            frame.write_parquet(partial)
        elif ending == ".jsonl":
            frame.write_ndjson(partial)
        else:
            shown = frame if raw else escaped(frame)
            shown.write_csv(partial, separator="\t" if ending == ".tsv" else ",")
        partial.replace(path)
    except OSError as error:
        raise NotWritten(
            f"{path} could not be written ({error.strerror or error}). Give another path, or make "
            "room; the study is untouched."
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def escaped(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with a ' before texts (and names) that start like a formula."""
    text = pl.col(pl.String)
    frame = frame.with_columns(
        pl.when(text.str.contains(FORMULAS)).then(pl.lit("'") + text).otherwise(text).name.keep()
    )
    return frame.rename(
        {name: f"'{name}" for name in frame.columns if name[:1] in "=+-@\t\r\n\0" and name}
    )


def unescaped(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame without what `escaped` put in."""
    text = pl.col(pl.String)
    frame = frame.with_columns(
        pl.when(text.str.contains(ESCAPED)).then(text.str.slice(1)).otherwise(text).name.keep()
    )
    return frame.rename(
        {n: n[1:] for n in frame.columns if n[:1] == "'" and n[1:2] in "=+-@\t\r\n\0" and n[1:]}
    )

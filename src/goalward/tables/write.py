"""Frames as files: whole or not at all, over nothing, and opened by a spreadsheet without harm."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from goalward.core.whole_file import refuse_existing, refuse_inputs, whole_file
from goalward.errors import BadInput
from goalward.tables.cells import as_json, as_text, escaped

__all__ = ["WRITTEN", "check_target", "write_table"]

WRITTEN = (".csv", ".tsv", ".jsonl", ".parquet")


def check_target(
    path: str | Path, *, force: bool = False, inputs: Iterable[str | Path] = ()
) -> None:
    """Raise where a table could not be written: over a file, over inputs, with another ending.

    `inputs` are the files it is made from, which `force` does not reach.
    """
    path = Path(path)
    refuse_inputs(path, inputs)
    if path.suffix.lower() not in WRITTEN:
        raise BadInput(
            f"{path.name} ends in {path.suffix.lower()!r}; .csv, .tsv, .jsonl or .parquet was expected. "
            "Give it one of these endings; spreadsheets open .csv."
        )
    if not force:
        refuse_existing(path)


def write_table(
    frame: pl.DataFrame, path: str | Path, *, raw: bool = False, force: bool = False
) -> None:
    """Write a frame as .csv, .tsv, .jsonl or .parquet: whole, or not at all.

    Columns may be of any type. Parquet keeps it; elsewhere bytes become base64, times and
    durations ISO 8601, and a CSV holds lists and structs as JSON.

    Parameters
    ----------
    raw
        Leave texts of a CSV or TSV as they are. By default one that starts like a formula gets a
        ' in front, and a number never; `goalward import` takes it away again.
    force
        Take the place of a file that is there; without it that is `WouldOverwrite`.
    """
    path = Path(path)
    check_target(path, force=force)
    ending = path.suffix.lower()
    with whole_file(path, force=force) as partial:
        if ending == ".parquet":
            frame.write_parquet(partial)
        elif ending == ".jsonl":
            as_json(frame).write_ndjson(partial)
        else:
            shown = as_text(frame) if raw else escaped(frame)
            shown.write_csv(partial, separator="\t" if ending == ".tsv" else ",")

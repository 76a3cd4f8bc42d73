"""Frames as files: whole or not at all, over nothing, and opened by a spreadsheet without harm."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile

import polars as pl
import polars.selectors as cs

from goalward.core.whole_file import refuse_existing, refuse_inputs, whole_file
from goalward.errors import BadInput
from goalward.tables.cells import as_json, as_text, escaped

__all__ = ["WRITTEN", "check_target", "write_table"]

WRITTEN = (".csv", ".tsv", ".xlsx", ".jsonl", ".parquet")
EXCEL_ROWS, EXCEL_COLUMNS, EXCEL_CELL = 2**20 - 1, 2**14, 2**15 - 1
"""What a sheet of Excel holds below its line of names, and the characters of a cell."""
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
WORKBOOK = {
    "[Content_Types].xml": f'''<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels"
        ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
        <Override PartName="/xl/workbook.xml" ContentType="{KIND}.sheet.main+xml"/>
        <Override PartName="/xl/sheet.xml" ContentType="{KIND}.worksheet+xml"/></Types>''',
    "_rels/.rels": f'''<Relationships xmlns="{PACKAGE}/relationships">
        <Relationship Id="r1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>''',
    "xl/workbook.xml": f'''<workbook xmlns="{SHEETS}" xmlns:r="{OFFICE}">
        <sheets><sheet name="Table" sheetId="1" r:id="r1"/></sheets></workbook>''',
    "xl/_rels/workbook.xml.rels": f'''<Relationships xmlns="{PACKAGE}/relationships">
        <Relationship Id="r1" Type="{OFFICE}/worksheet" Target="sheet.xml"/></Relationships>''',
}
"""The parts of an Excel file around its sheet."""


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
            f"{path.name} ends in {path.suffix.lower()!r}; {', '.join(WRITTEN)} was expected. "
            "Give it one of these endings; spreadsheets open .xlsx and .csv."
        )
    if not force:
        refuse_existing(path)


def write_table(
    frame: pl.DataFrame, path: str | Path, *, raw: bool = False, force: bool = False
) -> None:
    """Write a frame as .csv, .tsv, .xlsx, .jsonl or .parquet: whole, or not at all.

    Columns may be of any type. Parquet keeps it; elsewhere bytes become base64, times and
    durations ISO 8601, and CSV and Excel hold lists and structs as JSON.

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
        elif ending == ".xlsx":
            _write_workbook(as_text(frame), partial, path.name)
        else:
            shown = as_text(frame) if raw else escaped(frame)
            shown.write_csv(partial, separator="\t" if ending == ".tsv" else ",")


def _write_workbook(frame: pl.DataFrame, path: Path, name: str) -> None:
    """Write an Excel file of one sheet; a text stays a text, whatever it begins with."""
    lengths = frame.select(cs.string().str.len_chars().max().fill_null(0))
    longest = max(lengths.row(0), default=0) if lengths.width else 0
    if frame.height > EXCEL_ROWS or frame.width > EXCEL_COLUMNS or longest > EXCEL_CELL:
        raise BadInput(
            f"{name} would have {frame.height:,} rows, {frame.width:,} columns and up to {longest:,} "
            f"characters in a cell; at most {EXCEL_ROWS:,}, {EXCEL_COLUMNS:,} and {EXCEL_CELL:,} were "
            "expected, as Excel has. Write .csv or .parquet."
        )
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for part, text in WORKBOOK.items():
            archive.writestr(part, text)
        with archive.open("xl/sheet.xml", "w", force_zip64=True) as sheet:
            sheet.write(f'<worksheet xmlns="{SHEETS}"><sheetData>'.encode())
            for row in chain([frame.columns], frame.iter_rows()):
                sheet.write(f"<row>{''.join(map(_cell, row))}</row>".encode())
            sheet.write(b"</sheetData></worksheet>")


def _cell(value: Any) -> str:
    if value is None:
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{value:d}</v></c>'
    # Excel computes with floats: whole numbers beyond them would lose digits.
    large = isinstance(value, int) and abs(value) > 2**53
    if not isinstance(value, str) and math.isfinite(value) and not large:
        return f"<c><v>{value}</v></c>"
    # What XML cannot hold is written as Excel does: _x0007_.
    plain = re.sub(r"_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", str(value))
    plain = re.sub(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]", lambda c: f"_x{ord(c[0]):04X}_", plain)
    return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(plain)}</t></is></c>'

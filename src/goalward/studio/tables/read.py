"""Tables as people have them, as a frame of texts and numbers, whatever wrote them."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from goalward.core.extras import needing
from goalward.core.npy import stamp_of
from goalward.errors import BadInput, BadParameter

__all__ = [
    "PICTURE",
    "PICTURES",
    "Written",
    "beside",
    "decoded",
    "ending_of",
    "parsed",
    "read_table",
    "separated",
    "separator_of",
    "written",
]


# Text files as they are found: which characters their bytes mean, and what stands between cells.


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


USUAL = {".csv": ",", ".tsv": "\t"}
"""What separates cells by the name of a file, where another is not found in it."""
_LAST: dict[tuple[Any, ...], tuple[pl.DataFrame, Written]] = {}
"""The table read last, by its file's stamp and what was asked of it."""
PICTURE = "picture"
"""The column of a folder's pictures with their paths."""
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
SURE, DENSEST = 10**7, 100
"""Cells or bytes that any file may become, and how many for each that is in it."""
MOST_COLUMNS = 10_000
CELL = re.compile(rb'<(?:\w+:)?c\b[^>]*?\br\s*=\s*["\']([A-Z]{1,3})([0-9]{1,7})')
ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".xlsx", ".parquet")
"""What can be read; each also with .gz after it."""


def read_table(
    path: str | Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> pl.DataFrame:
    """Return a table; every column of a CSV or TSV is text, as it stands in the file.

    `separator` and `encoding` of a text file are found out unless they are given; of a workbook the
    sheet with most cells is taken.
    """
    return written(path, separator, encoding, sheet)[0]


def written(
    path: str | Path,
    separator: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    parse: Callable[..., tuple[pl.DataFrame, Written]] | None = None,
) -> tuple[pl.DataFrame, Written]:
    """Return a table, and how it was written.

    The last one that was read is remembered: a study is made, and opened, in a few reads.

    Parameters
    ----------
    parse
        Reads the file; `parsed` by default.
    """
    path = Path(path)
    if path.is_dir():
        return _folder(path), Written()
    before = stamp_of(path)
    asked = (path.absolute(), before, Written(encoding, separator, sheet))
    if asked in _LAST:
        return _LAST[asked]
    table, how = (parse or parsed)(path, separator, encoding, sheet)
    # Another may have been written meanwhile.
    if before is not None and before == stamp_of(path):
        _LAST.clear()
        found = (*asked[:2], how._replace(sheets=()))
        _LAST.update(dict.fromkeys((asked, found), (table, how)))
    return table, how


def parsed(
    path: Path, separator: str | None, encoding: str | None, sheet: str | None
) -> tuple[pl.DataFrame, Written]:
    """Return the table of a file, and how it was written."""
    ending, content = ending_of(path), _content(path)
    how = Written()
    if ending == ".parquet":
        table = _parquet(path, content)
    elif ending == ".xlsx":
        table, how = _workbook(path, content, sheet)
    else:
        text, encoding = decoded(path, content, encoding)
        if ending in USUAL:
            separator = separator or separator_of(text, USUAL[ending])
            first = text.partition("\n")[0]
            _check_width(path, first.count(NAMED.get(separator, separator)) + 1)
            table = separated(path, text, separator)
        else:
            separator, table = None, _json(path, text, lines=ending == ".jsonl")
        how = Written(encoding, separator)
    if table.height == 0:
        raise BadInput(f"{path.name} has no rows; at least 1 was expected. Add some.")
    return table, how


def ending_of(path: Path) -> str:
    """Return what kind of table a file is, by its name."""
    ending = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    if ending not in ENDINGS:
        raise BadInput(
            f"{path.name} ends in {ending!r}; {', '.join(ENDINGS)} was expected, or one of them with "
            ".gz after it. Convert it: a spreadsheet saves as .xlsx or .csv."
        )
    return ending


def beside(path: str | Path, ending: str) -> Path:
    """Return the file of a table's name and another ending beside it."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).with_suffix(ending)


def _folder(path: Path) -> pl.DataFrame:
    """Return the pictures of a folder and its subfolders, in the order of their names."""
    found = sorted(
        one.relative_to(path)
        for one in path.rglob("*")
        if one.suffix.lower() in PICTURES
        and one.is_file()
        # What is hidden is not the person's.
        and not any(part.startswith(".") for part in one.relative_to(path).parts)
    )
    if not found:
        raise BadInput(
            f"{path} is a folder without pictures ({', '.join(PICTURES)}); a table, or a folder with "
            "pictures, was expected. Check the path."
        )
    within = [one.parts[0] if len(one.parts) > 1 else "" for one in found]
    return pl.DataFrame({PICTURE: [one.as_posix() for one in found], "folder": within})


def _check_size(path: Path, size: int, there: int) -> None:
    """Raise if a table would be far larger than what there is of it: made to fill a memory."""
    if size > max(SURE, DENSEST * there):
        raise BadInput(
            f"{path.name} would be {size:,} cells or bytes, of {there:,} that are in it; at most "
            f"{DENSEST} for each were expected. Look at who made it, and save it without empty parts."
        )


def _check_width(path: Path, columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise BadInput(
            f"{path.name} has {columns:,} columns; at most {MOST_COLUMNS:,} were expected. Keep those "
            "that people read, and bring many numbers as a .npy file of the table's name beside it."
        )


def _content(path: Path) -> bytes:
    try:
        if path.suffix.lower() != ".gz":
            return path.read_bytes()
        packed = path.stat().st_size
        with gzip.open(path) as file:
            content = file.read(max(SURE, DENSEST * packed) + 1)
        _check_size(path, len(content), packed)
        return content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadInput(
            f"{path.name} could not be unpacked ({error}); a whole gzip file was expected. Copy it "
            "again, or unpack it with another program."
        ) from error
    except OSError as error:
        raise BadInput(
            f"{path} could not be opened ({error.strerror}); a table was expected. Check the path."
        ) from error


def _parquet(path: Path, content: bytes) -> pl.DataFrame:
    try:
        schema = pl.read_parquet_schema(content)
        _check_width(path, len(schema))
        rows = int(pl.scan_parquet(content).select(pl.len()).collect().item())
        _check_size(path, rows * len(schema), len(content))
        return pl.read_parquet(content)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BadInput(
            f"{path.name} could not be read ({_first(error)}); a Parquet file was expected. Copy it "
            "again, or convert it to .csv."
        ) from error


def _workbook(path: Path, content: bytes, sheet: str | None) -> tuple[pl.DataFrame, Written]:
    """Return a sheet: the one named, else that with most cells, or "" for the first with rows.

    Whole numbers, which Excel does not have, are made.
    """
    with needing("An Excel file"):
        import fastexcel
    _check_sheets(path, content)
    try:
        book = fastexcel.read_excel(content)
        names = book.sheet_names
        wanted = [name for name in names if name == sheet or not sheet]
        sheets = (book.load_sheet(name, schema_sample_rows=None) for name in wanted)
        frames = {one.name: frame for one in sheets if (frame := one.to_polars()).height}
    except (fastexcel.FastExcelError, ValueError) as error:
        raise BadInput(
            f"{path.name} could not be read ({_first(error)}); an Excel workbook with a line of names "
            "was expected. Open it in a spreadsheet and save it as .xlsx, or as CSV UTF-8."
        ) from error
    if sheet and not wanted:
        raise BadParameter(
            f"{path.name} has the sheets {', '.join(names)}; one called {sheet!r} was expected. "
            "Correct the name."
        )
    cells = {name: frame.count().sum_horizontal().sum() for name, frame in frames.items()}
    name = (
        next(iter(cells), None) if sheet == "" else max(cells, key=cells.__getitem__, default=None)
    )
    table = pl.DataFrame() if name is None else frames[name]
    empty = [name for name in table.columns if table[name].null_count() == table.height]
    table = table.drop(empty).filter(~pl.all_horizontal(pl.all().is_null()))
    whole = [c.name for c in table if c.dtype.is_float() and (c.drop_nulls() % 1 == 0).all()]
    made = table.with_columns(pl.col(whole).cast(pl.Int64, strict=False))
    return made, Written(sheet=name, sheets=tuple(names))


def _check_sheets(path: Path, content: bytes) -> None:
    """Raise if sheets are far larger than what is in them; two cells may be a million rows apart."""
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as archive:
        _check_size(path, sum(one.file_size for one in archive.infolist()), len(content))
        for name in archive.namelist():
            cells = CELL.findall(archive.read(name)) if name.endswith(".xml") else []
            if cells:
                rows = [int(row) for _, row in cells]
                wide = max(len(column) for column, _ in cells)
                last = max(column for column, _ in cells if len(column) == wide)
                columns = sum(26**i * (c - 64) for i, c in enumerate(reversed(last)))
                _check_size(path, (max(rows) - min(rows) + 1) * columns, len(cells))


def _json(path: Path, text: str, *, lines: bool) -> pl.DataFrame:
    if not lines:
        try:
            return _records(path, _objects(path, json.loads(text)))
        except (ValueError, RecursionError) as error:
            # One object a line, by another name.
            if "Extra data" not in str(error):
                raise BadInput(
                    f"{path.name} could not be read ({error}); a list of objects was expected: "
                    '[{"text": "..."}, ...]. Repair it there.'
                ) from error
    # Only \n ends a line: a text may hold other line separators.
    numbered = enumerate(text.split("\n"), start=1)
    return _records(
        path, (_object(path, number, line) for number, line in numbered if line.strip())
    )


def _objects(path: Path, data: Any) -> list[dict[str, Any]]:
    """Return the rows of a JSON file: a list of objects, or an object with one such list in it."""
    lists = (
        [one for one in data.values() if isinstance(one, list)] if isinstance(data, dict) else []
    )
    rows = lists[0] if len(lists) == 1 else data
    wrong = isinstance(rows, list) and next(
        (i for i, r in enumerate(rows) if type(r) is not dict), None
    )
    if not isinstance(rows, list) or wrong is not None:
        what = (
            f"a {type(rows).__name__}"
            if wrong is None or wrong is False
            else f"no object at {wrong}"
        )
        raise BadInput(
            f"{path.name} holds {what}; a list of objects was expected: "
            '[{"text": "..."}, ...]. In pandas: frame.to_json(path, orient="records").'
        )
    for number, row in enumerate(rows):
        _whole(path, f"Row {number}", row)
    return rows


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
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
    return _whole(path, f"Line {number}", row)


def _whole(path: Path, place: str, row: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except ValueError as error:
        raise BadInput(
            f"{place} of {path.name} could not be read ({error}); an object of whole characters was "
            "expected. Repair it."
        ) from error
    return row


def _records(path: Path, objects: Iterable[dict[str, Any]]) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for row in objects:
        nested = {
            k: json.dumps(v, ensure_ascii=False)
            for k, v in row.items()
            if isinstance(v, (dict, list))
        }
        rows.append(row | nested)
    names = dict.fromkeys(name for row in rows for name in row)
    _check_width(path, len(names))
    _check_size(path, len(names) * len(rows), sum(map(len, rows)))
    for name in names:
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

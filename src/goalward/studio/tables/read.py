"""Tables as people have them, read as frames: CSV, Excel, JSON, Parquet, folders of pictures."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import re
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import polars as pl
from charset_normalizer import from_bytes

from goalward import errors
from goalward.core.arguments import needing
from goalward.core.files import stamp_of
from goalward.errors import BadInput, BadParameter

SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".xlsx", ".parquet")
"""Files that can be read; each also with .gz after it."""
PICTURE = "picture"
"""The column of a folder's pictures with their paths."""
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
ENCODINGS = ["utf_8", "utf_16", "utf_16_le", "utf_16_be", "utf_32", "cp1252"]
"""Encodings that are recognized; a wrong guess among more would show as wrong letters."""
SEPARATORS = ",;\t|"
USUAL = {".csv": ",", ".tsv": "\t"}
NAMED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|"}
"""Separators by name, for command lines."""
SAMPLE = 2**16
"""Characters from which the separator is recognized."""
LARGEST_CELL = 2**31 - 1
MOST_COLUMNS = 10_000
SMALL, DENSEST = 10**7, 100
"""Cells or bytes that any file may become, and how many for each that is in it."""
BLOCK = 10_000
"""Lines that are taken together: as lists of texts all would need several times their memory."""
MEMORY, SECONDS = 2**32, 180
"""Limits of a process that reads a table: bytes (at most half of the machine's), and time."""
# Every thread takes of the limit; Python's own allocator asks again for each object at the limit.
ENVIRONMENT = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "PYTHONMALLOC": "malloc"}
CELL = re.compile(rb'<(?:\w+:)?c\b[^>]*?\br\s*=\s*["\']([A-Z]{1,3})([0-9]{1,7})')
_LAST: dict[tuple[Any, ...], tuple[pl.DataFrame, Format]] = {}
"""The table read last, by its file's stamp and options: a study is made in a few reads."""


class Format(NamedTuple):
    """How a file is written: the encoding and separator of a text, the sheet of a workbook."""

    encoding: str | None = None
    separator: str | None = None
    sheet: str | None = None
    sheets: tuple[str, ...] = ()


def read_table(
    path: str | Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> pl.DataFrame:
    """Return a table; every column of a CSV or TSV is text, as it stands in the file.

    `separator` and `encoding` are detected by default; `sheet` is the one with most cells.
    """
    return read_format(path, separator, encoding, sheet)[0]


def read_format(
    path: str | Path,
    separator: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    *,
    isolated: bool = False,
) -> tuple[pl.DataFrame, Format]:
    """Return a table and its format; `isolated` reads it in a process with a memory limit."""
    path = Path(path)
    if path.is_dir():
        return _pictures(path), Format()
    stamp = stamp_of(path)
    key = (path.absolute(), stamp, Format(encoding, separator, sheet))
    if key not in _LAST:
        parse = parse_isolated if isolated else parse_file
        table, how = parse(path, separator, encoding, sheet)
        # Another file may have been written meanwhile.
        if stamp is None or stamp != stamp_of(path):
            return table, how
        _LAST.clear()
        keys = (key, (*key[:2], how._replace(sheets=())))
        _LAST.update(dict.fromkeys(keys, (table, how)))
    return _LAST[key]


def parse_file(
    path: Path, separator: str | None, encoding: str | None, sheet: str | None
) -> tuple[pl.DataFrame, Format]:
    """Return the table of a file and its format."""
    suffix, content, how = suffix_of(path), _content(path), Format()
    if suffix == ".parquet":
        table = _parquet(path, content)
    elif suffix == ".xlsx":
        table, how = _workbook(path, content, sheet)
    else:
        text, encoding = _decoded(path, content, encoding)
        if suffix in USUAL:
            separator = separator or _separator(text, USUAL[suffix])
            table = _separated(path, text, NAMED.get(separator, separator))
        else:
            separator, table = None, _records(path, text, lines=suffix == ".jsonl")
        how = Format(encoding, separator)
    if table.height == 0:
        raise BadInput(f"{path.name} has no rows. Add at least one.")
    return table, how


def parse_isolated(path: Path, *options: str | None) -> tuple[pl.DataFrame, Format]:
    """Call `parse_file` in a process of its own, so that a crash there ends nothing else."""
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else MEMORY
    memory = min(MEMORY, pages * 4096 // 2)
    with TemporaryDirectory() as folder:
        out = Path(folder) / "table.arrow"
        arguments = json.dumps([memory, str(path.absolute()), str(out), *options])
        code = f"from {__name__} import _child; _child()"
        # Never from the working folder, where a stranger's file may have a module's name.
        command = [sys.executable, "-P", "-c", code, arguments]
        search = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environment = os.environ | ENVIRONMENT | search
        try:
            process = subprocess.run(
                command, env=environment, capture_output=True, timeout=SECONDS, check=True
            )
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            raise BadInput(
                f"{path.name} takes more than {memory / 2**30:.1f} GB of memory or {SECONDS // 60} "
                "minutes to read. Keep the rows and columns that you need, or save it as .parquet."
            ) from error
        reply = json.loads(process.stdout)
        if "error" in reply:
            raise getattr(errors, reply["error"])(reply["message"])
        how = Format(*reply["format"])
        return pl.read_ipc(out.read_bytes()), how._replace(sheets=tuple(how.sheets))


def _child() -> None:
    """Read a table into a file within the memory limit; print its format, or the error."""
    memory, path, out, *options = json.loads(sys.argv[1])
    with suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        table, how = parse_file(Path(path), *options)
        table.write_ipc(out)
        print(json.dumps({"format": how}))
    except errors.GoalwardError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))


def suffix_of(path: Path) -> str:
    """Return the kind of a table's file by its name, without .gz."""
    suffix = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    if suffix not in SUFFIXES:
        raise BadInput(
            f"{path.name} must end in {', '.join(SUFFIXES)}, or in one of them with .gz after it, got "
            f"{suffix!r}. Convert it: a spreadsheet saves as .xlsx or .csv."
        )
    return suffix


def beside(path: str | Path, suffix: str) -> Path:
    """Return the file of a table's name and another suffix beside it."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).with_suffix(suffix)


def _pictures(folder: Path) -> pl.DataFrame:
    """Return the pictures of a folder and its subfolders by name, hidden ones left out."""
    files = (file for file in folder.rglob("*") if file.suffix.lower() in PICTURES)
    paths = sorted(file.relative_to(folder) for file in files if file.is_file())
    paths = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    if not paths:
        raise BadInput(
            f"{folder} holds no pictures ({', '.join(PICTURES)}). Name a table, or another folder."
        )
    subfolders = [path.parts[0] if len(path.parts) > 1 else "" for path in paths]
    return pl.DataFrame({PICTURE: [path.as_posix() for path in paths], "folder": subfolders})


def _check_size(path: Path, size: int, there: int) -> None:
    """Raise if a table would be far larger than its file: made to fill a memory."""
    if size > max(SMALL, DENSEST * there):
        raise BadInput(
            f"{path.name} must hold at most {DENSEST} cells or bytes for each that is in the file, got "
            f"{size:,} of {there:,}. Check where it comes from, and save it without empty parts."
        )


def _check_width(path: Path, columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise BadInput(
            f"{path.name} must have at most {MOST_COLUMNS:,} columns, got {columns:,}. Keep those that "
            "people read, and put many numbers into a .npy file of the table's name beside it."
        )


def _content(path: Path) -> bytes:
    try:
        if path.suffix.lower() != ".gz":
            return path.read_bytes()
        packed = path.stat().st_size
        with gzip.open(path) as file:
            content = file.read(max(SMALL, DENSEST * packed) + 1)
        _check_size(path, len(content), packed)
        return content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadInput(f"{path.name} is not a whole gzip file ({error}). Copy it again.") from error
    except OSError as error:
        raise BadInput(f"{path} could not be opened ({error.strerror}). Check the path.") from error


def _decoded(path: Path, content: bytes, encoding: str | None) -> tuple[str, str]:
    """Return a text and its encoding: the one given, else one of `ENCODINGS`."""
    if encoding is None:
        encoding = _detected(content)
    try:
        return content.decode(encoding).removeprefix("\ufeff"), encoding
    except LookupError as error:
        raise BadParameter(
            f"The encoding must be one of Python's, such as cp1252, got {encoding!r}. Or omit it."
        ) from error
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadInput(
            f"{path.name} is not {encoding.upper()} at byte {error.start} (line {line}). Name its "
            "encoding (cp1252, utf-16, cp1251, shift_jis, gb18030), or save it as UTF-8."
        ) from error


def _detected(content: bytes) -> str:
    # cp1252 has no zero bytes, and Latin letters in UTF-16 have one in two.
    if 0 not in content[:2]:
        with suppress(UnicodeDecodeError):
            content.decode()
            return "utf-8-sig" if content.startswith(codecs.BOM_UTF8) else "utf-8"
    match = from_bytes(content, cp_isolation=ENCODINGS[:-1] if 0 in content else ENCODINGS).best()
    return match.encoding.replace("_", "-") if match else "utf-8"


def _separator(text: str, usual: str) -> str:
    """Return the separator with which most lines have as many cells as the first, else the usual."""
    if named := re.match(r"sep=(.)\r?\n", text):
        return named[1]
    fits = {separator: _fit(text, separator) for separator in SEPARATORS}
    best = max(fits, key=fits.__getitem__)
    return usual if fits[usual][0] >= fits[best][0] else best


def _fit(text: str, separator: str) -> tuple[float, int]:
    """Return the share of lines with as many cells as the first, half at least, and that number."""
    sample = text[:SAMPLE]
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=separator, strict=True)
    counts: list[int] = []
    # A fault is reported where the file is read; the last line of a sample may be cut anywhere.
    with suppress(csv.Error):
        counts.extend(len(row) for row in reader if row)
    rest = counts[1:] if len(sample) == len(text) else counts[1:-1]
    if not rest or counts[0] < 2 or 2 * rest.count(counts[0]) < len(rest):
        return 0.0, 0
    return rest.count(counts[0]) / len(rest), counts[0]


def _separated(path: Path, text: str, separator: str) -> pl.DataFrame:
    """Return a table of texts, every cell as it stands in the file."""
    if len(separator) != 1 or separator in '"\r\n':
        raise BadParameter(
            f"The separator must be one character, or a name such as tab, got {separator!r}. Or omit it."
        )
    text = re.sub(r"\Asep=.\r?\n", "", text)
    _check_width(path, text.partition("\n")[0].count(separator) + 1)
    # Python's reader is strict about quotes, short lines and names, and keeps every cell as it is.
    csv.field_size_limit(LARGEST_CELL)
    # Not StringIO, which takes four bytes a character.
    lines = (line[0] for line in re.finditer(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", text))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    rows: list[list[str]] = []
    try:
        names = next(reader, [])
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise BadInput(f"{path.name} names a column twice ({twice!r}). Rename one.")
        parts = [_of_rows(names, [])]
        for row in filter(None, reader):
            if len(row) != len(names):
                raise BadInput(
                    f"Line {reader.line_num} of {path.name} must have {len(names)} cells, as the first, "
                    f"got {len(row)}. Put quotes around cells with {separator!r}, or name another one."
                )
            rows.append(row)
            if len(rows) == BLOCK:
                parts.append(_of_rows(names, rows))
                rows.clear()
    except csv.Error as error:
        raise BadInput(
            f"{path.name} could not be read at line {reader.line_num} ({error}). Check the quotes."
        ) from error
    return pl.concat([*parts, _of_rows(names, rows)], rechunk=True)


def _of_rows(names: list[str], rows: list[list[str]]) -> pl.DataFrame:
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    schema = dict.fromkeys(names, pl.String)
    return pl.DataFrame(dict(zip(names, columns, strict=True)), schema=schema)


def _parquet(path: Path, content: bytes) -> pl.DataFrame:
    try:
        schema = pl.read_parquet_schema(content)
        _check_width(path, len(schema))
        rows = int(pl.scan_parquet(content).select(pl.len()).collect().item())
        _check_size(path, rows * len(schema), len(content))
        return pl.read_parquet(content)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BadInput(
            f"{path.name} is not a Parquet file ({_first_line(error)}). Copy it again."
        ) from error


def _workbook(path: Path, content: bytes, sheet: str | None) -> tuple[pl.DataFrame, Format]:
    """Return the named sheet, else that with most cells; whole numbers, which Excel lacks, are made."""
    with needing("An Excel file"):
        import fastexcel
    _check_sheets(path, content)
    try:
        book = fastexcel.read_excel(content)
        names = book.sheet_names
        wanted = [name for name in names if name == (sheet or name)]
        sheets = (book.load_sheet(name, schema_sample_rows=None) for name in wanted)
        frames = {part.name: frame for part in sheets if (frame := part.to_polars()).height}
    except (fastexcel.FastExcelError, ValueError) as error:
        raise BadInput(
            f"{path.name} is not an Excel workbook with a line of names ({_first_line(error)}). Save it "
            "as .xlsx in a spreadsheet, or as CSV UTF-8."
        ) from error
    if not wanted:
        raise BadParameter(
            f"The sheet {sheet!r} is not in {path.name} (sheets: {', '.join(names)}). Name one of them."
        )
    cells = {name: frame.count().sum_horizontal().sum() for name, frame in frames.items()}
    name = max(cells, key=cells.__getitem__, default=None)
    table = pl.DataFrame() if name is None else frames[name]
    empty = [column.name for column in table if column.null_count() == table.height]
    table = table.drop(empty).filter(~pl.all_horizontal(pl.all().is_null()))
    whole = [c.name for c in table if c.dtype.is_float() and (c.drop_nulls() % 1 == 0).all()]
    table = table.with_columns(pl.col(whole).cast(pl.Int64, strict=False))
    return table, Format(sheet=name, sheets=tuple(names))


def _check_sheets(path: Path, content: bytes) -> None:
    """Raise if sheets are far larger than their content: two cells may be a million rows apart."""
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as archive:
        _check_size(path, sum(part.file_size for part in archive.infolist()), len(content))
        for name in archive.namelist():
            cells = CELL.findall(archive.read(name)) if name.endswith(".xml") else []
            if cells:
                rows = [int(row) for _, row in cells]
                last = max((column for column, _ in cells), key=lambda c: (len(c), c))
                columns = sum(26**i * (c - 64) for i, c in enumerate(reversed(last)))
                _check_size(path, (max(rows) - min(rows) + 1) * columns, len(cells))


def _records(path: Path, text: str, *, lines: bool) -> pl.DataFrame:
    """Return JSON as a table: lists and objects, and columns of several kinds, become JSON texts."""
    rows: list[dict[str, Any]] = []
    for place, row in _objects(path, text, lines):
        if not isinstance(row, dict):
            raise BadInput(
                f'{place} of {path.name} must be an object such as {{"text": "..."}}, got a '
                f"{type(row).__name__}. Repair it."
            )
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{place} of {path.name} is not text ({error}). Repair it.") from error
        for name, cell in row.items():
            if isinstance(cell, (dict, list)):
                row[name] = json.dumps(cell, ensure_ascii=False)
        rows.append(row)
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
            f"{path.name} needs one kind of value in each field ({_first_line(error)}). Use texts."
        ) from error


def _objects(path: Path, text: str, lines: bool) -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of every row: lines, a list, or an object with one list."""
    data: Any = None
    try:
        data = None if lines else json.loads(text)
    except (ValueError, RecursionError) as error:
        # One object a line, by another name.
        lines = "Extra data" in str(error)
        if not lines:
            raise BadInput(f"{path.name} is not JSON ({error}). Repair it there.") from error
    if not lines:
        lists = [v for v in data.values() if isinstance(v, list)] if type(data) is dict else []
        data = lists[0] if len(lists) == 1 else data
        if not isinstance(data, list):
            raise BadInput(
                f'{path.name} must hold a list of objects, [{{"text": "..."}}, ...], got a '
                f"{type(data).__name__}. In pandas: frame.to_json(path, orient='records')."
            )
        yield from ((f"Row {number}", row) for number, row in enumerate(data))
        return
    # Only \n ends a line: a text may hold other line separators.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield f"Line {number}", json.loads(line)
            except (ValueError, RecursionError) as error:
                place = f"Line {number} of {path.name}"
                raise BadInput(f"{place} is not JSON ({error}). Repair it.") from error


def _mixed(cells: list[Any]) -> bool:
    """Return whether one column would change values of several kinds: true to 1, say."""
    kinds = {type(cell) for cell in cells} - {type(None)}
    large = kinds == {int, float} and any(type(c) is int and abs(c) > 2**53 for c in cells)
    return large or (len(kinds) > 1 and not kinds.isdisjoint({bool, str}))


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]

"""How files give their rows: .npy by NumPy, Parquet and Arrow by polars."""

from __future__ import annotations

import os
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from goalward.core.arguments import needing
from goalward.core.files import NpyFile, RowsOnDisk, Stamp, stamp_of
from goalward.core.pool import Pool
from goalward.core.rows import read_sparse
from goalward.errors import DataMissing, DuplicateRows, NotFinite, ShapeMismatch, Unsupported


class NpyReader:
    """NumPy's own format, by plain reads; mapped for one pass over a pool.

    Plain reads of a pool in the page cache take up to 1.75 times as long as a map (K = 2, 1 GB),
    and the rows of a map that is shortened end the process by a signal. So what is handed out is
    read, and only a block that is scored at once, and whose file was looked at just before, is mapped.
    """

    ids = None

    def __init__(self, path: Path, columns: tuple[str, ...], ids: str | None) -> None:
        if columns:
            raise Unsupported(
                f"{path} is an array without named columns, and columns={columns} came. Leave it out."
            )
        if ids is not None:
            raise Unsupported(
                f"{path} is an array and has no column {ids!r}; a table was expected for ids. "
                "Leave ids out: rows are then known by their positions."
            )
        try:
            file = NpyFile(path)
            self._map = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, EOFError, ValueError) as error:
            raise DataMissing(
                f"{path} cannot be read as .npy ({error}); a whole file of plain numbers was "
                "expected. Write it again: it may have been cut off."
            ) from error
        if file.ndim != 2 or file.dtype.kind not in "fiu":
            raise ShapeMismatch(
                f"{path} holds {file.dtype} numbers of shape {file.shape}; a table of "
                "numbers, (rows, features), was expected. Save it with one line per row."
            )
        self.shape, self.dtype = (file.shape[0], file.shape[1]), file.dtype
        self.rows, self.take, self.fill = file.rows, file.take, file.fill

    def mapped(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows as a view of the file, for those who are done with it at once."""
        return np.asarray(self._map[start:stop])


class TableReader:
    """Numeric columns, or one column of vectors, of a file that polars scans."""

    def __init__(self, path: Path, columns: tuple[str, ...], ids: str | None) -> None:
        with needing(str(path)):
            import polars as pl
        scan = pl.scan_parquet if path.suffix in PARQUET else pl.scan_ipc
        try:
            self._frame = scan(path)
            schema = self._frame.collect_schema()
            n_rows = int(self._frame.select(pl.len()).collect().item())
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataMissing(
                f"{path} cannot be read ({error}); a whole table was expected. Write it again: it "
                "may have been cut off."
            ) from error
        missing = [name for name in (*columns, ids) if name not in schema and name is not None]
        if missing:
            raise DataMissing(
                f"{path} has no column {missing[0]!r}; one of {', '.join(list(schema)[:8])} was "
                "expected."
            )
        vectors = [n for n, kind in schema.items() if isinstance(kind, (pl.Array, pl.List))]
        numbers = [
            name
            for name, kind in schema.items()
            if name != ids and (kind.is_numeric() or kind == pl.Boolean)
        ]
        if len(vectors) > 1 and not columns:
            raise ShapeMismatch(
                f"{path} has {len(vectors)} columns of vectors, {', '.join(vectors[:4])}; one was "
                f"expected. Name it with columns={vectors[0]!r}."
            )
        self._columns = list(columns) or vectors or numbers
        self._vector = len(self._columns) == 1 and self._columns[0] in vectors
        strange = [n for n in self._columns if n not in numbers and not self._vector]
        if strange:
            raise ShapeMismatch(
                f"Column {strange[0]!r} of {path} holds {schema[strange[0]]}; numbers, or one "
                "column of vectors, were expected. Name the features with columns=."
            )
        single = all(schema[name] == pl.Float32 for name in self._columns)
        self.shape, self.dtype = (n_rows, len(self._columns)), np.dtype("f4" if single else "f8")
        if self._vector:
            first = self.rows(0, 1) if n_rows else np.empty((0, 0))
            self.shape, self.dtype = (n_rows, first.shape[1]), first.dtype
        self._id_column = ids

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows: only their row groups are read."""
        part = self._frame.select(self._columns).slice(start, stop - start).collect()
        return self._dense(part, start)

    mapped = rows

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return rows at positions, in the order they are given."""
        import polars as pl

        lazy = self._frame.select(self._columns).with_row_index("__row")
        distinct, back = np.unique(positions, return_inverse=True)
        rows = lazy.filter(pl.col("__row").is_in(distinct.tolist())).collect().sort("__row")
        return self._dense(rows.drop("__row"))[back]

    def fill(self, target: NDArray[Any], start: int) -> None:
        """Fill an array with consecutive rows."""
        np.copyto(target, self.rows(start, start + len(target)))

    @cached_property
    def ids(self) -> NDArray[Any] | None:
        """The ids of all rows; None where they are known by their positions."""
        if self._id_column is None:
            return None
        ids = self._frame.select(self._id_column).collect().to_series()
        twice = ids.filter(ids.is_duplicated() | ids.is_null())
        if len(twice):
            raise DuplicateRows(
                f"Column {self._id_column!r} holds the id {twice[0]!r} more than once, or an empty "
                "one; a distinct id for each row was expected."
            )
        return np.asarray(ids.to_numpy())

    def _dense(self, frame: Any, start: int = 0) -> NDArray[Any]:
        import polars as pl

        empty = [series.name for series in frame if series.null_count()]
        if empty:
            row = start + int(frame[empty[0]].is_null().arg_true()[0])
            raise NotFinite(
                f"X_pool has no number in row {row}, column {empty[0]!r}; one was expected. Fill "
                "empty cells or drop those rows."
            )
        if not self._vector:
            return np.ascontiguousarray(frame.to_numpy(), dtype=self.dtype)
        series = frame.to_series()
        if isinstance(series.dtype, pl.List):
            widths = series.list.len().unique().to_list()
            if len(widths) != 1:
                raise ShapeMismatch(
                    f"Vectors of {sorted(widths)[:3]} numbers came; all of one length were expected."
                )
            series = series.list.to_array(widths[0])
        return np.asarray(series.to_numpy())


PARQUET = (".parquet", ".pq")
READERS: dict[str, type[NpyReader | TableReader]] = {
    ".npy": NpyReader,
    **dict.fromkeys((*PARQUET, ".arrow", ".feather", ".ipc"), TableReader),
}
"""What reads a file, by how its name ends."""


# What was really read from a pool's files: so that two machines know that they read the same.
#
# Size and time of a file say nothing on another machine. Whoever reads for somebody else reads
# inside `witnessed()`, and sends back a checksum of every part; `differing` compares them with the
# file here. CRC-32 runs at 3.5 GB/s, twice as fast as SHA-256: this guards against stale copies
# and mixed-up folders, not against somebody who makes files to deceive.


class Read(NamedTuple):
    """A part of a pool file that was read: its rows, or their ids, and a checksum of them."""

    part: Any
    what: str
    checksum: int


_READS: ContextVar[list[Read] | None] = ContextVar("reads", default=None)
_KNOWN: OrderedDict[tuple[Any, ...], int] = OrderedDict()
KNOWN = 2**16
"""Checksums kept in a process: those of 256 GB of rows, in blocks of 4 MB."""


@contextmanager
def witnessed() -> Iterator[list[Read]]:
    """Collect what is read from pool files in this block, by this thread."""
    reads: list[Read] = []
    token = _READS.set(reads)
    try:
        yield reads
    finally:
        _READS.reset(token)


def witnessing() -> bool:
    """Return whether reads are collected, so that their content is checked and not their stamps."""
    return _READS.get() is not None


def note(part: Any, what: str, content: NDArray[Any]) -> None:
    """Write down what was read, if anybody collects it."""
    reads = _READS.get()
    if reads is not None:
        reads.append(Read(part, what, checksum(part, what, content)))


def differing(reads: Iterable[Read]) -> Read | None:
    """Return the first part that is another one in the file here; None if all are the same."""
    return next((r for r in reads if checksum(r.part, r.what) != r.checksum), None)


def checksum(part: Any, what: str, content: NDArray[Any] | None = None) -> int:
    """Return the checksum of a part of a file, read if `content` is not given.

    It is kept for as long as the file does not change: rounds over the same file cost nothing.
    """
    key = (part, what, _stamp(part.path))
    if key in _KNOWN:
        return _KNOWN[key]
    if content is None:
        content = part[:] if what == "rows" else part.ids()
    while len(_KNOWN) >= KNOWN:
        _KNOWN.popitem(last=False)
    total = _KNOWN[key] = zlib.crc32(_bytes(content))
    return total


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        now = os.stat(path)
    except OSError:
        return None
    # The time of the last change of any kind: nobody sets that back, as `touch` does the other.
    return now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_dev


def _bytes(content: NDArray[Any]) -> Any:
    if content.dtype.hasobject:
        return "\0".join(map(repr, content.tolist())).encode("utf-8", "surrogatepass")
    return np.ascontiguousarray(content).reshape(-1).view(np.uint8).data


# Pools that stay on disk: opened by path, read by rows, sent to workers as a path and a range.


@dataclass(frozen=True)
class PoolFile(Pool, RowsOnDisk):
    """Rows of a file, read when they are asked for.

    Its rows are taken like those of an array, and it goes wherever an array of rows goes: to
    `suggest`, to `goalward.scale.rank`, into a goal. It is a path and a range, so that it can be
    sent to another process. The file must not change meanwhile: its size, time and inode are
    checked at every read.

    Parameters
    ----------
    columns
        Feature columns of a table.
    start, stop
        The rows it stands for.
    stamp
        Size, time and inode of the file when it was opened.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/pool.npy"
    >>> np.save(path, np.zeros((1000, 3), dtype="float32"))
    >>> pool = open_pool(path)
    >>> pool.shape, pool[10:12].shape, pool.part(0, 100).shape
    ((1000, 3), (2, 3), (100, 3))
    """

    on_disk: ClassVar[bool] = True
    ndim: ClassVar[int] = 2

    path: str
    columns: tuple[str, ...] = ()
    start: int = 0
    stop: int = 0
    n_features: int = 0
    type: str = "float64"
    id_column: str | None = None
    stamp: Stamp | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self.stop - self.start, self.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.type)

    @property
    def source(self) -> PoolFile:
        return self

    def part(self, start: int, stop: int) -> PoolFile:
        start, stop, _ = slice(start, stop).indices(len(self))
        return replace(self, start=self.start + start, stop=self.start + stop)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        part = self.part(start, stop)
        rows = self._reader().rows(part.start, part.stop)
        note(part, "rows", rows)
        return rows

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        if witnessing():
            each = (self.rows(i, i + 1) for i in positions.tolist())
            return np.concatenate([self.rows(0, 0), *each])
        return self._reader().take(positions + self.start)

    def blocks(self, size: int) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Return blocks that are good until the next one is asked for: views of the file."""
        for where, part in super().blocks(size):
            rows = self._reader().mapped(part.start, part.stop)
            note(part, "rows", rows)
            yield where, rows
        # The last block was used as well, so the file must still be the one that was opened.
        self._reader()

    def read_into(self, target: NDArray[Any], start: int) -> None:
        self._reader().fill(target, self.start + start)

    def ids(self) -> NDArray[Any] | None:
        known = self._reader().ids
        if known is None:
            return None
        ids = known[self.start : self.stop]
        note(self, "ids", ids)
        return ids

    def _reader(self) -> NpyReader | TableReader:
        now = stamp_of(self.path)
        # On another machine stamps are others; there the content is looked at.
        if now is None or not (now == self.stamp or witnessing()):
            raise DataMissing(
                f"{self.path} has changed, or is gone, since it was opened; the same file was "
                "expected. Open the pool again."
            )
        return _opened(self.path, self.columns, self.id_column, now)


def open_pool(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | str | None = None,
    ids: str | None = None,
) -> Any:
    """Return the rows of a file, without reading them: a `PoolFile`, or a sparse matrix.

    Parameters
    ----------
    path
        .npy; .parquet, .arrow, .feather or .ipc; or the .npz of a SciPy sparse matrix, which is
        loaded.
    columns
        Features of a table: names of numeric columns, or of one column of vectors. By default all
        numeric columns, or the one column of vectors.
    ids
        A column of a table with the ids of the rows; positions by default.
    """
    where = Path(path).resolve()
    if not where.exists():
        raise DataMissing(f"{where} is not there; a pool file was expected. Check the path.")
    if where.suffix == ".npz":
        return read_sparse(where)
    if where.suffix not in READERS:
        raise DataMissing(
            f"{where} ends in {where.suffix or 'nothing'!r}; one of {', '.join(READERS)} or .npz was "
            "expected. Save the features with numpy.save, or as Parquet."
        )
    names = (columns,) if isinstance(columns, str) else tuple(columns or ())
    stamp = stamp_of(where)
    reader = _opened(str(where), names, ids, stamp)
    n_rows, n_features = reader.shape
    if n_rows == 0 or n_features == 0:
        raise ShapeMismatch(
            f"{where} has {n_rows} rows of {n_features} features; at least 1 of each was expected."
        )
    return PoolFile(str(where), names, 0, n_rows, n_features, str(reader.dtype), ids, stamp)


@lru_cache(maxsize=32)
def _opened(
    path: str, columns: tuple[str, ...], ids: str | None, stamp: Stamp | None
) -> NpyReader | TableReader:
    return READERS[Path(path).suffix](Path(path), columns, ids)

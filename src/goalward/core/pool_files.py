"""Readers of pool files: .npy by NumPy, Parquet and Arrow by polars."""

from __future__ import annotations

import os
import zlib
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


class NpyReader(NpyFile):
    """Rows of a .npy file; only blocks scored at once are mapped: a truncated map is fatal."""

    ids = None

    def __init__(self, path: Path, columns: tuple[str, ...], ids: str | None) -> None:
        if columns or ids is not None:
            raise Unsupported(
                f"{path} is an array without named columns, got columns={columns} and ids={ids!r}. Leave "
                "both out: rows are then known by their positions."
            )
        try:
            super().__init__(path)
            self._map = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, EOFError, ValueError) as error:
            raise DataMissing(
                f"{path} must be a whole .npy file of plain numbers ({error}). Write it again: it may "
                "have been cut off."
            ) from error
        if self.ndim != 2 or self.dtype.kind not in "fiu":
            raise ShapeMismatch(
                f"{path} must hold a table of numbers, (rows, features), got {self.dtype} of shape "
                f"{self.shape}. Save it with one line per row."
            )

    def mapped(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows as a view of the file, for immediate use."""
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
                f"{path} must be a whole table ({error}). Write it again: it may have been cut off."
            ) from error
        missing = [name for name in (*columns, ids) if name not in schema and name is not None]
        if missing:
            raise DataMissing(
                f"{path} has no column {missing[0]!r}. Name one of {', '.join(list(schema)[:8])}."
            )
        vectors = [n for n, kind in schema.items() if isinstance(kind, (pl.Array, pl.List))]
        numbers = [
            name
            for name, kind in schema.items()
            if name != ids and (kind.is_numeric() or kind == pl.Boolean)
        ]
        if len(vectors) > 1 and not columns:
            raise ShapeMismatch(
                f"{path} must have one column of vectors, got {', '.join(vectors[:4])}. Name one with "
                f"columns={vectors[0]!r}."
            )
        self._columns = list(columns) or vectors or numbers
        self._vector = len(self._columns) == 1 and self._columns[0] in vectors
        strange = [n for n in self._columns if n not in numbers and not self._vector]
        if strange:
            raise ShapeMismatch(
                f"Columns of {path} must be numbers, or one column of vectors, got {strange[0]!r} of "
                f"{schema[strange[0]]}. Name the features with columns=."
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
        import polars as pl

        lazy = self._frame.select(self._columns).with_row_index("__row")
        distinct, back = np.unique(positions, return_inverse=True)
        rows = lazy.filter(pl.col("__row").is_in(distinct.tolist())).collect().sort("__row")
        return self._dense(rows.drop("__row"))[back]

    def fill(self, target: NDArray[Any], start: int) -> None:
        np.copyto(target, self.rows(start, start + len(target)))

    @cached_property
    def ids(self) -> NDArray[Any] | None:
        if self._id_column is None:
            return None
        ids = self._frame.select(self._id_column).collect().to_series()
        twice = ids.filter(ids.is_duplicated() | ids.is_null())
        if len(twice):
            raise DuplicateRows(
                f"Column {self._id_column!r} must have a distinct id for each row, got {twice[0]!r} "
                "more than once, or empty."
            )
        return np.asarray(ids.to_numpy())

    def _dense(self, frame: Any, start: int = 0) -> NDArray[Any]:
        import polars as pl

        empty = [series.name for series in frame if series.null_count()]
        if empty:
            row = start + int(frame[empty[0]].is_null().arg_true()[0])
            raise NotFinite(
                f"X_pool has no number in row {row}, column {empty[0]!r}. Fill empty cells or drop "
                "those rows."
            )
        if not self._vector:
            return np.ascontiguousarray(frame.to_numpy(), dtype=self.dtype)
        series = frame.to_series()
        if isinstance(series.dtype, pl.List):
            widths = series.list.len().unique().to_list()
            if len(widths) != 1:
                raise ShapeMismatch(
                    f"Vectors must have one length, got lengths {sorted(widths)[:3]}."
                )
            series = series.list.to_array(widths[0])
        return np.asarray(series.to_numpy())


PARQUET = (".parquet", ".pq")
READERS: dict[str, type[NpyReader | TableReader]] = {
    ".npy": NpyReader,
    **dict.fromkeys((*PARQUET, ".arrow", ".feather", ".ipc"), TableReader),
}
"""Reader by file suffix."""


# Checksums of parts read, across machines: CRC-32 guards against stale copies, not forgery.


class Read(NamedTuple):
    """Part of a pool file that was read, rows or ids, with its checksum."""

    part: Any
    what: str
    checksum: int


_READS: ContextVar[list[Read] | None] = ContextVar("reads", default=None)


@contextmanager
def witnessed() -> Iterator[list[Read]]:
    """Collect the parts of pool files read in this block by this thread."""
    reads: list[Read] = []
    token = _READS.set(reads)
    try:
        yield reads
    finally:
        _READS.reset(token)


def differing(reads: Iterable[Read]) -> Read | None:
    """Return the first part that differs from the local file, or None."""
    for read in reads:
        try:
            now = os.stat(read.part.path)
        except OSError:
            return read
        # Unlike mtime, ctime cannot be set back by `touch`.
        stamp = now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_dev
        if _checksum_here(read.part, read.what, stamp) != read.checksum:
            return read
    return None


@lru_cache(maxsize=2**16)
def _checksum_here(part: Any, what: str, stamp: tuple[int, ...]) -> int:
    return _checksum(part[:] if what == "rows" else part.ids())


def _checksum(content: NDArray[Any]) -> int:
    if content.dtype.hasobject:
        return zlib.crc32("\0".join(map(repr, content.tolist())).encode("utf-8", "surrogatepass"))
    return zlib.crc32(np.ascontiguousarray(content).reshape(-1).view(np.uint8).data)


@dataclass(frozen=True)
class PoolFile(Pool, RowsOnDisk):
    """Rows of a file, read on demand and accepted wherever an array of rows is.

    It can be pickled. The file must not change: its size, time and inode are checked at every read.

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
        self._note(part, "rows", rows)
        return rows

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        if _READS.get() is not None:
            each = (self.rows(i, i + 1) for i in positions.tolist())
            return np.concatenate([self.rows(0, 0), *each])
        return self._reader().take(positions + self.start)

    def blocks(self, size: int) -> Iterator[tuple[slice, NDArray[Any]]]:
        for where, part in super().blocks(size):
            rows = self._reader().mapped(part.start, part.stop)
            self._note(part, "rows", rows)
            yield where, rows
        # Check the file after its last block, too.
        self._reader()

    def read_into(self, target: NDArray[Any], start: int) -> None:
        self._reader().fill(target, self.start + start)

    def ids(self) -> NDArray[Any] | None:
        known = self._reader().ids
        if known is None:
            return None
        ids = known[self.start : self.stop]
        self._note(self, "ids", ids)
        return ids

    @staticmethod
    def _note(part: PoolFile, what: str, content: NDArray[Any]) -> None:
        reads = _READS.get()
        if reads is not None:
            reads.append(Read(part, what, _checksum(content)))

    def _reader(self) -> NpyReader | TableReader:
        now = stamp_of(self.path)
        # Stamps differ between machines; there checksums are compared instead.
        if now is None or (now != self.stamp and _READS.get() is None):
            raise DataMissing(
                f"{self.path} has changed, or is gone, since it was opened. Open the pool again."
            )
        return _opened(self.path, self.columns, self.id_column, now)


def open_pool(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | str | None = None,
    ids: str | None = None,
) -> Any:
    """Return the rows of a file as a `PoolFile`, without reading them, or as a sparse matrix.

    Parameters
    ----------
    path
        .npy, .parquet, .arrow, .feather, .ipc, or the .npz of a SciPy sparse matrix (loaded).
    columns
        Numeric columns of a table, or one column of vectors; all numeric columns by default.
    ids
        Column of a table with row ids; positions by default.
    """
    where = Path(path).resolve()
    if not where.exists():
        raise DataMissing(f"There is no pool file {where}. Check the path.")
    if where.suffix == ".npz":
        return read_sparse(where)
    if where.suffix not in READERS:
        raise DataMissing(
            f"A pool file must end in {', '.join(READERS)} or .npz, got {where}. Save the features with "
            "numpy.save, or as Parquet."
        )
    names = (columns,) if isinstance(columns, str) else tuple(columns or ())
    stamp = stamp_of(where)
    reader = _opened(str(where), names, ids, stamp)
    n_rows, n_features = reader.shape
    if n_rows == 0 or n_features == 0:
        raise ShapeMismatch(
            f"{where} must have at least 1 row and 1 feature, got {n_rows} of {n_features}."
        )
    return PoolFile(str(where), names, 0, n_rows, n_features, str(reader.dtype), ids, stamp)


@lru_cache(maxsize=32)
def _opened(
    path: str, columns: tuple[str, ...], ids: str | None, stamp: Stamp | None
) -> NpyReader | TableReader:
    return READERS[Path(path).suffix](Path(path), columns, ids)

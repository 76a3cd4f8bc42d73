"""Pools that stay on disk: opened by path, read by rows, sent to workers as a path and a range."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from goalward.core.npy import RowsOnDisk, Stamp, stamp_of
from goalward.core.sparse import read_sparse
from goalward.errors import DataMissing, ShapeMismatch
from goalward.pool.formats import READERS, NpyReader, TableReader
from goalward.pool.pool import Pool
from goalward.pool.witness import note, witnessing

__all__ = ["PoolFile", "open_pool"]


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

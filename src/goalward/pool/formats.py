"""How files give their rows: .npy by NumPy, Parquet and Arrow by polars."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.extras import needing
from goalward.core.npy import NpyFile
from goalward.errors import DataMissing, DuplicateRows, NotFinite, ShapeMismatch, Unsupported

__all__ = ["READERS", "NpyReader", "TableReader"]


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

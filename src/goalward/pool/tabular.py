"""Tables on disk: numeric columns, or one column of vectors, by way of polars."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from goalward.core.extras import needing
from goalward.errors import DataMissing, DuplicateRows, NotFinite, ShapeMismatch
from goalward.pool.formats import FileReader

__all__ = ["Ipc", "Parquet"]


class _Table(FileReader):
    """Numeric columns, or one column of vectors, of a file that polars scans."""

    scan: ClassVar[str]
    """The function of polars that opens it."""

    def __init__(self, path: Path, columns: tuple[str, ...], ids: str | None) -> None:
        with needing(str(path)):
            import polars as pl
        self._ids: Any = None
        try:
            self._frame = getattr(pl, self.scan)(path)
            schema = self._frame.collect_schema()
            n_rows = int(self._frame.select(pl.len()).collect().item())
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataMissing(
                f"{path} cannot be read ({error}); a whole table was expected. Write it again: it "
                "may have been cut off."
            ) from error
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
        missing = [name for name in (*columns, ids) if name not in schema and name is not None]
        if missing:
            raise DataMissing(
                f"{path} has no column {missing[0]!r}; one of {', '.join(list(schema)[:8])} was "
                "expected."
            )
        self._columns = list(columns) or (vectors if len(vectors) == 1 else numbers)
        self._vector = len(self._columns) == 1 and self._columns[0] in vectors
        strange = [n for n in self._columns if n not in numbers and not self._vector]
        if strange:
            raise ShapeMismatch(
                f"Column {strange[0]!r} of {path} holds {schema[strange[0]]}; numbers, or one "
                "column of vectors, were expected. Name the features with columns=."
            )
        width = len(self._columns)
        if self._vector:
            first = self.rows(0, 1) if n_rows else np.empty((0, 0))
            width = int(first.shape[1])
            self.dtype = first.dtype
        else:
            single = all(schema[name] == pl.Float32 for name in self._columns)
            self.dtype = np.dtype(np.float32 if single else np.float64)
        self.shape = (n_rows, width)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows: only their row groups are read."""
        part = self._frame.select(self._columns).slice(start, stop - start).collect()
        return self._dense(part, start)

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return rows at positions."""
        import polars as pl

        lazy = self._frame.select(self._columns).with_row_index("__row")
        distinct, back = np.unique(positions, return_inverse=True)
        rows = lazy.filter(pl.col("__row").is_in(distinct.tolist())).collect().sort("__row")
        return self._dense(rows.drop("__row"))[back]

    def ids(self, column: str) -> NDArray[Any]:
        """Return the ids of all rows."""
        if self._ids is None:
            self._ids = self._frame.select(column).collect()[column]
            if self._ids.null_count() or self._ids.is_duplicated().any():
                twice = self._ids.filter(self._ids.is_duplicated())
                raise DuplicateRows(
                    f"Column {column!r} holds the id {twice[0] if len(twice) else None!r} more than "
                    "once, or an empty one; a distinct id for each row was expected."
                )
        ids: NDArray[Any] = self._ids.to_numpy()
        return ids

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


class Parquet(_Table):
    """Parquet, by row groups."""

    suffixes = (".parquet", ".pq")
    scan = "scan_parquet"


class Ipc(_Table):
    """Arrow's IPC format, mapped into memory."""

    suffixes = (".arrow", ".feather", ".ipc")
    scan = "scan_ipc"

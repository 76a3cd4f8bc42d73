"""A common interface to pools in memory, memory maps, frames and files."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, rows_at
from goalward.core.rows import check_finite, check_sparse, clean_rows, held
from goalward.errors import BadInput, BadParameter, Empty, ShapeMismatch, Unsupported


class Pool(ABC):
    """Unlabelled rows, read in parts; see `as_pool`."""

    on_disk: ClassVar[bool] = False
    """Whether another process can open it by its path."""

    @property
    @abstractmethod
    def source(self) -> Any:
        """The rows as given, except lists as arrays and sparse rows as CSR."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """(rows, features), or (rows,) for texts and the like."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """The dtype, or None if columns differ."""

    @abstractmethod
    def part(self, start: int, stop: int) -> Any:
        """Return consecutive rows, as a view or an unread file where possible."""

    @abstractmethod
    def take(self, positions: NDArray[Any]) -> Any:
        """Return the rows at positions."""

    def read_into(self, target: NDArray[Any], start: int) -> None:
        np.copyto(target, self.part(start, start + len(target)))

    def ids(self) -> NDArray[Any] | None:
        """Return the ids of the rows, or None if they are positions."""
        return None

    def blocks(self, size: int) -> Iterator[tuple[slice, Any]]:
        """Return (slice, rows) pairs that cover the pool in order."""
        n = len(self)
        if n == 0:
            raise Empty("The pool has no rows; it needs at least 1. Add unlabelled rows.")
        # No `yield`: an empty pool is refused at the call, not at the first block.
        return ((slice(i, min(i + size, n)), self.part(i, i + size)) for i in range(0, n, size))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def width(self) -> int | None:
        """Number of features, or None if rows are not numeric."""
        return self.shape[1] if len(self.shape) == 2 else None

    @property
    def n_bytes(self) -> int | None:
        itemsize = getattr(self.dtype, "itemsize", None)
        return None if itemsize is None else math.prod(self.shape) * int(itemsize)


class _HeldRows(Pool):
    """Rows in memory: an array of any library, a memory map, sparse rows or a frame."""

    source: Any = None
    shape: tuple[int, ...] = ()
    dtype: Any = None

    def __init__(self, rows: Any) -> None:
        self.source, self.dtype = rows, getattr(rows, "dtype", None)
        self.shape = tuple(map(int, getattr(rows, "shape", None) or [n_rows(rows)]))

    @property
    def n_bytes(self) -> int | None:
        rows = self.source
        if is_sparse(rows):
            return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)
        return super().n_bytes

    def take(self, positions: slice | NDArray[Any]) -> Any:
        # pandas takes positions by `iloc`.
        if hasattr(self.source, "iloc"):
            return self.source.iloc[positions]
        plain = hasattr(self.source, "columns")
        return self.source[positions] if plain else rows_at(self.source, positions)

    def part(self, start: int, stop: int) -> Any:
        return self.take(slice(start, stop))


def as_pool(X: Any, name: str = "X_pool") -> Pool:
    """Return rows of any kind as a pool; values are not checked."""
    if isinstance(X, Pool):
        return X
    X = held(X)
    if isinstance(X, (str, os.PathLike)):
        raise BadParameter(
            f"{name} must be rows, got the text {os.fspath(X)!r}. Of a file it is "
            "gw.scale.open_pool(path), or read it into a frame."
        )
    if isinstance(X, np.ma.MaskedArray):
        raise Unsupported(
            f"{name} must be an array of numbers, got a masked array. Fill masked cells, or drop those "
            "rows."
        )
    if not (hasattr(X, "shape") or hasattr(X, "__len__")):
        raise Unsupported(
            f"{name} must be an array, a frame or a file, got a {type(X).__name__}, whose rows are gone "
            "once they are read. Collect its rows, or save them and pass open_pool(path)."
        )
    if is_sparse(X):
        check_sparse(X, name)
        X = X if X.format == "csr" else scipy.sparse.csr_array(X)
    return _HeldRows(np.asarray(X) if isinstance(X, (list, tuple)) else X)


def check_pool(X: Any, name: str = "X_pool") -> None:
    """Raise if a number of a pool is not finite, with its row; rows that are no numbers pass."""
    for at, block in as_pool(X, name).blocks(2**14):
        try:
            rows = clean_rows(block, name, finite=False)
        except BadInput:
            return
        check_finite(rows, name, start=at.start)


def n_rows(X: Any) -> int:
    """Return the number of rows of an array, sparse matrix, frame, file or list."""
    shape = getattr(X, "shape", None)
    if shape is None:
        return len(X)
    if len(shape) == 0:
        raise ShapeMismatch("The pool must have rows, got a single number. Pass (n, d).")
    return int(shape[0])


def take_rows(X: Any, positions: NDArray[Any]) -> Any:
    """Return the rows of any kind of pool at positions."""
    return as_pool(X).take(positions)

"""A pool under one face, whatever holds its rows: memory, a memory map, a frame or a file."""

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
from goalward.core.rows import check_sparse, held
from goalward.errors import BadParameter, Empty, ShapeMismatch, Unsupported


class Pool(ABC):
    """Rows without a label, read in parts; `as_pool` makes one of whatever a user holds."""

    on_disk: ClassVar[bool] = False
    """Whether it is a file that another process can open by its path."""

    @property
    @abstractmethod
    def source(self) -> Any:
        """The rows as they were given: lists as arrays, sparse ones by rows, a file as itself."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """(rows, features), or (rows,) of texts, say."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """The type of its numbers; None where columns have types of their own."""

    @abstractmethod
    def part(self, start: int, stop: int) -> Any:
        """Return consecutive rows: a view where that is possible, of a file not read yet."""

    @abstractmethod
    def take(self, positions: NDArray[Any]) -> Any:
        """Return the rows at some positions."""

    def read_into(self, target: NDArray[Any], start: int) -> None:
        """Fill an array with the rows from `start` on."""
        np.copyto(target, self.part(start, start + len(target)))

    def ids(self) -> NDArray[Any] | None:
        """Return the ids of the rows; None where they are known by their positions."""
        return None

    def blocks(self, size: int) -> Iterator[tuple[slice, Any]]:
        """Return (slice, rows) pairs that cover the pool in order."""
        n = len(self)
        if n == 0:
            raise Empty("The pool has no rows; at least 1 was expected. Add unlabelled rows.")
        # No `yield` here: an empty pool is refused at the call, not when it is read.
        return ((slice(i, min(i + size, n)), self.part(i, i + size)) for i in range(0, n, size))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def width(self) -> int | None:
        """Features of a row; None where rows are not numbers in columns."""
        return self.shape[1] if len(self.shape) == 2 else None

    @property
    def n_bytes(self) -> int | None:
        """Bytes of its numbers, where they can be known."""
        itemsize = getattr(self.dtype, "itemsize", None)
        return None if itemsize is None else math.prod(self.shape) * int(itemsize)


class _HeldRows(Pool):
    """An array of any library, a memory map, sparse rows or a frame, held by this process."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    @property
    def source(self) -> Any:
        return self._rows

    @property
    def shape(self) -> tuple[int, ...]:
        return n_rows(self._rows), *map(int, getattr(self._rows, "shape", ())[1:])

    @property
    def dtype(self) -> Any:
        return getattr(self._rows, "dtype", None)

    @property
    def n_bytes(self) -> int | None:
        rows = self._rows
        if is_sparse(rows):
            return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)
        return super().n_bytes

    def part(self, start: int, stop: int) -> Any:
        return self.take(slice(start, stop))

    def take(self, positions: slice | NDArray[Any]) -> Any:
        # Frames of pandas take positions by `iloc`; those of polars as they are.
        if hasattr(self._rows, "iloc"):
            return self._rows.iloc[positions]
        plain = hasattr(self._rows, "columns")
        return self._rows[positions] if plain else rows_at(self._rows, positions)


def as_pool(X: Any, name: str = "X_pool") -> Pool:
    """Return rows of any kind as a pool, checked as far as that takes no pass over numbers.

    Examples
    --------
    >>> import numpy as np
    >>> pool = as_pool(np.zeros((1000, 3)))
    >>> len(pool), pool.width, pool.n_bytes, pool.on_disk
    (1000, 3, 24000, False)
    >>> [rows.shape for _, rows in pool.blocks(600)]
    [(600, 3), (400, 3)]
    """
    if isinstance(X, Pool):
        return X
    X = held(X)
    if isinstance(X, (str, os.PathLike)):
        raise BadParameter(
            f"{name} is the text {os.fspath(X)!r}; rows were expected. Of a file it is "
            "gw.scale.open_pool(path), or read it into a frame."
        )
    if isinstance(X, np.ma.MaskedArray):
        raise Unsupported(
            f"{name} is a masked array, whose masked cells hold no numbers; an array was expected. "
            "Fill them, or drop those rows."
        )
    if not (hasattr(X, "shape") or hasattr(X, "__len__")):
        raise Unsupported(
            f"{name} is a {type(X).__name__}, whose rows are gone once they are read; an array, a frame "
            "or a file was expected. Collect its rows, or save them and pass open_pool(path)."
        )
    check_sparse(X, name)
    if is_sparse(X) and X.format != "csr":
        X = scipy.sparse.csr_array(X)
    return _HeldRows(np.asarray(X) if isinstance(X, (list, tuple)) else X)


def n_rows(X: Any) -> int:
    """Return the number of rows of an array, sparse matrix, frame, file or list."""
    shape = getattr(X, "shape", None)
    if shape is None:
        return len(X)
    if len(shape) == 0:
        raise ShapeMismatch("The pool is a single number; rows were expected. Pass (n, d).")
    return int(shape[0])


def blocks(X: Any, size: int) -> Iterator[tuple[slice, Any]]:
    """Return (slice, rows) pairs that cover the pool in order; a view where that is possible."""
    return as_pool(X).blocks(size)


def take_rows(X: Any, positions: NDArray[Any]) -> Any:
    """Return the rows of a pool of any kind at some positions."""
    return as_pool(X).take(positions)

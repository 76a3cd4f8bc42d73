"""A pool of any kind, cut into row blocks that fit the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from goalward.core.arrays import rows_at
from goalward.core.sparse import check_sparse
from goalward.errors import Empty, ShapeMismatch

__all__ = ["blocks", "n_rows", "take_rows"]


def n_rows(X: Any) -> int:
    """Return the number of rows of an array, sparse matrix, frame or list."""
    shape = getattr(X, "shape", None)
    if shape is None:
        return len(X)
    if len(shape) == 0:
        raise ShapeMismatch("The pool is a single number; rows were expected. Pass (n, d).")
    return int(shape[0])


def blocks(X: Any, size: int) -> Iterator[tuple[slice, Any]]:
    """Return (slice, rows) pairs that cover the pool in order; a view where that is possible."""
    total = n_rows(X)
    if total == 0:
        raise Empty("The pool has no rows; at least 1 was expected. Add unlabelled rows.")
    check_sparse(X, "X_pool")
    if scipy.sparse.issparse(X) and X.format not in ("csr", "csc"):
        X = X.tocsr()
    if isinstance(X, (list, tuple)):
        X = np.asarray(X)
    mapped = getattr(X, "mapped", None)
    for start in range(0, total, size):
        part = slice(start, min(start + size, total))
        yield part, _rows(X, part) if mapped is None else mapped(part)
    if mapped is not None:
        X.check()


def take_rows(X: Any, positions: NDArray[Any]) -> Any:
    """Return the rows of a pool of any kind at some positions."""
    check_sparse(X, "X_pool")
    if scipy.sparse.issparse(X) and X.format != "csr":
        X = X.tocsr()
    return _rows(np.asarray(X) if isinstance(X, (list, tuple)) else X, positions)


def _rows(X: Any, index: slice | NDArray[Any]) -> Any:
    """Return rows of a frame of pandas (by `iloc`) or polars, or of an array."""
    if hasattr(X, "iloc"):
        return X.iloc[index]
    return X[index] if hasattr(X, "columns") else rows_at(X, index)

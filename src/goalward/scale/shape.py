"""What must be known of a pool before it is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse
from goalward.core.sparse import check_sparse
from goalward.errors import BadParameter, ShapeMismatch, Unsupported
from goalward.models import Fitted
from goalward.scale.scan import Scan
from goalward.strategies.strategy import free_rows

__all__ = ["as_pool", "block_rows", "check_width", "excluded_positions", "size_of"]


def as_pool(pool: Any) -> Any:
    """Return a pool that can be cut into rows; None for an iterable of blocks."""
    if is_sparse(pool):
        check_sparse(pool, "The pool")
        return scipy.sparse.csr_array(pool)
    if isinstance(pool, np.ma.MaskedArray):
        raise Unsupported(
            "The pool is a masked array, whose masked cells hold no numbers; an array was expected. "
            "Fill them, or drop those rows."
        )
    if isinstance(pool, (list, tuple)):
        return np.asarray(pool)
    return pool if hasattr(pool, "shape") else None


def check_width(pool: Any, fitted: Fitted) -> None:
    """Raise if rows have other features than the model, before any is read."""
    shape = pool.shape
    if fitted.transform is not None or len(shape) != 2:
        return
    if shape[1] != fitted.n_features:
        raise ShapeMismatch(
            f"The pool has {shape[1]} features; {fitted.n_features} were expected, as in the "
            "labelled rows. Build all of them with the same features, in order."
        )


def size_of(pool: Any) -> int | None:
    """Return the bytes of a pool, where they can be known."""
    if is_sparse(pool):
        return int(pool.data.nbytes + pool.indices.nbytes + pool.indptr.nbytes)
    if hasattr(pool, "nbytes"):
        return int(pool.nbytes)
    itemsize = getattr(getattr(pool, "dtype", None), "itemsize", None)
    return None if itemsize is None else int(np.prod(pool.shape)) * int(itemsize)


def block_rows(pool: Any, scan: Scan, block: int | None) -> int:
    """Return rows per block: on the grid that scores do not depend on, about 64 MB of numbers.

    Counted as they are worked on: whole numbers become double precision, halves single.
    """
    kind = getattr(pool, "dtype", np.dtype(np.float64))
    itemsize = 4 if str(kind).endswith(("float32", "float16", "bfloat16")) else 8
    width = int(pool.shape[1]) if len(pool.shape) == 2 else 1000
    wanted = block if block is not None else 2**26 // (itemsize * width)
    return max(1, -(-wanted // scan.grid)) * scan.grid


def excluded_positions(
    exclude: Iterable[Any], ids: NDArray[Any] | None, total: int
) -> NDArray[Any]:
    """Return the sorted positions of rows that must not be suggested."""
    if ids is not None:
        return np.flatnonzero(~free_rows(ids, exclude))
    given = exclude if isinstance(exclude, np.ndarray) else list(exclude)
    listed = np.asarray(given)
    if listed.size == 0:
        return np.empty(0, dtype=np.int64)
    # In a list with numbers, NumPy takes True for 1.
    flags = given is not listed and any(isinstance(row, (bool, np.bool_)) for row in given)
    if flags or listed.dtype.kind not in "iu" or listed.min() < 0 or listed.max() >= total:
        raise BadParameter(
            f"exclude holds {listed.ravel()[0]!r}; positions from 0 to {total - 1} were expected."
        )
    return np.unique(listed)

"""The door for features: lists, frames, arrays and sparse matrices become clean rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse

from goalward.core.arrays import Rows, is_sparse, namespace, to_numpy
from goalward.core.place import described, room_of
from goalward.core.sparse import check_sparse
from goalward.errors import BadInput, Empty, NotFinite, ShapeMismatch, TooLarge

__all__ = ["check_columns", "check_finite", "clean_rows", "column_names", "held"]


def held(X: Any) -> Any:
    """Return rows that can be counted and indexed: a lazy frame collected, a dataset as a frame.

    A `LazyFrame` of polars and a `Dataset` of Hugging Face are read whole; one of its columns is a list.
    """
    kind = f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"
    if kind == "polars.LazyFrame":
        return X.collect()
    if kind == "datasets.Dataset":
        return X.to_pandas()
    if kind == "datasets.Column":
        return list(X)
    if isinstance(X, Mapping) and not is_sparse(X):
        names = ", ".join(map(repr, list(X)[:5]))
        raise BadInput(
            f"A {type(X).__name__} with the keys {names} came; rows were expected. Pass the part that "
            f"holds them, x[{next(iter(X), 'train')!r}], or make a frame of it."
        )
    return X


def clean_rows(
    X: object,
    name: str = "X",
    *,
    n_features: int | None = None,
    finite: bool = True,
    least: int = 1,
) -> Rows:
    """Return `X` as finite rows of floating numbers, without changing the caller's.

    Raises `BadInput` with what came, what was expected and what to do. With finite=False, for
    blocks of a pool, the numbers are not looked at: a caller who multiplies them sees NaN and
    infinity come out, and calls `check_finite` then, which saves a pass over a large pool. Nor are
    the indices of sparse rows, which `goalward.core.pool.blocks` has looked at.
    """
    X = held(X)
    if finite:
        check_sparse(X, name)
    rows = _floating(X, name)
    if rows.ndim != 2:
        hint = " For one feature use X.reshape(-1, 1)." if rows.ndim == 1 else ""
        raise ShapeMismatch(
            f"{name} has shape {tuple(rows.shape)}; rows by features, (n, d), was "
            f"expected. Pass a table with one line per row.{hint}"
        )
    if rows.shape[0] < least:
        raise Empty(f"{name} has no rows; at least 1 was expected. Pass some rows.")
    if n_features is not None and rows.shape[1] != n_features:
        raise ShapeMismatch(
            f"{name} has {rows.shape[1]} features; {n_features} were expected, as in "
            "the labelled rows. Build all of them with the same features, in order."
        )
    if rows.shape[1] == 0:
        raise ShapeMismatch(f"{name} has no features; at least 1 was expected. Add a column.")
    if finite:
        check_finite(rows, name)
    return rows


def column_names(X: object) -> tuple[str, ...] | None:
    """Return the names of a frame's columns; None for what has none, or has only numbers."""
    columns = getattr(X, "columns", None)
    if columns is None or getattr(X, "shape", None) is None:
        return None
    names = tuple(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def check_columns(X: object, expected: tuple[str, ...], name: str) -> None:
    """Raise if `X` is a frame whose columns are others, or in another order."""
    names = column_names(X)
    if names is not None and names != expected:
        raise ShapeMismatch(
            f"{name} has the columns {', '.join(names[:8])}; {', '.join(expected[:8])} were "
            "expected, in that order, as in the labelled rows. Reorder them."
        )


def _floating(X: object, name: str) -> Rows:
    if is_sparse(X):
        csr = scipy.sparse.csr_array(X)
        return csr if csr.dtype in (np.float32, np.float64) else csr.astype(np.float64)
    if array_api_compat.is_array_api_obj(X) and not isinstance(X, np.ndarray):
        xp = namespace(X)
        array: Any = X
        if array_api_compat.is_torch_array(array):
            array = array.detach()
        if array.dtype in (xp.float32, xp.float64):
            return array
        half = str(array.dtype).endswith("float16")  # bfloat16 too
        return xp.astype(array, xp.float32 if half else xp.float64)
    if X is None or room_of(X):
        raise BadInput(f"{name} is {described(X)}; rows by features, (n, d), were expected.")
    try:
        plain = to_numpy(X)
    except BadInput:
        raise  # rows on disk that have changed
    except ValueError as error:
        raise ShapeMismatch(
            f"{name} has rows of different lengths ({error}); a table was expected. Give every row "
            "the same features."
        ) from error
    if plain.dtype in (np.float32, np.float64):
        return plain
    if plain.dtype == np.float16:
        return plain.astype(np.float32)
    if np.iscomplexobj(plain):
        raise BadInput(
            f"{name} holds complex numbers; real ones were expected. Complex data not "
            "supported: pass real and imaginary parts as columns."
        )
    try:
        return plain.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"{name} holds values that are not numbers ({error}); numbers were expected. "
            "Encode text and categories as numbers first, in a scikit-learn Pipeline say."
        ) from error


def check_finite(rows: Rows, name: str, *, start: int = 0) -> None:
    """Raise if any number is NaN, infinite, or too large to be squared; rows count from `start`."""
    values = rows.data[: rows.indptr[-1]] if is_sparse(rows) else rows
    xp = namespace(values)
    if 0 in values.shape:
        return
    # NaN and infinity survive a maximum and a minimum; no array of absolute values is made.
    high, low = float(xp.max(values)), float(xp.min(values))
    limit = float(xp.finfo(values.dtype).max) ** 0.5 * 1e-3
    if high <= limit and -low <= limit:
        return
    largest = max(high, -low)
    if np.isfinite(high) and np.isfinite(low):
        raise TooLarge(
            f"{name} holds the number {largest:.3g}, whose square overflows; at most "
            f"{limit:.0e} was expected. Rescale the features, with StandardScaler say."
        )
    bad = ~np.isfinite(to_numpy(values))
    if is_sparse(rows):
        at = int(bad.argmax())
        row, column = np.searchsorted(rows.indptr, at, side="right") - 1, rows.indices[at]
    else:
        row, column = np.argwhere(bad)[0]
    raise NotFinite(
        f"{name} has {bad.sum()} NaN or infinite numbers, the first in row {start + row}, column "
        f"{column}; finite numbers were expected. Drop those rows or impute them."
    )

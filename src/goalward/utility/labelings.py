"""Batches of rows and the labelings they are tried with."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.arrays import Rows, namespace, stack_rows, to_numpy
from goalward.errors import BadParameter, Empty, ShapeMismatch
from goalward.learners import Fitted

__all__ = ["batch_codes", "batch_rows"]

MOST_LABELINGS = 2**20


def batch_rows(fitted: Fitted, X_batches: Any) -> tuple[Rows, int, int]:
    """Return all rows of all batches in one table, the number of batches, and their size."""
    if len(X_batches) == 0:
        raise Empty("X_batches is empty; at least 1 batch was expected. Pass (B, b, d) rows.")
    if getattr(X_batches, "ndim", 0) == 3:
        n_batches, size, n_features = X_batches.shape
        flat = namespace(X_batches).reshape(X_batches, (n_batches * size, n_features))
        return fitted.features(flat, "X_batches"), int(n_batches), int(size)
    parts = [fitted.features(part, "X_batches") for part in X_batches]
    sizes = {int(part.shape[0]) for part in parts}
    if len(sizes) > 1:
        raise ShapeMismatch(
            f"X_batches has batches of {min(sizes)} to {max(sizes)} rows; batches of one size "
            "were expected. Score batches of different sizes in separate calls."
        )
    return reduce(stack_rows, parts), len(parts), sizes.pop()


def batch_codes(fitted: Fitted, labels: Any, n_batches: int, size: int) -> NDArray[Any]:
    """Return class indices, (1, L, b) where all batches share them, else (B, L, b)."""
    n_classes = fitted.n_classes
    if labels is None:
        if n_classes**size > MOST_LABELINGS:
            raise BadParameter(
                f"labels=None means all {n_classes}**{size} labelings of a batch; at most "
                f"{MOST_LABELINGS} were expected. Pass the labelings to try as labels=(L, b)."
            )
        grid = np.indices((n_classes,) * size).reshape(size, -1).T
        return np.ascontiguousarray(grid)[None]
    table = labels if isinstance(labels, np.ndarray) else _table(labels)
    if table.ndim not in (2, 3) or table.shape[-1] != size:
        raise ShapeMismatch(
            f"labels has shape {table.shape}; (L, {size}) or (B, L, {size}) was expected. Give "
            "one label for each of the rows of a batch."
        )
    if table.ndim == 3 and table.shape[0] != n_batches:
        raise ShapeMismatch(
            f"labels is for {table.shape[0]} batches; {n_batches} came. Give labelings for each "
            "batch, or (L, b) for all of them."
        )
    flat = list(table.reshape(-1))
    codes = to_numpy(fitted.targets(flat, len(flat), "labels")).argmax(axis=1)
    shape = table.shape if table.ndim == 3 else (1, *table.shape)
    shaped: NDArray[Any] = codes.reshape(shape)
    return shaped


def _table(labels: Any) -> NDArray[Any]:
    plain = to_numpy(labels)
    if plain.dtype == object or plain.ndim in (2, 3):
        return plain
    raise ShapeMismatch(
        f"labels has shape {plain.shape}; labelings of whole batches, (L, b), were expected. "
        "Pass a list of lists."
    )

"""Batches of rows and the labelings they are tried with."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import Rows, namespace, rows_at, stack_rows, to_numpy
from goalward.errors import BadParameter, Empty, ShapeMismatch
from goalward.models import Fitted

__all__ = ["batch_codes", "batch_rows", "batches"]

MOST_LABELINGS = 2**20


def batches(fitted: Fitted, X_batches: Any, labels: Any) -> list[tuple[Rows, NDArray[Any]]]:
    """Return each batch's rows with the labelings (L, b) it is tried with."""
    rows, n_batches, size = batch_rows(fitted, X_batches)
    codes = batch_codes(fitted, labels, n_batches, size)
    return [
        (rows_at(rows, slice(i * size, (i + 1) * size)), codes[i if codes.shape[0] > 1 else 0])
        for i in range(n_batches)
    ]


def batch_rows(fitted: Fitted, X_batches: Any) -> tuple[Rows, int, int]:
    """Return all rows of all batches in one table, the number of batches, and their size."""
    shape = getattr(X_batches, "shape", None)
    if shape is not None and len(shape) != 3:
        raise ShapeMismatch(
            f"X_batches has shape {tuple(shape)}; (B, b, d), or a list of B sets of b rows, was "
            "expected. Use X[None] for a single batch."
        )
    count = len(X_batches) if shape is None else shape[0]
    if count == 0:
        raise Empty("X_batches is empty; at least 1 batch was expected. Pass (B, b, d) rows.")
    if shape is not None:
        n_batches, size, n_features = shape
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
    nested = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    own = _is_list(nested) and all(_is_list(row) and all(map(_is_list, row)) for row in nested)
    listed = nested if own else [nested]
    sizes = {len(labeling) if _is_list(labeling) else 0 for one in listed for labeling in one}
    counts = {len(one) for one in listed}
    if sizes != {size} or len(counts) != 1:
        raise ShapeMismatch(
            f"labels has labelings of {sorted(sizes)} rows; (L, {size}) or (B, L, {size}) was "
            "expected. Give one label for each of the rows of a batch."
        )
    if own and len(listed) != n_batches:
        raise ShapeMismatch(
            f"labels is for {len(listed)} batches; {n_batches} came. Give labelings for each "
            "batch, or (L, b) for all of them."
        )
    flat = [label for one in listed for labeling in one for label in labeling]
    codes = to_numpy(fitted.targets(flat, len(flat), "labels")).argmax(axis=1)
    shaped: NDArray[Any] = codes.reshape(len(listed), counts.pop(), size)
    return shaped


def _is_list(value: Any) -> bool:
    """Return whether a value is a list of others: tuples may be labels."""
    return isinstance(value, list)

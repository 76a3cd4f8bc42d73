"""Batches of rows, and the labelings they are tried with."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import Rows, namespace, rows_at, stack_rows, to_numpy
from goalward.errors import BadParameter, Empty, ShapeMismatch, Unsupported
from goalward.models import Fitted

MOST_LABELINGS = 2**20


def batches(fitted: Fitted, X_batches: Any, labels: Any) -> list[tuple[Rows, NDArray[Any]]]:
    """Return each batch's rows with the labelings (L, b) it is tried with."""
    rows, n_batches, size = batch_rows(fitted, X_batches)
    codes = batch_codes(fitted, labels, size)
    return [(rows_at(rows, slice(i * size, (i + 1) * size)), codes) for i in range(n_batches)]


def batch_rows(fitted: Fitted, X_batches: Any) -> tuple[Rows, int, int]:
    """Return all rows of all batches in one table, the number of batches, and their size."""
    fitted.check_kind("A batch under whole labelings")
    if fitted.label_counts is not None or fitted.free_penalty is not None:
        raise Unsupported(
            "Batches do not support class_weight='balanced', nor a class that has no label yet: their "
            "labels change more than their own rows. Pass class_weight as a dict, or set "
            "penalize_intercept=True."
        )
    shape = getattr(X_batches, "shape", None)
    if shape is not None and len(shape) != 3:
        raise ShapeMismatch(
            f"X_batches must be (B, b, d) or a list of B sets of b rows, got shape {tuple(shape)}. "
            "Use X[None] for a single batch."
        )
    count = len(X_batches) if shape is None else shape[0]
    if count == 0:
        raise Empty("X_batches must have at least 1 batch, got none. Pass (B, b, d) rows.")
    if shape is not None:
        n_batches, size, n_features = shape
        flat = namespace(X_batches).reshape(X_batches, (n_batches * size, n_features))
        return fitted.features(flat, "X_batches"), int(n_batches), int(size)
    parts = [fitted.features(part, "X_batches") for part in X_batches]
    sizes = {int(part.shape[0]) for part in parts}
    if len(sizes) > 1:
        raise ShapeMismatch(
            f"X_batches must have batches of one size, got {min(sizes)} to {max(sizes)} rows. Score "
            "batches of different sizes in separate calls."
        )
    return reduce(stack_rows, parts), len(parts), sizes.pop()


def batch_codes(fitted: Fitted, labels: Any, size: int) -> NDArray[Any]:
    """Return the class indices (L, b) of labelings; None for all of them."""
    n_classes = fitted.n_classes
    if labels is None:
        if n_classes**size > MOST_LABELINGS:
            raise BadParameter(
                f"labels=None tries all labelings of a batch, at most {MOST_LABELINGS}, got "
                f"{n_classes}**{size}. Pass the labelings to try as labels=(L, b)."
            )
        return np.ascontiguousarray(np.indices((n_classes,) * size).reshape(size, -1).T)
    listed = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    # Tuples may be labels.
    sizes = {len(labeling) if isinstance(labeling, list) else 0 for labeling in listed}
    if sizes != {size}:
        raise ShapeMismatch(
            f"labels must be (L, {size}), got labelings of {sorted(sizes)} rows. Give one label for each "
            "of the rows of a batch."
        )
    flat = [label for labeling in listed for label in labeling]
    codes = to_numpy(fitted.targets(flat, len(flat), "labels")).argmax(axis=1)
    return np.asarray(codes.reshape(len(listed), size))

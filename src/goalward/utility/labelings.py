"""Batches of rows, the labelings they are tried with, and operators over these."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace, rows_at, stack_rows, to_numpy
from goalward.core.rows import Candidates
from goalward.errors import BadParameter, Empty, ShapeMismatch, Unsupported
from goalward.labels import Operator
from goalward.models import Fitted

MOST_LABELINGS = 2**20


def resolve_batches(
    operator: Operator,
    utility: Float[Array, "b l"],
    fitted: Fitted,
    X_batches: Any,
    labels: Any = None,
    rows: Any = None,
    *,
    round: int = 0,
) -> Float[Array, " b"]:
    """Return the operator's score of every batch, over whole labelings instead of row by row.

    The probability of a labeling is the product over its rows, P(Y) = ∏P(y).

    Parameters
    ----------
    utility
        (B, L) from `.batch(fitted, goal, X_batches, labels)` of a utility.
    labels
        The labelings given to `.batch`; their probabilities are scaled to sum to 1.
    rows
        (B, b) ids, for `Truth(labels)`; positions in the batches by default.

    Examples
    --------
    >>> import goalward as gw
    >>> from goalward.testing import problem
    >>> task = problem(n_classes=2)
    >>> pairs = task.X_pool[:6].reshape(3, 2, -1)
    >>> table = gw.utility.Retrain().batch(task.fitted, task.goal, pairs)
    >>> gw.utility.resolve_batches(gw.labels.WorstCase(), table, task.fitted, pairs).shape
    (3,)
    """
    X, n_batches, size = batch_rows(fitted, X_batches)
    codes = batch_codes(fitted, labels, n_batches, size)
    if tuple(utility.shape) != (n_batches, codes.shape[1]):
        raise ShapeMismatch(
            f"utility must be ({n_batches}, {codes.shape[1]}), batches by labelings, got "
            f"{tuple(utility.shape)}. Pass what .batch gave for the same batches and labels."
        )
    ids = np.arange(n_batches * size) if rows is None else np.asarray(rows).reshape(-1)
    if len(ids) != n_batches * size:
        raise ShapeMismatch(
            f"rows must have {n_batches} x {size} ids, one for each row of each batch, got {len(ids)}."
        )
    believe = operator.prepare(fitted, round).believe
    each = to_numpy(believe(Candidates(ids, X, fitted.proba_of)))
    each = each.reshape(n_batches, 1, size, -1)
    at = np.broadcast_to(codes, (n_batches, *codes.shape[1:]))[..., None]
    joint = np.take_along_axis(each, at, axis=3)[..., 0].prod(axis=2)
    total = joint.sum(axis=1, keepdims=True)
    if not (total > 0.0).all():
        raise BadParameter(
            f"labels must have a labeling of each batch that is believed possible, got "
            f"{codes.shape[1]} that are not. Pass labels=None for all of them."
        )
    return operator.resolve(utility, like(joint / total, utility, dtype=utility.dtype))


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


def batch_codes(fitted: Fitted, labels: Any, n_batches: int, size: int) -> NDArray[Any]:
    """Return class indices, (1, L, b) where all batches share them, else (B, L, b)."""
    n_classes = fitted.n_classes
    if labels is None:
        if n_classes**size > MOST_LABELINGS:
            raise BadParameter(
                f"labels=None tries all labelings of a batch, at most {MOST_LABELINGS}, got "
                f"{n_classes}**{size}. Pass the labelings to try as labels=(L, b)."
            )
        grid = np.indices((n_classes,) * size).reshape(size, -1).T
        return np.ascontiguousarray(grid)[None]
    nested = labels.tolist() if hasattr(labels, "tolist") else list(labels)

    def all_lists(values: Any) -> bool:
        """Return whether a list holds lists: tuples may be labels."""
        return isinstance(values, list) and all(isinstance(value, list) for value in values)

    own = all(all_lists(labelings) for labelings in nested)
    listed = nested if own else [nested]
    every = [labeling for labelings in listed for labeling in labelings]
    sizes = {len(labeling) if isinstance(labeling, list) else 0 for labeling in every}
    counts = {len(labelings) for labelings in listed}
    if sizes != {size} or len(counts) != 1:
        raise ShapeMismatch(
            f"labels must be (L, {size}) or (B, L, {size}), got labelings of {sorted(sizes)} rows. "
            "Give one label for each of the rows of a batch."
        )
    if own and len(listed) != n_batches:
        raise ShapeMismatch(
            f"labels must be for {n_batches} batches, got {len(listed)}. Give labelings for each "
            "batch, or (L, b) for all of them."
        )
    flat = [label for labeling in every for label in labeling]
    codes = to_numpy(fitted.targets(flat, len(flat), "labels")).argmax(axis=1)
    shaped: NDArray[Any] = codes.reshape(len(listed), counts.pop(), size)
    return shaped

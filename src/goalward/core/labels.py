"""Validation of labels: hashables, or a distribution per row, become targets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, to_numpy
from goalward.errors import BadInput, Empty, NotFinite, ShapeMismatch, UnknownLabel

REGRESSION = (
    "Numbers are learned by gw.Ridge(). For classes bin the values, np.digitize(y, edges), pass them as "
    "texts, or name them all with classes=[...]."
)
SEVERAL = "Rows with several labels are learned by gw.MultiLabel()."


def is_soft(y: object) -> bool:
    """Return whether `y` is a table of distributions rather than a list of labels."""
    if getattr(y, "ndim", 1) != 2:
        return False
    _refuse_several(y)
    return True


def as_classes(labels: Iterable[Hashable]) -> NDArray[Any]:
    """Return `labels` as a (K,) array: typed where NumPy can, else of objects."""
    listed = [plain(label) for label in labels]
    if not listed:
        raise Empty("There must be two or more classes, got none. Name all classes, or none.")
    if len(set(listed)) < len(listed):
        twice = next(c for i, c in enumerate(listed) if c in listed[:i])
        raise BadInput(f"Classes must be distinct, {twice!r} stands twice. Name each class once.")
    kind, *others = {type(label) for label in listed}
    if not others and issubclass(kind, (int, float, str)):
        return np.array(listed)
    classes = np.empty(len(listed), dtype=object)
    classes[:] = listed
    return classes


def find_classes(y: object) -> NDArray[Any]:
    """Return the distinct labels of `y`, sorted where they can be compared."""
    distinct = dict.fromkeys(_listed(y))
    fractions = (v for v in distinct if isinstance(v, float) and not v.is_integer())
    measured = next(fractions, None)
    if measured is not None:
        raise BadInput(
            f"y must hold classes (whole numbers, texts), got the number {measured!r}. {REGRESSION}"
        )
    try:
        return as_classes(sorted(distinct))  # type: ignore[type-var]
    except TypeError:
        return as_classes(distinct)


def encode(y: object, classes: NDArray[Any], name: str = "y", *, least: int = 1) -> NDArray[Any]:
    """Return one-hot rows for labels, or the distributions of a soft `y`, checked."""
    if is_soft(y):
        return _distributions(to_numpy(y).astype(np.float64), len(classes), name)
    listed = _listed(y)
    if len(listed) < least:
        raise Empty(f"{name} is empty; it needs at least 1 label. Pass some labels.")
    code = {label: k for k, label in enumerate(classes.tolist())}
    codes = list(map(code.get, listed))
    if None in codes:
        unknown = listed[codes.index(None)]
        known = ", ".join(map(repr, list(code)[:10])) + (", ..." if len(code) > 10 else "")
        measured = isinstance(unknown, float) and not unknown.is_integer()
        remedy = "Correct the label, or fit with classes=[...] that name every class."
        raise UnknownLabel(
            f"Labels of {name} must be among the classes {known}, got {unknown!r}. "
            f"{REGRESSION if measured else remedy}"
        )
    targets = np.zeros((len(listed), len(classes)))
    targets[np.arange(len(listed)), np.array(codes, dtype=np.int64)] = 1.0
    return targets


def _distributions(soft: NDArray[Any], n_classes: int, name: str) -> NDArray[Any]:
    if soft.shape[1] != n_classes:
        raise ShapeMismatch(
            f"{name} must have a column for each of the {n_classes} classes, got {soft.shape[1]}. "
            "Give `classes`, or a column for every class."
        )
    if not np.all(np.isfinite(soft)):
        raise NotFinite(
            f"{name} must hold a distribution per row, got NaN or infinite numbers. Drop those rows."
        )
    if np.any(soft < 0) or not np.allclose(soft.sum(axis=1), 1.0, atol=1e-6):
        worst = int(np.argmax(np.abs(soft.sum(axis=1) - 1.0) - np.minimum(soft.min(axis=1), 0)))
        raise BadInput(
            f"Row {worst} of {name} sums to {soft[worst].sum():.6g} with least entry "
            f"{soft[worst].min():.3g}; it must be non-negative and sum to 1. Divide each row by its sum."
        )
    return soft


def clean_weights(weights: object, n_rows: int, name: str = "sample_weight") -> NDArray[Any]:
    """Return row weights as (n,) floats; ones for None."""
    if weights is None:
        return np.ones(n_rows)
    plain = to_numpy(weights).astype(np.float64)
    if plain.ndim == 0:
        plain = np.full(n_rows, float(plain))
    if plain.shape != (n_rows,):
        raise ShapeMismatch(
            f"{name} must be ({n_rows},), a number per row, got shape {plain.shape}. Give a weight for "
            "each row."
        )
    if not np.all(np.isfinite(plain)) or np.any(plain < 0):
        raise BadInput(
            f"{name} must hold weights of 0 or more, got negative, NaN or infinite ones. Drop or repair "
            "those rows."
        )
    return plain


def _listed(y: Any) -> list[Hashable]:
    if isinstance(y, (str, bytes)):
        raise BadInput(f"y must have one label per row, got the single text {y!r}. Pass a list.")
    if not isinstance(y, Sequence):
        y = to_numpy(y)
        if y.ndim != 1:
            raise ShapeMismatch(
                f"y has shape {y.shape}; (n,) labels or (n, K) distributions were "
                "expected. Pass one label per row."
            )
        if y.dtype.kind in "biuUS":
            listed: list[Hashable] = y.tolist()  # Python values, none of them missing
            return listed
    elif set(map(type, y)) <= {bool, int, str}:
        return list(y)  # so are these, and a long list is not looked through one by one
    for row, label in enumerate(y):
        if getattr(label, "ndim", 0) > 0 or isinstance(label, (list, Set, dict)):
            raise BadInput(
                f"Row {row} of y must have one label per row, a number, text or tuple, got the "
                f"{type(label).__name__} {label!r}. Distributions over the classes go in as an array, "
                f"np.array(y), whose rows sum to 1. {SEVERAL}"
            )
    labels = [plain(label) for label in y]
    for i, label in enumerate(labels):
        if label is None or label != label:  # noqa: PLR0124 - NaN alone differs from itself
            raise NotFinite(
                f"The label of row {i} is {label!r}; it must be a class. Leave rows without a label "
                "out."
            )
    return labels


def plain(label: Any) -> Hashable:
    """Return NumPy scalars as the Python values they stand for."""
    scalar = hasattr(label, "item") and getattr(label, "ndim", None) == 0
    value: Hashable = label.item() if scalar else label
    try:
        hash(value)
    except TypeError as error:
        raise BadInput(
            f"A label is the {type(value).__name__} {value!r}; something hashable was "
            "expected. Use numbers, texts or tuples; distributions over labels go in as an array."
        ) from error
    return value


def one_per_row(y: Any) -> Any:
    """Return labels as a list or (n,) array; (n, 1) is flattened, as in scikit-learn."""
    if not hasattr(y, "ndim"):
        return y
    if y.ndim == 2 and y.shape[1] != 1:
        raise ShapeMismatch(
            f"y must have shape ({y.shape[0]},), one label per row, got {tuple(y.shape)}. {SEVERAL}"
        )
    return np.ravel(to_numpy(y))


def _refuse_several(y: Any) -> None:
    """Raise if a table of labels is a column, sparse or multi-label."""
    shape = tuple(y.shape)
    if shape[1] < 2:
        raise ShapeMismatch(
            f"y must be ({shape[0]},) labels or have a column for every class, got shape {shape}. "
            "Pass y[:, 0] or, of a frame, the column."
        )
    if is_sparse(y):
        raise BadInput(
            f"y must be labels or a dense array of distributions, got a sparse matrix of shape {shape}. "
            f"Where rows have several labels: {SEVERAL}"
        )
    table: NDArray[Any] = to_numpy(y)
    if table.dtype.kind not in "biuf" or not ((table == 0) | (table == 1)).all():
        return
    totals = table.sum(axis=1)
    if (totals != 1).any():
        row = int(np.flatnonzero(totals != 1)[0])
        raise BadInput(
            f"Row {row} of y must be one label or a distribution (sum 1), got zeros and ones that sum "
            f"to {int(totals[row])}: several labels or none. {SEVERAL}"
        )

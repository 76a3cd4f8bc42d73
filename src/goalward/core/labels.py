"""The door for labels: any hashables, or a distribution per row, become targets.

What labels are not, measurements and several for one row, is refused with a way out.
"""

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
    listed = [_plain(label) for label in labels]
    if not listed:
        raise Empty("classes is empty; two or more were expected. Name all classes, or none.")
    if len(set(listed)) < len(listed):
        twice = next(c for i, c in enumerate(listed) if c in listed[:i])
        raise BadInput(
            f"Class {twice!r} stands twice among the classes; distinct classes were "
            "expected. Name each class once."
        )
    kind, *others = {type(label) for label in listed}
    if not others and issubclass(kind, (int, float, str)):
        return np.array(listed)
    classes = np.empty(len(listed), dtype=object)
    classes[:] = listed
    return classes


def find_classes(y: object) -> NDArray[Any]:
    """Return the distinct labels of `y`, sorted where they can be compared."""
    distinct = dict.fromkeys(_listed(y))
    measured = next((label for label in distinct if _is_measured(label)), None)
    if measured is not None:
        raise BadInput(
            f"y holds the number {measured!r}; classes (whole numbers, texts) were expected. "
            f"{REGRESSION}"
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
        raise Empty(f"{name} is empty; at least 1 label was expected. Pass some labels.")
    code = {label: k for k, label in enumerate(classes.tolist())}
    codes = list(map(code.get, listed))
    if None in codes:
        unknown = listed[codes.index(None)]
        known = ", ".join(map(repr, list(code)[:10])) + (", ..." if len(code) > 10 else "")
        remedy = "Correct the label, or fit with classes=[...] that name every class."
        raise UnknownLabel(
            f"{name} holds the label {unknown!r}; one of the classes {known} was expected. "
            f"{REGRESSION if _is_measured(unknown) else remedy}"
        )
    targets = np.zeros((len(listed), len(classes)))
    targets[np.arange(len(listed)), np.array(codes, dtype=np.int64)] = 1.0
    return targets


def _distributions(soft: NDArray[Any], n_classes: int, name: str) -> NDArray[Any]:
    if soft.shape[1] != n_classes:
        raise ShapeMismatch(
            f"{name} has {soft.shape[1]} columns; one for each of the {n_classes} "
            "classes was expected. Give `classes`, or a column for every class."
        )
    if not np.all(np.isfinite(soft)):
        raise NotFinite(
            f"{name} holds NaN or infinite numbers; a distribution per row was expected. "
            "Drop the rows that have none."
        )
    if np.any(soft < 0) or not np.allclose(soft.sum(axis=1), 1.0, atol=1e-6):
        worst = int(np.argmax(np.abs(soft.sum(axis=1) - 1.0) - np.minimum(soft.min(axis=1), 0)))
        raise BadInput(
            f"Row {worst} of {name} sums to {soft[worst].sum():.6g} with least entry "
            f"{soft[worst].min():.3g}; a distribution (non-negative, sum 1) was "
            "expected. Divide each row by its sum."
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
            f"{name} has shape {plain.shape}; ({n_rows},), a number per row, was expected. "
            "Give one weight for each row."
        )
    if not np.all(np.isfinite(plain)) or np.any(plain < 0):
        raise BadInput(
            f"{name} holds negative, NaN or infinite numbers; weights of 0 or more were "
            "expected. Drop or repair those rows."
        )
    return plain


def _listed(y: Any) -> list[Hashable]:
    """Return `y` as a list of plain, hashable labels."""
    if isinstance(y, (str, bytes)):
        raise BadInput(f"y is the single text {y!r}; one label per row was expected. Pass a list.")
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
    _refuse_sets(y)
    labels = [_plain(label) for label in y]
    for i, label in enumerate(labels):
        if label is None or label != label:  # noqa: PLR0124 - NaN alone differs from itself
            raise NotFinite(
                f"The label of row {i} is {label!r}; a class was expected. Leave rows "
                "without a label out of the labelled set."
            )
    return labels


def _plain(label: Any) -> Hashable:
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


def _is_measured(label: object) -> bool:
    """Return whether a label is a number with a fraction, or infinite."""
    return isinstance(label, float) and not label.is_integer()


def one_per_row(y: Any) -> Any:
    """Return the labels that an estimator of scikit-learn was fitted to: a list, or (n,) of them.

    A column, (n, 1), is one label per row too: scikit-learn takes it, with a warning.
    """
    if not hasattr(y, "ndim"):
        return y
    if y.ndim == 2 and y.shape[1] != 1:
        raise ShapeMismatch(
            f"y has shape {tuple(y.shape)}; ({y.shape[0]},), one label per row, was expected. "
            f"{SEVERAL}"
        )
    return np.ravel(to_numpy(y))


def _refuse_sets(labels: Iterable[Any]) -> None:
    """Raise if a row has a list, set or array where a label should be."""
    for row, label in enumerate(labels):
        if getattr(label, "ndim", 0) > 0 or isinstance(label, (list, Set, dict)):
            raise BadInput(
                f"The label of row {row} of y is the {type(label).__name__} {label!r}; one label per "
                "row was expected: a number, text or tuple. Distributions over the classes go in as an "
                f"array, np.array(y), whose rows sum to 1. Where rows have several labels: {SEVERAL}"
            )


def _refuse_several(y: Any) -> None:
    """Raise if a table of labels is a column, sparse, or says yes and no to each class."""
    shape = tuple(y.shape)
    if shape[1] < 2:
        raise ShapeMismatch(
            f"y has shape {shape}; ({shape[0]},) labels, or a column for every class, were "
            "expected. Pass y[:, 0] or, of a frame, the column."
        )
    if is_sparse(y):
        raise BadInput(
            f"y is a sparse matrix of shape {shape}; labels, or a dense array of distributions, "
            f"were expected. Where rows have several labels: {SEVERAL}"
        )
    table: NDArray[Any] = to_numpy(y)
    if table.dtype.kind not in "biuf" or not ((table == 0) | (table == 1)).all():
        return
    totals = table.sum(axis=1)
    if (totals != 1).any():
        row = int(np.flatnonzero(totals != 1)[0])
        raise BadInput(
            f"Row {row} of y sums to {int(totals[row])} and holds zeros and ones, several labels or "
            f"none; one label, or a distribution (sum 1), was expected. {SEVERAL}"
        )

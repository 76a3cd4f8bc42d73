"""The door for labels: any hashables, or a distribution per row, become targets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.core.one_label import (
    REGRESSION,
    is_measured,
    refuse_measured,
    refuse_sets,
    refuse_several,
)
from goalward.errors import BadInput, Empty, NotFinite, ShapeMismatch, UnknownLabel

__all__ = ["as_classes", "clean_weights", "encode", "find_classes", "is_soft"]


def is_soft(y: object) -> bool:
    """Return whether `y` is a table of distributions rather than a list of labels."""
    if getattr(y, "ndim", 1) != 2:
        return False
    refuse_several(y)
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
    if len({type(label) for label in listed}) == 1 and isinstance(
        listed[0], (bool, int, float, str)
    ):
        return np.array(listed)
    classes = np.empty(len(listed), dtype=object)
    classes[:] = listed
    return classes


def find_classes(y: object) -> NDArray[Any]:
    """Return the distinct labels of `y`, sorted where they can be compared."""
    distinct = dict.fromkeys(_listed(y))
    refuse_measured(distinct)
    try:
        return as_classes(sorted(distinct))  # type: ignore[type-var]
    except TypeError:
        return as_classes(distinct)


def encode(y: object, classes: NDArray[Any], name: str = "y") -> NDArray[Any]:
    """Return one-hot rows for labels, or the distributions of a soft `y`, checked."""
    n_classes = len(classes)
    if is_soft(y):
        soft = to_numpy(y).astype(np.float64)
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
    listed = _listed(y)
    if not listed:
        raise Empty(f"{name} is empty; at least 1 label was expected. Pass some labels.")
    code = {_plain(label): k for k, label in enumerate(classes)}
    unknown = [label for label in listed if label not in code]
    if unknown:
        known = ", ".join(repr(_plain(c)) for c in classes[:10])
        remedy = (
            REGRESSION
            if is_measured(unknown[0])
            else ("Correct the label, or fit with classes=[...] that name every class.")
        )
        raise UnknownLabel(
            f"{name} holds the label {unknown[0]!r}; one of the classes {known}"
            f"{', ...' if n_classes > 10 else ''} was expected. {remedy}"
        )
    targets = np.zeros((len(listed), n_classes))
    targets[np.arange(len(listed)), [code[label] for label in listed]] = 1.0
    return targets


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


def _listed(y: object) -> list[Hashable]:
    """Return `y` as a list of plain, hashable labels."""
    if isinstance(y, (str, bytes)):
        raise BadInput(f"y is the single text {y!r}; one label per row was expected. Pass a list.")
    if isinstance(y, Sequence):
        refuse_sets(y)
        labels = [_plain(label) for label in y]
    else:
        plain = to_numpy(y)
        if plain.ndim != 1:
            raise ShapeMismatch(
                f"y has shape {plain.shape}; (n,) labels or (n, K) distributions were "
                "expected. Pass one label per row."
            )
        if plain.dtype.kind in "biuUS":
            listed: list[Hashable] = plain.tolist()  # Python values, none of them missing
            return listed
        if plain.dtype == object:
            refuse_sets(plain)
        labels = [_plain(label) for label in plain]
    for i, label in enumerate(labels):
        if label is None or label != label:  # noqa: PLR0124 - NaN alone differs from itself
            raise NotFinite(
                f"The label of row {i} is {label!r}; a class was expected. Leave rows "
                "without a label out of the labelled set."
            )
    return labels


def _plain(label: Any) -> Hashable:
    """Return NumPy scalars as the Python values they stand for."""
    value: Hashable = label.item() if isinstance(label, np.generic) else label
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    try:
        hash(value)
    except TypeError as error:
        raise BadInput(
            f"A label is the {type(value).__name__} {value!r}; something hashable was "
            "expected. Use numbers, texts or tuples; distributions over labels go in as an array."
        ) from error
    return value

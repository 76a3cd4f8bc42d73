"""What labels are not: measurements, and several for one row. Each is refused with a way out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, to_numpy
from goalward.errors import BadInput, ShapeMismatch

__all__ = [
    "REGRESSION",
    "is_measured",
    "one_per_row",
    "refuse_measured",
    "refuse_sets",
    "refuse_several",
]

REGRESSION = (
    "Only classes can be learned here, and regression is not: bin the values, np.digitize(y, edges), "
    "pass them as texts, or name them all with classes=[...]."
)
SEVERAL = "Fit one model per label, on a column of zeros and ones each."


def is_measured(label: object) -> bool:
    """Return whether a label is a number with a fraction, or infinite."""
    return isinstance(label, float) and not label.is_integer()


def refuse_measured(labels: Iterable[Hashable], name: str = "y") -> None:
    """Raise where nobody named the classes and labels have fractions: a target of a regression."""
    found = next((label for label in labels if is_measured(label)), None)
    if found is not None:
        raise BadInput(
            f"{name} holds the number {found!r}; classes (whole numbers, texts) were expected. "
            f"{REGRESSION}"
        )


def one_per_row(y: Any, name: str = "y") -> Any:
    """Return the labels that an estimator of scikit-learn was fitted to: a list, or (n,) of them.

    A column, (n, 1), is one label per row too: scikit-learn takes it, with a warning.
    """
    if not hasattr(y, "ndim"):
        return y
    if y.ndim == 2 and y.shape[1] != 1:
        raise ShapeMismatch(
            f"{name} has shape {tuple(y.shape)}; ({y.shape[0]},), one label per row, was expected. "
            f"{SEVERAL}"
        )
    return np.ravel(to_numpy(y))


def refuse_sets(labels: Iterable[Any], name: str = "y") -> None:
    """Raise if a row has a list, set or array where a label should be."""
    for row, label in enumerate(labels):
        table = getattr(label, "ndim", 0) > 0
        if table or isinstance(label, (list, Set, dict)):
            raise BadInput(
                f"The label of row {row} of {name} is the {type(label).__name__} {label!r}; one label per "
                "row was expected: a number, text or tuple. Distributions over the classes go in as an "
                f"array, np.array(y), whose rows sum to 1. Where rows have several labels: {SEVERAL}"
            )


def refuse_several(y: Any, name: str = "y") -> None:
    """Raise if a table of labels is a column, sparse, or says yes and no to each class."""
    shape = tuple(y.shape)
    if shape[1] < 2:
        raise ShapeMismatch(
            f"{name} has shape {shape}; ({shape[0]},) labels, or a column for every class, were "
            f"expected. Pass {name}[:, 0] or, of a frame, the column."
        )
    if is_sparse(y):
        raise BadInput(
            f"{name} is a sparse matrix of shape {shape}; labels, or a dense array of distributions, "
            f"were expected. Where rows have several labels: {SEVERAL}"
        )
    table: NDArray[Any] = to_numpy(y)
    if table.dtype.kind not in "biuf" or not ((table == 0) | (table == 1)).all():
        return
    totals = table.sum(axis=1)
    if (totals != 1).any():
        row = int(np.flatnonzero(totals != 1)[0])
        raise BadInput(
            f"Row {row} of {name} sums to {int(totals[row])} and holds zeros and ones, several labels or "
            f"none; one label, or a distribution (sum 1), was expected. {SEVERAL}"
        )

"""Goal rows with labels, checked: what goals on a dev set share."""

from __future__ import annotations

from math import isfinite
from typing import Any

from goalward.core.arrays import Array, Rows, namespace
from goalward.errors import BadInput, BadParameter, ShapeMismatch, Unsupported
from goalward.goals.goal import file_parts

__all__ = [
    "belief_labels",
    "check_in_memory",
    "check_lengths",
    "check_some_weight",
    "check_temperature",
    "count_labels",
    "dev_rows",
]


def dev_rows(fitted: Any, X: Any, y: Any, weights: Any, name: str) -> tuple[Rows, Array, Array]:
    """Return rows, (m, K) targets and (m,) weights of a dev set as the model sees them."""
    rows = fitted.features(X, f"X of {name}")
    targets = fitted.targets(y, rows.shape[0], f"y of {name}")
    w = fitted.row_weights(weights, rows.shape[0])
    check_some_weight(float(namespace(w).sum(w)), name)
    return rows, targets, w


def check_some_weight(total: float, name: str) -> None:
    """Raise unless the weights of a goal's rows add up to more than 0."""
    if not total > 0.0:
        raise BadInput(
            f"The weights of {name} are all 0; at least 1 above 0 was expected. Leave weights= out "
            "to count every row once."
        )


def check_lengths(total: int, name: str, **columns: Any) -> None:
    """Raise if a column that goes with the rows of a file has another length."""
    for column, values in columns.items():
        if values is not None and len(values) != total:
            raise ShapeMismatch(
                f"{column} of {name} has {len(values)} entries; {total} were expected, one for each "
                "row of the file."
            )


def check_temperature(temperature: Any, name: str) -> None:
    """Raise unless a temperature is a number above 0."""
    if not (isinstance(temperature, (int, float)) and isfinite(temperature) and temperature > 0.0):
        raise BadParameter(
            f"temperature={temperature!r} of {name}; a number above 0 was expected. Leave it out for "
            "the default, or use 0.1 for less smoothing."
        )


def check_in_memory(X: Any, name: str) -> None:
    """Raise if rows stay on disk in several parts: a goal that couples rows is no sum of parts."""
    parts = len(file_parts(X))
    if parts > 1:
        raise Unsupported(
            f"The rows of {name} are a file that is read in {parts} parts, and this goal is not a sum "
            "over them, since all its rows depend on one another. Pass rows in memory: X[:] for all "
            "of them, or fewer."
        )


def count_labels(y: Any) -> int:
    """Return how many labels `y` holds."""
    return int(y.shape[0]) if hasattr(y, "shape") else len(y)


def belief_labels(belief: Any) -> int:
    """Return how many labels a belief brings, itself or in the belief that it wraps."""
    held = [getattr(one, "y", None) for one in (belief, getattr(belief, "belief", None))]
    return max(0 if y is None else count_labels(y) for y in held)

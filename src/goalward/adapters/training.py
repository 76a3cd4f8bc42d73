"""What an estimator of scikit-learn was trained on, as the last step of its pipeline sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from goalward.core.arrays import is_sparse, to_numpy
from goalward.core.labels import as_classes, clean_weights, encode, one_per_row
from goalward.core.rows import clean_rows, column_names
from goalward.core.sparse import check_sparse
from goalward.errors import ShapeMismatch

__all__ = ["Training", "last_step"]


def last_step(estimator: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return the model at the end of a pipeline, and what raw rows go through in front of it."""
    steps: list[Any] = []
    while isinstance(estimator, Pipeline):
        if len(estimator.steps) > 1:
            steps.append(estimator[:-1])
        estimator = estimator.steps[-1][1]
    return estimator, partial(_through, steps) if steps else None


@dataclass(frozen=True, eq=False)
class Training:
    """Rows, labels and weights that a model was fitted to, cleaned.

    Parameters
    ----------
    labels
        One for each row, as they came.
    targets
        The same as distributions over `classes`.
    """

    rows: Any
    labels: Any
    classes: NDArray[Any]
    targets: NDArray[Any]
    weights: NDArray[Any]
    columns: tuple[str, ...] | None

    @classmethod
    def of(
        cls, model: Any, transform: Callable[[Any], Any] | None, X: Any, y: Any, weights: Any
    ) -> Training:
        """Return what a fitted model saw of raw rows."""
        rows = clean_rows(X if transform is None else transform(X), "X")
        rows = rows.astype(np.float64) if is_sparse(rows) else to_numpy(rows).astype(np.float64)
        labels = one_per_row(y)
        classes = as_classes(np.ravel(model.classes_))
        targets = encode(labels, classes)
        width = getattr(model, "n_features_in_", rows.shape[1])
        if len(targets) != rows.shape[0] or width != rows.shape[1]:
            raise ShapeMismatch(
                f"X has {rows.shape[0]} rows of {rows.shape[1]} features and y has {len(targets)} "
                f"labels; as many labels as rows, and {width} features, were expected. Pass the "
                "rows and labels that the estimator was fitted to."
            )
        weights = clean_weights(weights, len(targets))
        return cls(rows, labels, classes, targets, weights, column_names(X))


def _through(steps: list[Any], X: Any) -> Any:
    """Return raw rows as the model sees them: behind the earlier steps of its pipelines."""
    # Steps multiply raw rows before anybody else sees them.
    check_sparse(X, "X")
    for step in steps:
        X = step.transform(X)
    return X

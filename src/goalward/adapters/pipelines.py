"""What stands in front of a model in a scikit-learn pipeline."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from goalward.core.sparse import check_sparse

__all__ = ["front_of", "through"]


def front_of(estimator: Any) -> tuple[list[Any], Any]:
    """Return the steps in front of the last one, from the outermost pipeline inwards, and it."""
    steps: list[Any] = []
    while isinstance(estimator, Pipeline):
        if len(estimator.steps) > 1:
            steps.append(estimator[:-1])
        estimator = estimator.steps[-1][1]
    return steps, estimator


def through(steps: list[Any], X: Any) -> Any:
    """Return raw rows as the model sees them: behind the earlier steps of its pipelines."""
    # Steps multiply raw rows before anybody else sees them.
    check_sparse(X, "X")
    for step in steps:
        X = step.transform(X)
    return X

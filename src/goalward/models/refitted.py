"""Classifiers without curvature (trees, neighbours, boosting), which can only be refitted."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from goalward.core.arrays import Array, Rows, is_sparse, plain_rows
from goalward.core.labels import as_classes
from goalward.core.rows import Labelled, check_sparse
from goalward.errors import BadParameter, Unsupported
from goalward.models.fitted import Fitted, as_fitted
from goalward.models.model import Model
from goalward.solvers import Solver


@dataclass(frozen=True, eq=False)
class Refitted(Model):
    """A scikit-learn classifier that is refitted; see `gw.adapters.from_classifier`.

    `smoothing` is the share of the uniform distribution in predictions: logarithms stay finite.
    `fresh` is an unfitted copy with a fixed random state.
    """

    estimator: Any
    classes: NDArray[Any]
    width: int
    smoothing: float = 0.01
    fresh: Callable[[Any], Any] = field(default=lambda estimator: estimator, repr=False)
    predict_only: bool = False

    has_derivatives: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.0 < self.smoothing < 1.0:
            raise BadParameter(
                f"smoothing must be between 0 and 1, got {self.smoothing!r}. Use 0.01."
            )

    def fitted(
        self,
        labelled: Labelled,
        classes: NDArray[Any],
        transform: Callable[[Any], Any] | None,
        columns: Any,
    ) -> Fitted:
        # There are no parameters; goals read library and precision from these.
        params, penalty = np.zeros((1, len(classes))), np.ones(1)
        options = {"model": self, "transform": transform, "columns": columns}
        return Fitted(params, labelled, penalty, classes, **options)

    def n_features(self, params: Array) -> int:
        return self.width

    def logits(self, params: Array, X: Rows) -> Float[Array, "n k"]:
        rows, K = plain_rows(X), len(self.classes)
        code = {label: k for k, label in enumerate(self.classes.tolist())}
        p = np.zeros((rows.shape[0], K))
        with warnings.catch_warnings():
            # Column names were already compared.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            known = [code[label] for label in np.ravel(self.estimator.classes_).tolist()]
            p[:, known] = self.estimator.predict_proba(rows)
        return np.log((1.0 - self.smoothing) * p + self.smoothing / K)

    def trained(self, X: Rows, targets: Array, weights: Array) -> Refitted:
        """Return the refitted model; a row with a distribution becomes one row per label."""
        rows, label = np.nonzero(targets * weights[:, None])
        share = (targets * weights[:, None])[rows, label]
        options = {}
        if not np.all(share == 1.0):
            if "sample_weight" not in inspect.signature(self.estimator.fit).parameters:
                raise Unsupported(
                    f"{type(self.estimator).__name__} takes no sample_weight, which weights and "
                    "distributions over labels need. Leave weights out, or use another classifier."
                )
            options["sample_weight"] = share
        blank = self.fresh(self.estimator)
        return replace(self, estimator=blank.fit(X[rows], self.classes[label], **options))

    def polished(
        self, fitted: Fitted, *, tol: float, max_iter: int | None, solver: Solver | None
    ) -> Fitted:
        known = fitted.labelled
        return replace(fitted, model=self.trained(known.X, known.targets, known.weights))

    def _refuse(self, *args: Any, **options: Any) -> NoReturn:
        """Raise, since there are no derivatives."""
        raise Unsupported(
            f"{type(self.estimator).__name__} has no derivative, which a linear model or a network has. "
            "Use utility=gw.utility.Retrain(), which refits."
        )

    at = curvature = gradient_scale = squared_norms = _refuse


def that_predicts(estimator: Any) -> Fitted:
    """Return a model of a fitted classifier that can only predict."""
    if isinstance(estimator, Fitted):
        return estimator
    model, transform = last_step(estimator)
    if isinstance(model, type) or hasattr(model, "fitted_") or not hasattr(model, "predict_proba"):
        return as_fitted(model)
    check_is_fitted(model)
    classes, width = as_classes(np.ravel(model.classes_)), int(model.n_features_in_)
    nothing = Labelled(np.empty((0, width)), np.empty((0, len(classes))), np.empty(0))
    named = getattr(estimator, "feature_names_in_", None)
    columns = None if named is None else tuple(named)
    blind = Refitted(model, classes, width, predict_only=True)
    return blind.fitted(nothing, classes, transform, columns)


def last_step(estimator: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return the final model of a pipeline, search or frozen estimator, and its preprocessing."""
    steps: list[Any] = []
    while True:
        if isinstance(estimator, Pipeline):
            if len(estimator.steps) > 1:
                steps.append(estimator[:-1])
            estimator = estimator.steps[-1][1]
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator, partial(_through, steps) if steps else None


def _through(steps: list[Any], X: Any) -> Any:
    # Steps multiply raw rows before any other check.
    if is_sparse(X):
        check_sparse(X, "X")
    for step in steps:
        X = step.transform(X)
    return X

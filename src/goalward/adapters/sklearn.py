"""A fitted scikit-learn LogisticRegression as a goalward model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from goalward.adapters.training import Training, last_step
from goalward.errors import LooseFit, NotConverged, Unsupported
from goalward.learners import LogisticClassifier
from goalward.models import Fitted, Labelled, LinearModel
from goalward.models.trust import newton_distance, refuse_separable

__all__ = ["from_sklearn", "is_logistic"]

TIGHT = 1e-6
"""Relative gradient up to which a fit counts as converged for utilities."""

FAR = 0.05
"""Newton step, relative to the weights, beyond which a loose fit is refused."""


def from_sklearn(
    estimator: Any, X: object, y: object, sample_weight: object = None, *, polish: bool = False
) -> Fitted:
    """Return a fitted `LogisticRegression` as a `Fitted`, with the rows it was fitted to.

    Binary and multinomial, free, absent or (liblinear) penalised intercepts, `class_weight`
    and `sample_weight` are honoured. scikit-learn's binary model has one weight vector w;
    here it is the softmax with columns ∓w/2 and ρ = 2/C, the same probabilities and the
    same objective. A row that is labelled now gets the weight of its class; the weights of
    `class_weight="balanced"` are those of the fit, though refitting would balance anew.

    Parameters
    ----------
    estimator
        A fitted `LogisticRegression`, or a `Pipeline` that ends in one. With a pipeline,
        pool and goal rows are raw too: they pass through its earlier steps.
    X, y, sample_weight
        What it was fitted to.
    polish
        Move the model to its optimum first. Utilities assume an optimum, and scikit-learn's
        default tol=1e-4 stops well short of it; a `LooseFit` warning says so. A fit whose
        optimum is more than 5 % of its weights away is refused.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = [[0.0], [1.0], [3.0]], ["low", "low", "high"]
    >>> from_sklearn(LogisticRegression(tol=1e-10).fit(X, y), X, y).classes
    array(['high', 'low'], dtype='<U4')
    """
    model, transform = last_step(estimator)
    if not is_logistic(model):
        raise Unsupported(
            f"{type(model).__name__} came; a LogisticRegression, or a Pipeline that ends in "
            "one, was expected. Fit a LogisticRegression on its features, use gw.Logistic(), or take "
            "the classifier as it is with gw.adapters.from_classifier(), which refits it."
        )
    check_is_fitted(model)
    own: Fitted | None = getattr(model, "fitted_", None)
    if own is not None:
        return replace(own, transform=transform)
    _refuse_other_penalties(model)
    fitted = _as_softmax(model, transform, X, y, sample_weight)
    if polish:
        fitted = fitted.polished()
        refuse_separable(fitted)
        return fitted
    refuse_separable(fitted)
    return _checked(fitted, model.tol)


def is_logistic(model: Any) -> bool:
    """Return whether an estimator is a logistic regression, scikit-learn's or our own."""
    return isinstance(model, (LogisticRegression, LogisticRegressionCV, LogisticClassifier))


def _as_softmax(
    model: Any, transform: Callable[[Any], Any] | None, X: Any, y: Any, sample_weight: Any
) -> Fitted:
    seen = Training.of(model, transform, X, y, sample_weight)
    weights, by_class = seen.weights, None
    if model.class_weight is not None:
        by_class = _class_weights(model, seen.labels, sample_weight)
        weights = weights * (seen.targets @ by_class)
    C = _inverse_penalty(model) / (2.0 if len(model.coef_) == 1 else 1.0)
    penalty = np.full(seen.rows.shape[1] + model.fit_intercept, 1.0 / C)
    if model.fit_intercept:
        # liblinear penalises the weight of a constant feature of size intercept_scaling.
        scaling = float(model.intercept_scaling)
        penalty[-1] = 1.0 / (C * scaling**2) if model.solver == "liblinear" else 0.0
    return Fitted(
        _columns(model),
        Labelled(seen.rows, seen.targets, weights),
        penalty,
        seen.classes,
        model=LinearModel(intercept=bool(model.fit_intercept)),
        C=C,
        transform=transform,
        class_weights=by_class,
        columns=seen.columns,
    )


def _checked(fitted: Fitted, tol: float) -> Fitted:
    """Return a fit that is near its optimum, with a warning unless it is at it."""
    gradient = fitted.flatness()
    distance = newton_distance(fitted) if gradient > TIGHT else 0.0
    if distance > FAR:
        raise NotConverged(
            f"The estimator is far from its optimum: a Newton step is {distance:.2g} of its weights "
            f"(relative gradient {gradient:.1e}), and {FAR:g} at most was expected. Classes that "
            "can be separated and a large C look like this. Pass polish=True, lower C, or refit "
            "with tol=1e-10 and a larger max_iter."
        )
    if gradient > TIGHT:
        warnings.warn(
            f"The estimator is not at its optimum: its relative gradient is {gradient:.1e} (a Newton "
            f"step is {distance:.1g} of its weights) and {TIGHT:.0e} was expected (tol={tol:g} is "
            "scikit-learn's stopping rule). Utilities assume an optimum: pass polish=True to move "
            "it there, or refit with tol=1e-10 and a larger max_iter.",
            LooseFit,
            stacklevel=3,
        )
    return replace(fitted, gradient=gradient)


def _columns(estimator: Any) -> NDArray[Any]:
    columns = estimator.coef_.astype(np.float64)
    if estimator.fit_intercept:
        columns = np.column_stack([columns, estimator.intercept_])
    if len(estimator.coef_) == 1:
        columns = np.vstack([-0.5 * columns, 0.5 * columns])
    return np.ascontiguousarray(columns.T)


def _refuse_other_penalties(estimator: Any) -> None:
    penalty = getattr(estimator, "penalty", "l2")
    names = ("l1_ratio", "l1_ratio_")
    ratios: list[Any] = [getattr(estimator, n, None) for n in names]
    mixed = any(
        isinstance(r, Real) and float(r) > 0.0 for ratio in ratios for r in np.ravel(ratio).tolist()
    )
    if penalty in ("l1", "elasticnet") or mixed:
        raise Unsupported(
            "The estimator has an L1 penalty, whose optimum is not smooth; a squared (L2) "
            "penalty was expected. Refit with l1_ratio=0."
        )
    if penalty is None or penalty == "none" or not np.isfinite(_inverse_penalty(estimator)):
        raise Unsupported(
            "The estimator has no penalty, so its curvature may vanish; a squared (L2) penalty "
            "was expected. Refit with a large finite C."
        )
    multi_class = getattr(estimator, "multi_class", "auto")
    one_vs_rest = multi_class == "ovr" or estimator.solver == "liblinear"
    if one_vs_rest and len(getattr(estimator, "classes_", ())) > 2:
        raise Unsupported(
            "The estimator is one-vs-rest: its classes are separate models, not a softmax; a "
            "multinomial one was expected. Refit with solver='lbfgs'."
        )


def _class_weights(estimator: Any, y: Any, sample_weight: Any) -> NDArray[Any]:
    """Return the weight that `class_weight` gives the rows of each class."""
    options = {"classes": estimator.classes_, "y": np.asarray(y)}
    if "sample_weight" in signature(compute_class_weight).parameters:
        # Newer releases balance the weighted counts, older ones the bare counts.
        options["sample_weight"] = sample_weight
    weights: NDArray[Any] = compute_class_weight(estimator.class_weight, **options)
    return weights


def _inverse_penalty(estimator: Any) -> float:
    if isinstance(estimator, LogisticRegressionCV):
        check_is_fitted(estimator)
        return float(np.ravel(estimator.C_)[0])
    return float(estimator.C)

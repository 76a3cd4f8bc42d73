"""A fitted logistic regression of scikit-learn as a goalward model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from inspect import signature
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from goalward.adapters.estimator import LogisticClassifier
from goalward.core.arguments import described
from goalward.core.arrays import is_sparse, to_numpy
from goalward.core.labels import as_classes, clean_weights, encode, one_per_row
from goalward.core.rows import Labelled, clean_rows, column_names
from goalward.errors import LooseFit, NotConverged, ShapeMismatch, Unsupported
from goalward.models.fitted import Fitted
from goalward.models.linear import LinearModel
from goalward.models.logistic import Logistic
from goalward.models.multi_label import MultiLabel
from goalward.models.refitted import last_step
from goalward.models.ridge import Ridge as OurRidge
from goalward.models.trust import newton_distance, refuse_separable

# Fitted estimators of scikit-learn for several labels and for numbers, as goalward models.


def is_other(model: Any) -> bool:
    """Return whether an estimator is of several labels or of numbers, and has our form."""
    return isinstance(model, (OneVsRestClassifier, MultiOutputClassifier, Ridge))


def as_other(
    model: Any, transform: Callable[[Any], Any] | None, X: Any, y: Any, sample_weight: Any
) -> Fitted:
    """Return the model at its optimum, which the estimator must be near."""
    check_is_fitted(model)
    learner, coef = _ridge(model) if isinstance(model, Ridge) else _logistics(model)
    fitted = learner.fit(X if transform is None else transform(X), y, sample_weight=sample_weight)
    found = np.asarray(fitted.params)[: fitted.n_features].T
    if coef.shape != found.shape or np.linalg.norm(coef - found) > FAR * np.linalg.norm(found):
        raise NotConverged(
            f"The weights of {type(model).__name__} are not those of its objective on the rows that came; "
            f"at most {FAR:g} of them away was expected. Pass the rows, labels and sample_weight that it was "
            "fitted to, or refit with a smaller tol."
        )
    return replace(fitted, transform=transform)


def _ridge(model: Any) -> tuple[OurRidge, Any]:
    alphas = np.unique(np.ravel(model.alpha))
    if model.positive or len(alphas) > 1 or not alphas[0] > 0.0:
        raise Unsupported(
            f"{model!r} came; Ridge with one alpha above 0 and without positive=True was expected."
        )
    learner = OurRidge(float(alphas[0]), fit_intercept=model.fit_intercept)
    return learner, np.atleast_2d(model.coef_)


def _logistics(model: Any) -> tuple[MultiLabel, Any]:
    each = model.estimators_
    several = getattr(model, "multilabel_", True)
    plain = all(isinstance(one, LogisticRegression) for one in each)
    if not several or not plain or any(len(one.coef_) != 1 for one in each):
        raise Unsupported(
            f"{type(model).__name__} of {type(model.estimator).__name__} came; one of LogisticRegression "
            "fitted to (n, K) zeros and ones, both of which every label has, was expected. Use "
            "gw.MultiLabel(), which also takes labels without a yes; of classes fit LogisticRegression."
        )
    first = each[0]
    if (
        first.class_weight is not None
        or getattr(first, "l1_ratio", None)
        or first.solver == "liblinear"
    ):
        raise Unsupported(
            f"{first!r} came; a squared penalty, free intercepts and no class_weight were expected. Refit "
            "with LogisticRegression(C=...)."
        )
    learner = MultiLabel(float(first.C), fit_intercept=first.fit_intercept)
    return learner, np.vstack([one.coef_ for one in each])


TIGHT = 1e-6
"""Relative gradient up to which a fit counts as converged for utilities."""

COUNTS_WEIGHTS = "sample_weight" in signature(compute_class_weight).parameters
"""Newer releases of scikit-learn balance the weighted counts, older ones the bare counts."""

FAR = 0.05
"""Newton step, relative to the weights, beyond which a loose fit is refused."""


def from_sklearn(
    estimator: Any,
    X: object,
    y: object,
    sample_weight: object = None,
    *,
    classes: Sequence[Hashable] = (),
    polish: bool = False,
) -> Fitted:
    """Return a fitted `LogisticRegression` as a `Fitted`, with the rows it was fitted to.

    Binary and multinomial, free, absent or (liblinear) penalised intercepts, `class_weight`
    and `sample_weight` are honoured. scikit-learn's binary model has one weight vector w;
    here it is the softmax with columns ∓w/2 and ρ = 2/C, the same probabilities and the
    same objective. A row that is labelled now gets the weight of its class. With
    `class_weight="balanced"` its label changes the weights of all rows, and utilities say what a
    refit so balanced would bring, at the price of a model per class. Weights that stay are a dict.

    Parameters
    ----------
    estimator
        A fitted `LogisticRegression`, `LogisticRegressionCV` (at the C that it chose) or
        `SGDClassifier(loss="log_loss")` of two classes; a `Pipeline` that ends in one, a search such as
        `GridSearchCV` that found one, a `FrozenEstimator` around one. With a pipeline, pool and goal
        rows are raw too: they pass through its earlier steps. The α of SGD is C = 1/(nα), and utilities
        keep C as it is when a row comes; the order of rows under `FirstOrder` is that at a fixed α.
        For several labels a `OneVsRestClassifier` or `MultiOutputClassifier` of `LogisticRegression`,
        for numbers a `Ridge`: these are moved to their optimum in any case.
    X, y, sample_weight
        What it was fitted to.
    classes
        All classes, where some have no label yet: then the model is our `Logistic` of the same
        features and C, which knows them, and penalises intercepts until each has a label.
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
    if is_other(model):
        return as_other(model, transform, X, y, sample_weight)
    _refuse_others(model)
    check_is_fitted(model)
    unseen = not set(classes) <= set(np.ravel(model.classes_).tolist())
    own: Fitted | None = getattr(model, "fitted_", None)
    if own is not None and not unseen:
        return replace(own, transform=transform)
    if own is None:
        _refuse_other_penalties(model)
        own = _as_softmax(model, transform, X, y, sample_weight)
    if unseen:
        C = _inverse_penalty(model, len(own.labelled))
        return _with_unseen(own, C, list(classes), X, y, sample_weight)
    fitted = own.polished() if polish else own
    refuse_separable(fitted)
    return fitted if polish else _checked(fitted, model.tol)


def _refuse_others(model: Any) -> None:
    """Raise unless an estimator is a logistic regression, fitted or not."""
    if hasattr(model, "cv_results_"):
        raise Unsupported(
            f"{type(model).__name__} came without a best estimator; one that was refitted to all rows was "
            "expected. Search with refit=True."
        )
    if isinstance(model, SGDClassifier) and model.loss != "log_loss":
        raise Unsupported(
            f"SGDClassifier(loss={model.loss!r}) came, which is no logistic regression; loss='log_loss' was "
            "expected. Refit with it. gw.suggest takes any classifier, from_classifier one with predict_proba."
        )
    if not is_logistic(model):
        raise Unsupported(
            f"The estimator is {described(model)}; a LogisticRegression, or a Pipeline that ends in "
            "one, was expected. Fit a LogisticRegression on its features, use gw.Logistic(), or take "
            "the classifier as it is with gw.adapters.from_classifier(), which refits it."
        )


def _with_unseen(
    known: Fitted, C: float, classes: list[Any], X: Any, y: Any, sample_weight: Any
) -> Fitted:
    """Return the same regression of more classes, none of whose labels is known."""
    if known.label_counts is not None:
        raise Unsupported(
            "The estimator has class_weight='balanced', and some of the classes have no label to count; "
            "weights for all of them were expected. Refit with class_weight={...}, or leave classes= out."
        )
    columns, transform = known.columns, known.transform
    weights, by_class = sample_weight, None
    if known.class_weights is not None:
        by_name = dict(zip(known.classes.tolist(), to_numpy(known.class_weights), strict=True))
        by_class = np.array([by_name.get(label, 1.0) for label in classes])
        weights = to_numpy(known.labelled.weights)
    intercept = known.model.linear("classes=").intercept
    learner = Logistic(
        C=C,
        fit_intercept=intercept,
        penalize_intercept=True if intercept and known.penalty[-1] > 0 else "until-seen",
        classes=classes,
    )
    fitted = learner.fit(X if transform is None else transform(X), y, sample_weight=weights)
    return replace(fitted, transform=transform, columns=columns, class_weights=by_class)


def is_logistic(model: Any) -> bool:
    """Return whether an estimator is a logistic regression, scikit-learn's or our own."""
    if isinstance(model, SGDClassifier):
        return bool(model.loss == "log_loss")
    return isinstance(model, (LogisticRegression, LogisticRegressionCV, LogisticClassifier))


def trained_on(
    model: Any, transform: Callable[[Any], Any] | None, X: Any, y: Any, sample_weight: Any
) -> tuple[Labelled, NDArray[Any]]:
    """Return the rows that a fitted model saw, and its classes."""
    rows = clean_rows(X if transform is None else transform(X), "X")
    rows = rows.astype(np.float64) if is_sparse(rows) else to_numpy(rows).astype(np.float64)
    classes = as_classes(np.ravel(model.classes_))
    targets = encode(one_per_row(y), classes)
    width = getattr(model, "n_features_in_", rows.shape[1])
    if len(targets) != rows.shape[0] or width != rows.shape[1]:
        raise ShapeMismatch(
            f"X has {rows.shape[0]} rows of {rows.shape[1]} features and y has {len(targets)} "
            f"labels; as many labels as rows, and {width} features, were expected. Pass the "
            "rows and labels that the estimator was fitted to."
        )
    return Labelled(rows, targets, clean_weights(sample_weight, len(targets))), classes


def _as_softmax(
    model: Any, transform: Callable[[Any], Any] | None, X: Any, y: Any, sample_weight: Any
) -> Fitted:
    labelled, classes = trained_on(model, transform, X, y, sample_weight)
    by_class = counts = None
    if model.class_weight is not None:
        by_class = _class_weights(model, labelled.targets.argmax(axis=1), sample_weight)
        if isinstance(model.class_weight, str):
            counted = labelled.weights if _counts_weights(model) else np.ones(len(labelled))
            counts = counted @ labelled.targets
        labelled = replace(labelled, weights=labelled.weights * (labelled.targets @ by_class))
    binary = len(model.coef_) == 1
    C = _inverse_penalty(model, len(labelled)) / (2.0 if binary else 1.0)
    columns = model.coef_.astype(np.float64)
    penalty = np.full(columns.shape[1] + model.fit_intercept, 1.0 / C)
    if model.fit_intercept:
        columns = np.column_stack([columns, model.intercept_])
        # liblinear penalises the weight of a constant feature of size intercept_scaling.
        penalised = getattr(model, "solver", "") == "liblinear"
        penalty[-1] = 1.0 / (C * float(model.intercept_scaling) ** 2) if penalised else 0.0
    if binary:
        columns = np.vstack([-0.5 * columns, 0.5 * columns])
    return Fitted(
        np.ascontiguousarray(columns.T),
        labelled,
        penalty,
        classes,
        model=LinearModel(intercept=bool(model.fit_intercept)),
        C=C,
        transform=transform,
        class_weights=by_class,
        label_counts=counts,
        columns=column_names(X),
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


def _refuse_other_penalties(estimator: Any) -> None:
    penalty, sgd = getattr(estimator, "penalty", "l2"), isinstance(estimator, SGDClassifier)
    names = () if sgd else ("l1_ratio", "l1_ratio_")  # of SGD, for its elastic net alone
    ratios = [r for name in names for r in np.ravel(getattr(estimator, name, 0.0)).tolist()]
    mixed = any(isinstance(ratio, Real) and float(ratio) > 0.0 for ratio in ratios)
    if penalty in ("l1", "elasticnet") or mixed:
        raise Unsupported(
            "The estimator has an L1 penalty, whose optimum is not smooth; a squared (L2) "
            "penalty was expected. Refit with " + ("penalty='l2'." if sgd else "l1_ratio=0.")
        )
    if penalty is None or penalty == "none" or not np.isfinite(_inverse_penalty(estimator, 1)):
        raise Unsupported(
            "The estimator has no penalty, so its curvature may vanish; a squared (L2) penalty "
            f"was expected. Refit with {'a small alpha' if sgd else 'a large finite C'}."
        )
    separate = getattr(estimator, "multi_class", "auto") == "ovr" or sgd
    separate = separate or getattr(estimator, "solver", "") == "liblinear"
    if separate and len(getattr(estimator, "classes_", ())) > 2:
        raise Unsupported(
            "The estimator is one-vs-rest: its classes are separate models, not a softmax; a "
            "multinomial one was expected. "
            + ("Refit with LogisticRegression." if sgd else "Refit with solver='lbfgs'.")
        )


def _counts_weights(estimator: Any) -> bool:
    """Return whether balanced weights are balanced by weighted counts."""
    return COUNTS_WEIGHTS and not isinstance(estimator, SGDClassifier)


def _class_weights(estimator: Any, codes: NDArray[Any], sample_weight: Any) -> NDArray[Any]:
    """Return the weight that `class_weight` gives the rows of each class."""
    options = {"classes": estimator.classes_, "y": estimator.classes_[codes]}
    if _counts_weights(estimator):
        options["sample_weight"] = sample_weight
    weights: NDArray[Any] = compute_class_weight(estimator.class_weight, **options)
    return weights


def _inverse_penalty(estimator: Any, n_rows: int) -> float:
    """Return C of the sum over rows; of stochastic gradients α counts once per row."""
    if isinstance(estimator, SGDClassifier):
        return 1.0 / (estimator.alpha * n_rows) if estimator.alpha > 0 else np.inf
    if isinstance(estimator, LogisticClassifier):
        return float(estimator.fitted_.C or np.inf)
    chosen = estimator.C_ if isinstance(estimator, LogisticRegressionCV) else estimator.C
    return float(np.ravel(chosen)[0])

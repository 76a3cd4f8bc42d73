"""scikit-learn: its fitted estimators as goalward models, and `Logistic` as one of its classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from goalward.core.arguments import described, in_place
from goalward.core.arrays import is_sparse, to_numpy
from goalward.core.labels import as_classes, clean_weights, encode, one_per_row
from goalward.core.rows import Labelled, clean_rows, column_names
from goalward.errors import LooseFit, NotConverged, ShapeMismatch, Unsupported
from goalward.labels.opinion import feature_weights
from goalward.models import Fitted, Refitted
from goalward.models.features import Fixed
from goalward.models.linear import LinearModel
from goalward.models.logistic import Logistic, LogisticParameters
from goalward.models.refitted import last_step

TIGHT = 1e-6  # relative gradient up to which a fit counts as converged for utilities

FAR = 0.05  # Newton step, relative to the weights, beyond which a loose fit is refused

COUNTS_WEIGHTS = "sample_weight" in signature(compute_class_weight).parameters
"""Newer releases of scikit-learn balance the weighted counts, older ones the bare counts."""

Transform = Callable[[Any], Any] | None


class LogisticClassifier(ClassifierMixin, LogisticParameters, BaseEstimator):  # type: ignore[misc]
    """Softmax regression that follows scikit-learn's conventions.

    The parameters are those of `Logistic`; `fitted_` is the model that goals and utilities take.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> round(LogisticClassifier().fit(X, y).score(X, y), 2)
    0.97
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticClassifier:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X)
        self.classes_ = np.unique(y) if self.classes is None else as_classes(self.classes)
        learner = Logistic(**self.get_params(deep=False))
        self.fitted_: Fitted = learner.fit(X, y, sample_weight=sample_weight)
        self.n_iter_ = self.fitted_.iterations
        return self

    @property
    def coef_(self) -> NDArray[Any]:
        check_is_fitted(self)
        params, intercept = feature_weights(self.fitted_)
        return params[: len(params) - intercept].T

    @property
    def intercept_(self) -> NDArray[Any]:
        check_is_fitted(self)
        params, intercept = feature_weights(self.fitted_)
        return params[-1] if intercept else np.zeros(params.shape[1])

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return logits; for two classes their difference, as scikit-learn does."""
        rows = self._rows(X)
        logits = to_numpy(self.fitted_.logits(rows))
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any) -> NDArray[Any]:
        rows = self._rows(X)
        return to_numpy(self.fitted_.predict_proba(rows))

    def predict(self, X: Any) -> NDArray[Any]:
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        dtype = [np.float64, np.float32]
        return validate_data(self, X, accept_sparse="csr", dtype=dtype, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(frozen=True, eq=False)
class Chained(Fixed):
    """A feature map behind the steps of a pipeline."""

    steps: Callable[[Any], Any]
    map: Any

    def transform(self, X: Any) -> Any:
        """Return φ(x) of raw rows."""
        return self.map(self.steps(X))

    __call__ = transform

    says = property(lambda self: getattr(self.map, "says", "the columns of a map"))


def behind(steps: Callable[[Any], Any], fitted: Fitted) -> Fitted:
    """Return a model whose rows go through some steps first."""
    map = steps if fitted.transform is None else Chained(steps, fitted.transform)
    return replace(fitted, transform=map)


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

    A binary model with weights w becomes a softmax with columns ∓w/2 and ρ = 2/C, the same objective.
    New rows get the weight of their class; with `class_weight="balanced"` utilities predict a rebalanced
    refit, at the price of a model per class.

    Parameters
    ----------
    estimator
        A fitted `LogisticRegression`, `LogisticRegressionCV`, binary `SGDClassifier(loss="log_loss")`
        (C = 1/(nα), kept fixed), or a `Pipeline`, search or `FrozenEstimator` of one. Rows pass through
        the steps of a pipeline.
    classes
        All classes, where some have no label yet: the model is then a `Logistic` with the same C.
    polish
        Move the model to its optimum first, which utilities assume: scikit-learn's default tol=1e-4 gives
        a `LooseFit` warning. A fit more than 5 % of its weights away is refused.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = [[0.0], [1.0], [3.0]], ["low", "low", "high"]
    >>> from_sklearn(LogisticRegression(tol=1e-10).fit(X, y), X, y).classes
    array(['high', 'low'], dtype='<U4')
    """
    model, transform = last_step(estimator)
    _check_supported(model)
    unseen = not set(classes) <= set(np.ravel(model.classes_).tolist())
    own: Fitted | None = getattr(model, "fitted_", None)
    if own is not None and transform is not None:
        own = behind(transform, own)
    if own is not None and not unseen:
        return own
    fitted = own or _as_softmax(model, transform, X, y, sample_weight)
    if unseen:
        C = own.C if own is not None else _inverse_penalty(model, len(fitted.labelled))
        return _with_unseen(fitted, C or np.inf, list(classes), X, y, sample_weight)
    fitted = fitted.polished() if polish else fitted
    fitted.refuse_separable()
    return fitted if polish else _checked(fitted, model.tol)


def from_classifier(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, smoothing: float = 0.01
) -> Fitted:
    """Return any fitted scikit-learn classifier with `predict_proba` as a `Fitted`.

    Its utility is `Retrain()`, exact and slow: a refit for every row and label, with the same random
    state, compared with a refit to the same rows. Of a `Pipeline` only the classifier at its end is
    refitted. A share `smoothing` of the uniform distribution is mixed into predictions, which may be 0 or 1.

    Examples
    --------
    >>> import goalward as gw
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = [[0.0], [1.0], [3.0]], ["low", "low", "high"]
    >>> fitted = gw.adapters.from_classifier(DecisionTreeClassifier().fit(X, y), X, y)
    >>> gw.utility.Retrain()(fitted, gw.goals.DevLoss(X, y), [[0.5], [2.0]]).shape
    (2, 2)
    """
    model, transform = last_step(estimator)
    in_place(model, "estimator", "a fitted classifier", "fit")
    if not hasattr(model, "predict_proba"):
        raise Unsupported(
            f"estimator must have predict_proba, got {type(model).__name__}, which has no predict_proba. "
            "Wrap it in CalibratedClassifierCV."
        )
    check_is_fitted(model)
    labelled, classes = trained_on(model, transform, X, y, sample_weight)
    blank = clone(model)
    # A random state that stays the same from clone to clone.
    blank.set_params(
        **{
            name: 0
            for name, value in blank.get_params().items()
            if name.split("__")[-1] == "random_state" and value is None
        }
    )
    refitted = Refitted(model, classes, labelled.X.shape[1], smoothing, partial(_copy, blank))
    return refitted.fitted(labelled, classes, transform, column_names(X))


def _copy(blank: Any, estimator: Any) -> Any:
    """Return a copy of the unfitted estimator: a fitted one has moved its random state."""
    return clone(blank)


def from_estimator(
    estimator: Any,
    X: Any,
    y: Any,
    weights: Any = None,
    *,
    classes: Sequence[Hashable] = (),
    polish: bool = True,
) -> Fitted:
    """Return any fitted classifier as a `Fitted`: polished if it is logistic, else to be refitted."""
    if not is_logistic(last_step(estimator)[0]):
        return from_classifier(estimator, X, y, weights)
    return from_sklearn(estimator, X, y, weights, classes=classes, polish=polish)


def is_logistic(model: Any) -> bool:
    """Return whether an estimator is a logistic regression, scikit-learn's or our own."""
    if isinstance(model, SGDClassifier):
        return bool(model.loss == "log_loss")
    return isinstance(model, (LogisticRegression, LogisticRegressionCV, LogisticClassifier))


def trained_on(
    model: Any, transform: Transform, X: Any, y: Any, sample_weight: Any
) -> tuple[Labelled, NDArray[Any]]:
    """Return the rows that a fitted model saw, and its classes."""
    rows = clean_rows(X if transform is None else transform(X), "X")
    rows = (rows if is_sparse(rows) else to_numpy(rows)).astype(np.float64)
    classes = as_classes(np.ravel(model.classes_))
    targets = encode(one_per_row(y), classes)
    width = getattr(model, "n_features_in_", rows.shape[1])
    if len(targets) != rows.shape[0] or width != rows.shape[1]:
        raise ShapeMismatch(
            f"X must have {width} features and as many rows as y has labels, got {rows.shape[1]} "
            f"features, {rows.shape[0]} rows and {len(targets)} labels. Pass the rows and labels that the "
            "estimator was fitted to."
        )
    return Labelled(rows, targets, clean_weights(sample_weight, len(targets))), classes


def _check_supported(model: Any) -> None:
    sgd = isinstance(model, SGDClassifier)
    if hasattr(model, "cv_results_"):
        raise Unsupported(
            f"{type(model).__name__} has no best estimator. Search with refit=True, so that one is fitted "
            "to all rows."
        )
    if sgd and model.loss != "log_loss":
        raise Unsupported(
            f"SGDClassifier must have loss='log_loss', got loss={model.loss!r}. Refit with it. gw.suggest "
            "takes any classifier, from_classifier one with predict_proba."
        )
    if not is_logistic(model):
        raise Unsupported(
            "estimator must be a LogisticRegression, or a Pipeline that ends in one, got "
            f"{described(model)}. Fit a LogisticRegression on its features, use gw.Logistic() (for several "
            "labels gw.MultiLabel(), for numbers gw.Ridge()), or take the classifier as it is with "
            "gw.adapters.from_classifier(), which refits it."
        )
    check_is_fitted(model)
    if hasattr(model, "fitted_"):
        return
    penalty = getattr(model, "penalty", "l2")
    names = () if sgd else ("l1_ratio", "l1_ratio_")  # of SGD, for its elastic net alone
    ratios = [r for name in names for r in np.ravel(getattr(model, name, 0.0)).tolist()]
    mixed = any(isinstance(ratio, Real) and float(ratio) > 0.0 for ratio in ratios)
    if penalty in ("l1", "elasticnet") or mixed:
        raise Unsupported(
            "The penalty must be squared (L2), got an L1 penalty, whose optimum is not smooth. Refit with "
            + ("penalty='l2'." if sgd else "l1_ratio=0.")
        )
    if penalty is None or penalty == "none" or not np.isfinite(_inverse_penalty(model, 1)):
        raise Unsupported(
            "The penalty must be squared (L2), got no penalty, so that curvature may vanish. Refit with "
            + ("a small alpha." if sgd else "a large finite C.")
        )
    separate = getattr(model, "multi_class", "auto") == "ovr" or sgd
    separate = separate or getattr(model, "solver", "") == "liblinear"
    if separate and len(model.classes_) > 2:
        raise Unsupported(
            "The estimator must be multinomial, got one-vs-rest: its classes are separate models, not a "
            "softmax. Refit with " + ("LogisticRegression." if sgd else "solver='lbfgs'.")
        )


def _with_unseen(
    known: Fitted, C: float, classes: list[Any], X: Any, y: Any, sample_weight: Any
) -> Fitted:
    """Return the same regression with more classes, none of them labelled."""
    if known.label_counts is not None:
        raise Unsupported(
            "class_weight='balanced' needs a label of every class, got classes= with some that have none. "
            "Refit with class_weight={...}, or leave classes= out."
        )
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
    rows = X if known.transform is None else known.transform(X)
    fitted = learner.fit(rows, y, sample_weight=weights)
    fitted = replace(fitted, transform=known.transform, columns=known.columns)
    return replace(fitted, class_weights=by_class)


def _as_softmax(model: Any, transform: Transform, X: Any, y: Any, sample_weight: Any) -> Fitted:
    labelled, classes = trained_on(model, transform, X, y, sample_weight)
    by_class = counts = None
    if model.class_weight is not None:
        weighted = COUNTS_WEIGHTS and not isinstance(model, SGDClassifier)
        options = {"sample_weight": sample_weight} if weighted else {}
        seen = model.classes_[labelled.targets.argmax(axis=1)]
        by_class = compute_class_weight(
            model.class_weight, classes=model.classes_, y=seen, **options
        )
        if isinstance(model.class_weight, str):
            counted = labelled.weights if weighted else np.ones(len(labelled))
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
    distance = fitted.newton_distance() if gradient > TIGHT else 0.0
    if distance > FAR:
        raise NotConverged(
            f"The estimator is far from its optimum: a Newton step must be at most {FAR:g} of its weights, "
            f"got {distance:.2g} (relative gradient {gradient:.1e}). Separable classes and a large C look "
            "like this. Pass polish=True, lower C, or refit with tol=1e-10 and a larger max_iter."
        )
    if gradient > TIGHT:
        warnings.warn(
            f"The estimator is not at its optimum: its relative gradient must be at most {TIGHT:.0e}, got "
            f"{gradient:.1e} (tol={tol:g} is scikit-learn's stopping rule), a Newton step of {distance:.1g} "
            "of its weights. Utilities assume an optimum: pass polish=True to move it there, or refit with "
            "tol=1e-10 and a larger max_iter.",
            LooseFit,
            stacklevel=3,
        )
    return replace(fitted, gradient=gradient)


def _inverse_penalty(estimator: Any, n_rows: int) -> float:
    """Return C of the sum over rows; SGD's α counts once per row."""
    if isinstance(estimator, SGDClassifier):
        return 1.0 / (estimator.alpha * n_rows) if estimator.alpha > 0 else np.inf
    chosen = estimator.C_ if isinstance(estimator, LogisticRegressionCV) else estimator.C
    return float(np.ravel(chosen)[0])

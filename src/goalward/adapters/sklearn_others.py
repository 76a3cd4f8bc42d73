"""Fitted estimators of scikit-learn for several labels and for numbers, as goalward models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.utils.validation import check_is_fitted

from goalward.errors import NotConverged, Unsupported
from goalward.learners import MultiLabel
from goalward.learners import Ridge as OurRidge
from goalward.models import Fitted

__all__ = ["as_other", "is_other"]

FAR = 0.05
"""Distance of an estimator's weights from the optimum, relative to them, beyond which it is refused."""


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

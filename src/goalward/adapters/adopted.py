"""Whatever classifier another library's loop holds, as a goalward model at its optimum."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from goalward.adapters.classifier import from_classifier
from goalward.adapters.pipelines import front_of
from goalward.adapters.sklearn import from_sklearn
from goalward.errors import UnseenClass
from goalward.learners import Logistic, LogisticClassifier
from goalward.models import Fitted

__all__ = ["adopted"]


def adopted(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    classes: Sequence[Hashable] | None = None,
) -> Fitted:
    """Return a fitted classifier as a `Fitted`: polished if it is logistic, else to be refitted.

    Parameters
    ----------
    classes
        All classes. Where some of them have no label yet, a `LogisticRegression` that does
        not know them is replaced by `Logistic` with its C, which does; intercepts are
        penalised like weights until all classes have one.
    """
    steps, last = front_of(estimator)
    if isinstance(last, (LogisticRegression, LogisticRegressionCV, LogisticClassifier)):
        known = set(np.ravel(last.classes_).tolist())
        unseen = [c for c in classes or () if c not in known]
        plain = not steps and type(last) is LogisticRegression and last.class_weight is None
        if unseen and plain:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnseenClass)
                own = Logistic(
                    C=float(last.C),
                    fit_intercept=bool(last.fit_intercept),
                    classes=list(classes or ()),
                )
                return own.fit(X, y, sample_weight=sample_weight)
        return from_sklearn(estimator, X, y, sample_weight, polish=True)
    return from_classifier(estimator, X, y, sample_weight)

"""`Logistic` as a scikit-learn classifier, for pipelines and model selection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from goalward.core.arrays import to_numpy
from goalward.core.labels import as_classes
from goalward.labels.opinion import feature_weights
from goalward.models.fitted import Fitted
from goalward.models.logistic import Logistic, LogisticParameters


class LogisticClassifier(ClassifierMixin, LogisticParameters, BaseEstimator):  # type: ignore[misc]
    """Softmax regression that follows scikit-learn's conventions.

    A thin estimator over `Logistic`: `fit` returns self and keeps the model as
    `fitted_`, which goals and utilities take.

    Parameters
    ----------
    C, fit_intercept, penalize_intercept, classes, tol, max_iter, solver, Cs, cv, opinion
        As in `Logistic`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> round(LogisticClassifier().fit(X, y).score(X, y), 2)
    0.97
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticClassifier:
        """Fit to labelled rows and return self."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X)
        self.classes_ = np.unique(y) if self.classes is None else as_classes(self.classes)
        learner = Logistic(**self.get_params())
        self.fitted_: Fitted = learner.fit(X, y, sample_weight=sample_weight)
        self.n_iter_ = self.fitted_.iterations
        return self

    @property
    def coef_(self) -> NDArray[Any]:
        """(K, d) weights."""
        check_is_fitted(self)
        params, intercept = feature_weights(self.fitted_)
        return (params[:-1] if intercept else params).T

    @property
    def intercept_(self) -> NDArray[Any]:
        """(K,) intercepts."""
        check_is_fitted(self)
        params, intercept = feature_weights(self.fitted_)
        return params[-1] if intercept else np.zeros(params.shape[1])

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return logits; for two classes their difference, as scikit-learn does."""
        rows = self._rows(X)
        logits = to_numpy(self.fitted_.logits(rows))
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return (n, K) probabilities."""
        rows = self._rows(X)
        return to_numpy(self.fitted_.predict_proba(rows))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

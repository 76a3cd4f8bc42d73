"""Any classifier of scikit-learn as a goalward model: exact by refitting, if nothing better."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from goalward.adapters.sklearn import from_sklearn, is_logistic, trained_on
from goalward.core.arguments import in_place
from goalward.core.rows import column_names
from goalward.errors import Unsupported
from goalward.models import Fitted, Refitted
from goalward.models.refitted import last_step


def from_classifier(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, smoothing: float = 0.01
) -> Fitted:
    """Return any fitted scikit-learn classifier with `predict_proba` as a `Fitted`.

    For trees, neighbours, boosting, and what else has no curvature. Utilities are exact and
    dear: `Retrain()` clones and refits the classifier for every row and label, after printing
    how long that will take. `gw.strategies.Subsampled` shows it a part of the pool.

    Predictions are those of the object that came. Refits have its random state (0 where it has
    None) and are compared with a refit to the same rows, so that chance does not count as gain.

    Parameters
    ----------
    estimator
        A fitted classifier, or a `Pipeline` that ends in one: the steps in front of it stay as
        they are, the classifier is refitted.
    X, y, sample_weight
        What it was fitted to.
    smoothing
        Share of the uniform distribution mixed into its predictions, which may be 0 or 1.

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
            f"{type(model).__name__} has no predict_proba; a probabilistic classifier was expected. "
            "Wrap it in CalibratedClassifierCV."
        )
    check_is_fitted(model)
    labelled, classes = trained_on(model, transform, X, y, sample_weight)
    fresh = partial(_copy, _seeded(model))
    refitted = Refitted(model, classes, labelled.X.shape[1], smoothing, fresh)
    return refitted.fitted(labelled, classes, transform, column_names(X))


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


def _copy(blank: Any, estimator: Any) -> Any:
    """Return another copy of the unfitted estimator: a fitted one has moved its random state."""
    return clone(blank)


def _seeded(estimator: Any) -> Any:
    """Return an unfitted copy with a random state that stays the same from clone to clone."""
    copy = clone(estimator)
    loose = {
        name: 0
        for name, value in copy.get_params().items()
        if name.split("__")[-1] == "random_state" and value is None
    }
    return copy.set_params(**loose)

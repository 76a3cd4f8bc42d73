"""A scikit-learn classifier without curvature as a goalward model: exact, by refitting."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from goalward.adapters.pipelines import front_of, through
from goalward.core.arrays import is_sparse, to_numpy
from goalward.core.labels import as_classes, clean_weights, encode
from goalward.core.one_label import one_per_row
from goalward.core.rows import clean_rows, column_names
from goalward.errors import BadParameter, ShapeMismatch, Unsupported
from goalward.models import Fitted, Labelled, Refitted

__all__ = ["from_classifier"]


def from_classifier(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, smoothing: float = 0.01
) -> Fitted:
    """Return any fitted scikit-learn classifier with `predict_proba` as a `Fitted`.

    For trees, neighbours, boosting, and what else has no curvature. Utilities are exact and
    dear: `Retrain()` clones and refits the classifier for every row and label, after printing
    how long that will take. `gw.strategies.Subsampled` shows it a part of the pool.

    Refits are compared with a refit to the same rows, with the same random state (0 where the
    classifier has None), so that chance does not count as gain.

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
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> tree = DecisionTreeClassifier(max_depth=2).fit(X[::10], y[::10])
    >>> fitted = gw.adapters.from_classifier(tree, X[::10], y[::10])
    >>> gw.utility.Retrain()(fitted, gw.goals.DevLoss(X[5::10], y[5::10]), X[1:3]).shape
    (2, 3)
    """
    if not 0.0 < smoothing < 1.0:
        raise BadParameter(
            f"smoothing={smoothing!r}; a share between 0 and 1 was expected. Use 0.01."
        )
    steps, last = front_of(estimator)
    if not hasattr(last, "predict_proba"):
        raise Unsupported(
            f"{type(last).__name__} has no predict_proba; a probabilistic classifier was expected. "
            "Wrap it in CalibratedClassifierCV."
        )
    check_is_fitted(last)
    transform = partial(through, steps) if steps else None
    rows = clean_rows(X if transform is None else transform(X), "X")
    rows = rows.astype(np.float64) if is_sparse(rows) else to_numpy(rows).astype(np.float64)
    classes = as_classes(np.ravel(last.classes_))
    labels = one_per_row(y)
    targets = encode(labels, classes)
    if len(targets) != rows.shape[0]:
        raise ShapeMismatch(
            f"X has {rows.shape[0]} rows and y has {len(targets)} labels; as many of one as of the "
            "other were expected. Pass the rows and labels the classifier was fitted to."
        )
    weights = clean_weights(sample_weight, len(targets))
    blank = Refitted(last, len(classes), rows.shape[1], smoothing, fresh=_fresh)
    model = blank.trained(rows, targets, weights)
    # There are no parameters; goals read from them that numbers are NumPy's, in double precision.
    nothing = np.zeros((1, len(classes)))
    labelled = Labelled(rows, targets, weights)
    return Fitted(
        nothing,
        labelled,
        np.ones(1),
        classes,
        model=model,
        transform=transform,
        columns=column_names(X),
    )


def _fresh(estimator: Any) -> Any:
    """Return an unfitted copy with a random state that stays the same from fit to fit."""
    copy = clone(estimator)
    loose = {
        name: 0
        for name, value in copy.get_params().items()
        if name.split("__")[-1] == "random_state" and value is None
    }
    return copy.set_params(**loose)

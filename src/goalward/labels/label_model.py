"""A second opinion: any classifier, fitted to the labels, says what a row's label is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.base import clone

from goalward.core.arrays import Array, like, plain_rows, stack_rows, to_numpy
from goalward.core.candidates import Candidates
from goalward.errors import Unsupported
from goalward.labels.beliefs import Believe
from goalward.models import Fitted

__all__ = ["LabelModel", "every_class", "labelled_rows"]


@dataclass(frozen=True)
class LabelModel:
    """A separately estimated oracle model (the paper's §3): a classifier's predictions.

    It is fitted when prepared, once for each call of `suggest`, to the labelled rows of
    positive weight and to the dev rows if given. It sees rows as the model does: behind
    the earlier steps of a pipeline. A class it does not know gets probability 0.

    Parameters
    ----------
    estimator
        A scikit-learn classifier with `predict_proba`; cloned, never changed.
    X, y
        More labelled rows to learn from: the dev set, say.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> LabelModel(KNeighborsClassifier())
    LabelModel(estimator=KNeighborsClassifier())
    """

    estimator: Any
    X: Any = field(default=None, repr=False, kw_only=True)
    y: Any = field(default=None, repr=False, kw_only=True)

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        """Return the predictions of the estimator, fitted now."""
        if not hasattr(self.estimator, "predict_proba"):
            raise Unsupported(
                f"LabelModel got {self.estimator!r}, which has no predict_proba; a "
                "probabilistic classifier was expected. Wrap it in CalibratedClassifierCV."
            )
        X, codes = labelled_rows(fitted)
        if self.X is not None:
            rows = fitted.features(self.X, "X of LabelModel")
            more = to_numpy(fitted.targets(self.y, rows.shape[0], "y of LabelModel")).argmax(axis=1)
            X, codes = stack_rows(X, plain_rows(rows)), np.concatenate([codes, more])
        model = clone(self.estimator).fit(X, codes)

        def believe(candidates: Candidates) -> Float[Array, "n k"]:
            full = every_class(model, plain_rows(candidates.X), fitted.n_classes)
            return like(full, candidates.proba, dtype=candidates.proba.dtype)

        return believe


def labelled_rows(fitted: Fitted) -> tuple[Any, NDArray[Any]]:
    """Return the labelled rows of positive weight and their likeliest class."""
    counted = np.flatnonzero(to_numpy(fitted.labelled.weights) > 0)
    codes = to_numpy(fitted.labelled.targets).argmax(axis=1)
    return plain_rows(fitted.labelled.X)[counted], codes[counted]


def every_class(model: Any, X: Any, n_classes: int) -> NDArray[Any]:
    """Return predictions with a column for every class; 0 for one the model does not know."""
    full = np.zeros((X.shape[0], n_classes))
    full[:, model.classes_] = model.predict_proba(X)
    return full

"""A training function of your own as a goalward model: networks and boosting, retrained by it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.adapters.sklearn import trained_on
from goalward.core.arrays import to_numpy
from goalward.core.labels import as_classes, find_classes
from goalward.core.rows import column_names
from goalward.errors import BadParameter, Unsupported
from goalward.models import Fitted, Refitted

CHANCE = 1e-3  # largest difference in probability between equal trainings


def from_training(
    train: Callable[..., Any],
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    start: Any = None,
    classes: Sequence[Hashable] | None = None,
    smoothing: float = 1e-6,
) -> Fitted:
    """Return the result of a training function on labelled rows as a `Fitted`.

    `Retrain()` calls the function for every row and label; strategies without a goal use its predictions.

    Parameters
    ----------
    train
        Called with rows and class numbers 0 to K - 1, and with `sample_weight` and `start` if it has
        parameters of these names. It returns a function from rows to probabilities, or an object with
        `predict_proba`, and must be deterministic: set its seed. `Retrain` refuses one that is not.
    start
        Where every training starts, such as the current network; `train` must copy it.
    classes, smoothing
        All classes, in the order of the columns of `predict_proba`, by default those of `y`, sorted; share
        of the uniform distribution mixed into predictions, which may be 0 or 1.

    Examples
    --------
    >>> import goalward as gw
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> def train(X, y, sample_weight=None):
    ...     boosting = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=3)
    ...     return boosting.fit(X, y, sample_weight)
    >>> fitted = gw.adapters.from_training(train, X[::10], y[::10])
    >>> gw.utility.Retrain()(fitted, gw.goals.DevLoss(X[5::10], y[5::10]), X[1:3]).shape
    (2, 3)
    """
    if not callable(train) or "fit" in dir(train):
        raise Unsupported(
            f"train must be a function train(X, y), got {type(train).__name__}. Use from_classifier for "
            "estimators of scikit-learn."
        )
    if start is not None and "start" not in signature(train).parameters:
        raise BadParameter(
            "start= needs a training function with a parameter of that name, got one without. Write "
            "train(X, y, start), or leave start= out."
        )
    shape = tuple(getattr(X, "shape", ()))[1:]
    flat = partial(_flat, shape) if len(shape) > 1 else None
    known = find_classes(y) if classes is None else as_classes(classes)
    labelled, known = trained_on(SimpleNamespace(classes_=known), flat, X, y, sample_weight)
    K, width = len(known), labelled.X.shape[1]
    blank = Refitted(Training(train, K, shape, start), np.arange(K), width, smoothing)
    trained = blank.trained(labelled.X, labelled.targets, labelled.weights)
    return trained.fitted(labelled, known, flat, column_names(X))


@dataclass(frozen=True, eq=False)
class Training:
    """A training function as an estimator, with the model it returned last."""

    train: Callable[..., Any]
    n_classes: int
    shape: tuple[int, ...]
    start: Any = None
    model: Any = None
    seen: tuple[Any, ...] = ()

    @property
    def classes_(self) -> NDArray[Any]:
        return np.asarray(getattr(self.model, "classes_", range(self.n_classes)), dtype=int)

    def fit(self, X: Any, y: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> Training:
        """Return the model trained from `start`; raise if the same rows give another model."""
        takes = signature(self.train).parameters
        options = {"start": self.start} if "start" in takes else {}
        if "sample_weight" in takes:
            options["sample_weight"] = sample_weight
        elif sample_weight is not None:
            raise Unsupported(
                "The training function takes no sample_weight, which rows with weights or with "
                "distributions over labels need. Write train(X, y, sample_weight=None)."
            )
        model = self.train(self._shaped(X), y, **options)
        after = replace(self, model=model, seen=(X, y, sample_weight))
        proba = after.predict_proba(X)
        if self.seen and all(map(_same, self.seen, after.seen)):
            gap = float(np.abs(proba - self.predict_proba(X)).max())
            if gap > CHANCE:
                raise Unsupported(
                    f"Two trainings on the same rows must give the same probabilities, got a difference of "
                    f"{gap:.2g}: chance counts as gain. Seed the training function in its first line "
                    "(torch.manual_seed(0), random_state=0), and let it copy `start`."
                )
        return after

    def predict_proba(self, X: Any) -> NDArray[Any]:
        predict = getattr(self.model, "predict_proba", self.model)
        if not callable(predict):
            raise Unsupported(
                "The training function must return something with predict_proba, or a function from rows to "
                f"probabilities, got {type(self.model).__name__}."
            )
        proba = to_numpy(predict(self._shaped(X))).astype(np.float64)
        wanted = X.shape[0], len(self.classes_)
        if proba.shape != wanted or not np.allclose(proba.sum(axis=1), 1.0, atol=1e-3):
            raise Unsupported(
                f"Predictions must be {wanted} probabilities with sum 1, got shape {proba.shape} and sums from "
                f"{proba.sum(axis=-1).min():.3g} to {proba.sum(axis=-1).max():.3g}. Return a softmax, not "
                "logits, and name all classes with classes=."
            )
        return proba

    def _shaped(self, X: Any) -> Any:
        return X.reshape(-1, *self.shape) if len(self.shape) > 1 else X


def _flat(shape: tuple[int, ...], X: Any) -> NDArray[Any]:
    return to_numpy(X).reshape(-1, int(np.prod(shape)))


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None or a.shape != b.shape:
        return a is b
    return not (a != b).sum()

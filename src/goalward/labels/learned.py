"""Beliefs that learn: a classifier fitted to the labels, cross-fitted, tempered by likelihood."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from goalward.core.arrays import like, plain_rows, rows_at, softmax, stack_rows, to_numpy
from goalward.core.candidates import Candidates, Labelled
from goalward.errors import BadInput, BadParameter, Unsupported
from goalward.labels.beliefs import Belief, Believe, PerLabel
from goalward.models import Fitted

__all__ = [
    "Calibrated",
    "CrossFitted",
    "Jackknife",
    "LabelModel",
    "at_temperature",
    "every_class",
    "fitted_temperature",
    "jackknifed",
]


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
        return partial(_predicted, clone(self.estimator).fit(X, codes), fitted.n_classes)


def _predicted(model: Any, n_classes: int, candidates: Candidates) -> PerLabel:
    full = every_class(model, plain_rows(candidates.X), n_classes)
    return like(full, candidates.proba, dtype=candidates.proba.dtype)


@dataclass(frozen=True)
class CrossFitted:
    """The mean prediction of a classifier's copies, each fitted without one fold.

    Every labelled row has a prediction by a copy that did not see it, so the belief can be
    tempered by `Calibrated` without further labels.

    Parameters
    ----------
    estimator
        A scikit-learn classifier with `predict_proba`; cloned, never changed.
    folds
        At most the labels of the rarest class, and 2 at least.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> CrossFitted(KNeighborsClassifier(), folds=3)
    CrossFitted(estimator=KNeighborsClassifier(), folds=3, seed=0)
    """

    estimator: Any
    folds: int = field(default=5, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def prepare(self, fitted: Fitted, round: int = 0) -> Copies:
        X, codes = labelled_rows(fitted)
        counts = np.bincount(codes)
        fewest = int(counts[counts > 0].min())
        folds = min(self.folds, fewest)
        if folds < 2:
            raise BadInput(
                f"Cross-fitting met a class of {fewest} label(s) and folds={self.folds}; 2 of each "
                "were expected at least. Label more rows, or use LabelModel()."
            )
        split = StratifiedKFold(folds, shuffle=True, random_state=self.seed)
        copies = [
            (clone(self.estimator).fit(X[rest], codes[rest]), fold)
            for rest, fold in split.split(np.zeros(len(codes)), codes)
        ]
        return Copies(copies, X, codes, fitted.n_classes)

    def held_out(self, fitted: Fitted) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return predictions of labelled rows by copies that did not see them, and their codes."""
        return self.prepare(fitted).held_out()


class Copies(NamedTuple):
    """Fitted copies of a classifier, each with the fold of labelled rows that it did not see."""

    models: list[tuple[Any, NDArray[Any]]]
    X: Any
    codes: NDArray[Any]
    n_classes: int

    def __call__(self, candidates: Candidates) -> PerLabel:
        X = plain_rows(candidates.X)
        mean = np.mean([every_class(m, X, self.n_classes) for m, _ in self.models], axis=0)
        return like(mean, candidates.proba, dtype=candidates.proba.dtype)

    def held_out(self) -> tuple[NDArray[Any], NDArray[Any]]:
        predicted = np.empty((len(self.codes), self.n_classes))
        for model, fold in self.models:
            predicted[fold] = every_class(model, self.X[fold], self.n_classes)
        return predicted, self.codes


@dataclass(frozen=True)
class Jackknife:
    """What the mean of the models predicts that each miss one labelled row.

    Beside the model's own prediction it shows the bias that few labels bring, as far as a jackknife
    sees it (GOIMDA, Yao et al. 2026). A fit for each label, once a round; linear models only.

    Examples
    --------
    >>> Jackknife()
    Jackknife()
    """

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        return partial(_by_model, jackknifed(fitted))


def jackknifed(fitted: Fitted) -> Fitted:
    """Return the mean of the models that each miss one label; the only label of a class is not missed."""
    fitted.model.linear("The jackknife")
    fitted.check_kind("The jackknife")
    known = fitted.labelled
    mass = to_numpy(known.weights)[:, None] * to_numpy(known.targets)
    # Rounding aside: a class without a label would send its free intercept to minus infinity.
    only = (mass > 0.0) & (mass >= (1.0 - 1e-9) * mass.sum(axis=0))
    left = np.flatnonzero(mass.any(axis=1) & ~only.any(axis=1))
    total = 0.0 * fitted.params
    for row in left.tolist():
        others = np.delete(np.arange(len(mass)), row)
        fewer = fitted.expecting(-known.targets[row, :])
        parts = (known.X, known.targets, fewer.labelled.weights)
        rows = Labelled(*(rows_at(part, others) for part in parts))
        total = total + replace(fewer, labelled=rows).polished().params
    return replace(fitted, params=total / len(left)) if len(left) else fitted


def _by_model(fitted: Fitted, candidates: Candidates) -> PerLabel:
    return fitted.proba_of(candidates.X)


@dataclass(frozen=True)
class Calibrated:
    """A belief with the temperature that makes held-out labels most likely.

    Parameters
    ----------
    belief
        Any belief. `CrossFitted` brings held-out predictions of its own; others need X and y.
    X, y
        Held-out rows with labels: rows that neither the model nor the belief learned from.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> Calibrated(CrossFitted(KNeighborsClassifier()))
    Calibrated(belief=CrossFitted(estimator=KNeighborsClassifier(), folds=5, seed=0))
    """

    belief: Belief
    X: Any = field(default=None, repr=False, kw_only=True)
    y: Any = field(default=None, repr=False, kw_only=True)

    def temperature(self, fitted: Fitted, round: int = 0) -> float:
        """Return the temperature that the held-out labels ask for."""
        return self._temperature(fitted, self.belief.prepare(fitted, round))

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        inner = self.belief.prepare(fitted, round)
        return partial(at_temperature, self._temperature(fitted, inner), inner)

    def _temperature(self, fitted: Fitted, inner: Believe) -> float:
        if self.X is not None:
            rows = fitted.features(self.X, "X of Calibrated")
            targets = to_numpy(fitted.targets(self.y, rows.shape[0], "y of Calibrated"))
            ids = np.arange(rows.shape[0])
            block = Candidates(ids, rows, fitted.loss.proba(fitted.logits_of(rows)))
            return fitted_temperature(to_numpy(inner(block)), targets.argmax(axis=1))
        held_out = getattr(inner, "held_out", None)
        if held_out is None:
            raise BadParameter(
                f"Calibrated({self.belief!r}) has no held-out labels; X= and y= were expected. Pass "
                "them, or use CrossFitted(estimator), which brings its own."
            )
        return fitted_temperature(*held_out())


def at_temperature(T: float, inner: Believe, candidates: Candidates) -> PerLabel:
    """Return what is believed of rows, softened: softmax(log p / T)."""
    tempered = _tempered(to_numpy(inner(candidates)), T)
    return like(tempered, candidates.proba, dtype=candidates.proba.dtype)


def fitted_temperature(predicted: NDArray[Any], codes: NDArray[Any]) -> float:
    """Return T that maximises Σ log softmax(log p / T)_y, between 0.05 and 50."""
    rows = np.arange(len(codes))

    def loss(log_T: float) -> float:
        return float(-np.log(_tempered(predicted, float(np.exp(log_T)))[rows, codes]).sum())

    found = minimize_scalar(loss, bounds=(np.log(0.05), np.log(50.0)), method="bounded")
    return float(np.exp(found.x))


def _tempered(p: NDArray[Any], T: float) -> NDArray[Any]:
    # A belief of exactly zero would make one wrong vote infinitely surprising.
    return np.asarray(softmax(np.log(np.maximum(p, 1e-6)) / T))


def labelled_rows(fitted: Fitted) -> tuple[Any, NDArray[Any]]:
    """Return the labelled rows of positive weight and their likeliest class."""
    fitted.check_kind("LabelModel")
    counted = np.flatnonzero(to_numpy(fitted.labelled.weights) > 0)
    codes = to_numpy(fitted.labelled.targets).argmax(axis=1)
    return plain_rows(fitted.labelled.X)[counted], codes[counted]


def every_class(model: Any, X: Any, n_classes: int) -> NDArray[Any]:
    """Return predictions with a column for every class; 0 for one the model does not know."""
    full = np.zeros((X.shape[0], n_classes))
    full[:, model.classes_] = model.predict_proba(X)
    return full

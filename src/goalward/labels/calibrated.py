"""Beliefs that know how far they can be trusted: cross-fitted, and tempered by likelihood."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from goalward.core.arrays import Array, like, plain_rows, to_numpy
from goalward.core.candidates import Candidates
from goalward.errors import BadInput, BadParameter
from goalward.labels.beliefs import Belief, Believe
from goalward.labels.label_model import every_class, labelled_rows
from goalward.models import Fitted

__all__ = ["Calibrated", "CrossFitted", "fitted_temperature"]


@dataclass(frozen=True)
class CrossFitted:
    """The mean prediction of a classifier's copies, each fitted without one fold.

    Every labelled row has a prediction by a copy that did not see it (`held_out`), so the
    belief can be checked, and tempered by `Calibrated`, without further labels.

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

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        """Return the mean prediction of the copies, fitted now."""
        models = [model for model, _ in self._copies(fitted)]

        def believe(candidates: Candidates) -> Float[Array, "n k"]:
            X = plain_rows(candidates.X)
            mean = np.mean([every_class(m, X, fitted.n_classes) for m in models], axis=0)
            return like(mean, candidates.proba, dtype=candidates.proba.dtype)

        return believe

    def held_out(self, fitted: Fitted) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return predictions of labelled rows by copies that did not see them, and their codes."""
        X, codes = labelled_rows(fitted)
        predicted = np.empty((len(codes), fitted.n_classes))
        for model, fold in self._copies(fitted):
            predicted[fold] = every_class(model, X[fold], fitted.n_classes)
        return predicted, codes

    def _copies(self, fitted: Fitted) -> list[tuple[Any, NDArray[Any]]]:
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
        return [
            (clone(self.estimator).fit(X[rest], codes[rest]), fold)
            for rest, fold in split.split(np.zeros(len(codes)), codes)
        ]


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
        if self.X is not None:
            rows = fitted.features(self.X, "X of Calibrated")
            targets = to_numpy(fitted.targets(self.y, rows.shape[0], "y of Calibrated"))
            ids = np.arange(rows.shape[0])
            block = Candidates(ids, rows, fitted.loss.proba(fitted.logits_of(rows)))
            predicted = to_numpy(self.belief.prepare(fitted, round)(block))
            return fitted_temperature(predicted, targets.argmax(axis=1))
        if isinstance(self.belief, CrossFitted):
            return fitted_temperature(*self.belief.held_out(fitted))
        raise BadParameter(
            f"Calibrated({self.belief!r}) has no held-out labels; X= and y= were expected. Pass them, "
            "or use CrossFitted(estimator), which brings its own."
        )

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        """Return the belief at its temperature."""
        T = self.temperature(fitted, round)
        inner = self.belief.prepare(fitted, round)

        def believe(candidates: Candidates) -> Float[Array, "n k"]:
            tempered = _tempered(to_numpy(inner(candidates)), T)
            return like(tempered, candidates.proba, dtype=candidates.proba.dtype)

        return believe


def fitted_temperature(predicted: NDArray[Any], codes: NDArray[Any]) -> float:
    """Return T that maximises Σ log softmax(log p / T)_y, between 0.05 and 50."""
    rows = np.arange(len(codes))

    def loss(log_T: float) -> float:
        return float(-np.log(_tempered(predicted, float(np.exp(log_T)))[rows, codes]).sum())

    found = minimize_scalar(loss, bounds=(np.log(0.05), np.log(50.0)), method="bounded")
    return float(np.exp(found.x))


def _tempered(p: NDArray[Any], T: float) -> NDArray[Any]:
    # A belief of exactly zero would make one wrong vote infinitely surprising.
    log_p = np.log(np.maximum(p, 1e-6)) / T
    exp = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    tempered: NDArray[Any] = exp / exp.sum(axis=1, keepdims=True)
    return tempered

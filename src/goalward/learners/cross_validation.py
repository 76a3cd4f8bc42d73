"""C by cross validation, each fold warm-started along the path of penalties."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from goalward.core.arrays import rows_at, to_numpy
from goalward.core.candidates import Labelled
from goalward.core.labels import clean_weights, encode
from goalward.core.rows import clean_rows
from goalward.errors import BadInput, BadParameter, NotConverged, Separable, UnseenClass

if TYPE_CHECKING:
    from goalward.learners.logistic import Logistic
    from goalward.models.fitted import Fitted

__all__ = ["CrossValidation", "cross_validate"]


@dataclass(frozen=True)
class CrossValidation:
    """The C chosen, and the table behind the choice.

    Parameters
    ----------
    C
        The value of highest mean held-out log-likelihood; the smallest among ties.
    Cs
        All values tried.
    log_likelihood, accuracy
        (folds, values): per held-out row. NaN where a fit was refused as separable.
    """

    C: float
    Cs: NDArray[Any] = field(repr=False)
    log_likelihood: NDArray[Any] = field(repr=False)
    accuracy: NDArray[Any] = field(repr=False)


def cross_validate(
    learner: Logistic, X: object, y: object, *, sample_weight: object = None, seed: int = 0
) -> CrossValidation:
    """Return the best C of `learner.Cs` by held-out log-likelihood in stratified folds.

    `Cs` as a number means that many values from 1e-4 to 1e4, as in scikit-learn. The
    path runs from strong to weak penalties, each fit started from the one before.
    """
    Cs = _grid(learner.Cs)
    rows, classes = clean_rows(X, "X"), learner.classes_of(y)
    targets = encode(y, classes)
    weights = clean_weights(sample_weight, len(targets))
    # Rows without weight teach and test nothing; a fold of them would divide by zero.
    counted = np.flatnonzero(weights > 0)
    labelled = Labelled(rows_at(rows, counted), targets[counted], weights[counted])
    codes = labelled.targets.argmax(axis=1)
    counts = np.bincount(codes)
    smallest = int(counts[counts > 0].min(initial=len(codes)))
    if learner.cv < 2 or smallest < 2:
        raise BadInput(
            f"C='cv' with cv={learner.cv} came with a class of {smallest} label(s); at least 2 folds "
            "and 2 labels of each class were expected. Label more rows, or give C as a number."
        )
    folds = StratifiedKFold(min(learner.cv, smallest), shuffle=True, random_state=seed)
    # Folds may lack a class, which a learner that is told of all of them allows.
    named = learner.having(classes=list(classes))
    scores = np.array([_path(named, Cs, labelled, *fold) for fold in folds.split(codes, codes)])
    log_likelihood, accuracy = scores[:, 0, :], scores[:, 1, :]
    mean = log_likelihood.mean(axis=0)
    if np.all(np.isnan(mean)):
        raise Separable(
            "No value of Cs gave a fit that holds in every fold; a penalty that holds the "
            "weights was expected. Add smaller values to Cs, or rescale the features."
        )
    best = int(np.nanargmax(mean))
    return CrossValidation(float(Cs[best]), Cs, log_likelihood, accuracy)


def _path(
    learner: Logistic,
    Cs: NDArray[Any],
    labelled: Labelled,
    train: NDArray[Any],
    held_out: NDArray[Any],
) -> NDArray[Any]:
    """Return the log-likelihood and the accuracy of one fold for every C, (2, values)."""
    scores = np.full((2, len(Cs)), np.nan)
    X, targets, weights = labelled.X, labelled.targets, labelled.weights
    share = weights[held_out] / weights[held_out].sum()
    start: Fitted | None = None
    for c, C in enumerate(Cs):
        one = learner.having(C=float(C))
        known = rows_at(X, train), targets[train]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnseenClass)
                start = one.fit(*known, sample_weight=weights[train], start=start)
        except (Separable, NotConverged):
            # Weaker penalties only separate further: the rest of the path is out.
            break
        p = to_numpy(start.predict_proba(rows_at(X, held_out)))
        hit = np.sum(targets[held_out] * np.log(np.maximum(p, 1e-300)), axis=1)
        right = p.argmax(axis=1) == targets[held_out].argmax(axis=1)
        scores[:, c] = share @ hit, share @ right
    return scores


def _grid(Cs: int | Sequence[float]) -> NDArray[Any]:
    if isinstance(Cs, Integral):
        grid = np.logspace(-4, 4, max(int(Cs), 0))
    else:
        grid = np.sort(np.atleast_1d(np.asarray(Cs, dtype=float)))
    if len(grid) == 0 or not np.all(np.isfinite(grid)) or grid[0] <= 0:
        raise BadParameter(
            f"Cs={Cs!r}; a number of values, or finite values above 0, was expected. Use "
            "Cs=10 or Cs=[0.01, 0.1, 1, 10]."
        )
    return grid

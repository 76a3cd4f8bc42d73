"""Softmax regression, fitted by Newton's method."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from goalward.core.arrays import like, rows_at, to_numpy
from goalward.core.labels import as_classes, clean_weights, encode, find_classes, is_soft
from goalward.core.rows import Labelled, clean_rows
from goalward.errors import (
    BadInput,
    BadParameter,
    NotConverged,
    OneClass,
    Separable,
    UnseenClass,
)
from goalward.models.fitted import Fitted
from goalward.models.linear_fit import Learner
from goalward.models.loss import Loss, Softmax


@dataclass(eq=False, repr=False)
class LogisticParameters:
    """The parameters of `Logistic` and `LogisticClassifier`; see `Logistic`."""

    C: float | str = 1.0
    _: KW_ONLY
    fit_intercept: bool = True
    penalize_intercept: bool | str = False
    classes: Sequence[Hashable] | None = None
    tol: float = 1e-8
    max_iter: int = 100
    solver: Any = "auto"
    Cs: int | Sequence[float] = 10
    cv: int = 5
    features: Any = "linear"
    opinion: Any = None


class Logistic(LogisticParameters, Learner):
    """Softmax regression with a squared penalty and K columns of weights, also for K = 2.

    Minimises Σ wᵢ ℓ(xᵢ, yᵢ) + (1/2C) ‖Θ‖². For K ≥ 3 this is scikit-learn's
    `LogisticRegression(C=C)`; for K = 2 it is scikit-learn's at 2C.

    Parameters
    ----------
    C
        Inverse penalty strength; "cv" chooses it by cross validation, "loo" by leave-one-out.
    fit_intercept, penalize_intercept
        True penalises the intercept always, "until-seen" and False while a class has no label.
    classes
        All classes, in the order of the columns, with or without labels; those in `y` by default.
    tol
        ‖∇F‖ at the optimum relative to ‖∇F(0)‖.
    solver
        "auto", "cholesky", "dual", "cg" or a solver object.
    Cs, cv
        Values of C and number of stratified folds for C="cv".
    features
        "linear", "splines", "landmarks", a map of `gw.models.features`, anything with `transform`, or a
        list of them, of which the one is used that predicts left-out labels best; "auto" is such a list.
    opinion
        An `Opinion` formed from guesses, used as far as it predicts left-out labels.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic(C=10.0).fit([[0.0], [1.0], [2.0]], ["no", "yes", "yes"])
    >>> fitted.predict_proba([[2.0]]).shape
    (1, 2)
    """

    chosen_by: ClassVar[tuple[str, ...]] = ("cv", "loo")

    def _columns(self, y: Any) -> tuple[NDArray[Any], Loss]:
        if self.penalize_intercept not in (True, False, "until-seen"):
            raise BadParameter(
                "penalize_intercept must be True, False or 'until-seen', got "
                f"{self.penalize_intercept!r}. Leave it out."
            )
        if not self.tol > 0:
            raise BadParameter(f"tol must be above 0, got {self.tol!r}. Use 1e-8.")
        if not self.max_iter >= 1:
            raise BadParameter(f"max_iter must be at least 1, got {self.max_iter!r}. Use 100.")
        return self.classes_of(y), Softmax()

    def _penalty(
        self, known: Labelled, classes: NDArray[Any], X: Any, y: Any
    ) -> tuple[float, bool]:
        """Return C, and whether the intercept is free; warn if a class has no label, raise if all but one."""
        targets, weights = to_numpy(known.targets), to_numpy(known.weights)
        seen = weights @ targets > 0
        if seen.sum() <= 1 and (self.classes is None or not self.penalize_intercept):
            names = ", ".join(map(repr, classes[seen].tolist())) or "no class"
            raise OneClass(
                f"Labels (with weight above 0) must be of two or more classes, got {names} only. Label "
                "a row of another class first, or name all classes with classes=[...] and set "
                "penalize_intercept='until-seen'."
            )
        if not seen.all() and self.fit_intercept and not self.penalize_intercept:
            missing = ", ".join(map(repr, classes[~seen][:5].tolist()))
            warnings.warn(
                f"No label yet for {missing}: intercepts are penalised like weights until every "
                "class has a label, and utilities retrain the label that frees them row by row, "
                "which is slow. Label a row of each class, or set penalize_intercept=True to "
                "penalise intercepts always.",
                UnseenClass,
                stacklevel=3,
            )
        chosen = self.C == "cv"
        C = cross_validate(self, X, y, sample_weight=known.weights).C if chosen else float(self.C)
        return C, bool(seen.all()) and self.penalize_intercept in (False, "until-seen")

    def _finished(self, fitted: Fitted) -> Fitted:
        """Return the model with the penalty that it has once every class has a label."""
        frees = self.fit_intercept and self.penalize_intercept in (False, "until-seen")
        if not frees or to_numpy(fitted.seen).all():
            return fitted
        free = to_numpy(fitted.penalty) * np.r_[np.ones(fitted.n_features), 0.0]
        return replace(fitted, free_penalty=like(free, fitted.penalty))

    def classes_of(self, y: object) -> NDArray[Any]:
        """Return all classes, in the order of the columns."""
        if self.classes is not None:
            classes = as_classes(self.classes)
        elif is_soft(y):
            classes = np.arange(y.shape[1])  # type: ignore[attr-defined]
        else:
            classes = find_classes(y)
        if len(classes) == 1:
            raise OneClass(
                f"y must hold two or more classes, got one class, {classes.tolist()[0]!r}. "
                "Label a row of another class first, or name all classes with classes=[...]."
            )
        return classes


@dataclass(frozen=True)
class CrossValidation:
    """The chosen C and the scores of all values.

    Parameters
    ----------
    C
        The value with the highest mean held-out log-likelihood; the smallest among ties.
    log_likelihood, accuracy
        (folds, values), mean per held-out row; NaN if a fit was refused as separable.
    """

    C: float
    Cs: NDArray[Any] = field(repr=False)
    log_likelihood: NDArray[Any] = field(repr=False)
    accuracy: NDArray[Any] = field(repr=False)


def cross_validate(
    learner: Logistic, X: object, y: object, *, sample_weight: object = None, seed: int = 0
) -> CrossValidation:
    """Return the best C of `learner.Cs` by held-out log-likelihood in stratified folds.

    An integer `Cs` means that many values from 1e-4 to 1e4, as in scikit-learn.
    """
    Cs = _grid(learner.Cs)
    rows, classes = clean_rows(X, "X"), learner.classes_of(y)
    targets = encode(y, classes)
    weights = clean_weights(sample_weight, len(targets))
    # A fold of rows without weight would divide by zero.
    counted = np.flatnonzero(weights > 0)
    labelled = Labelled(rows_at(rows, counted), targets[counted], weights[counted])
    codes = labelled.targets.argmax(axis=1)
    counts = np.bincount(codes)
    smallest = int(counts[counts > 0].min(initial=len(codes)))
    if learner.cv < 2 or smallest < 2:
        raise BadInput(
            f"C='cv' needs at least 2 folds and 2 labels of each class, got cv={learner.cv} and a "
            f"class of {smallest} label(s). Label more rows, or give C as a number."
        )
    folds = StratifiedKFold(min(learner.cv, smallest), shuffle=True, random_state=seed)
    # Folds may lack a class.
    named = learner.having(classes=list(classes))
    scores = np.array([_path(named, Cs, labelled, *fold) for fold in folds.split(codes, codes)])
    log_likelihood, accuracy = scores[:, 0, :], scores[:, 1, :]
    mean = log_likelihood.mean(axis=0)
    if np.all(np.isnan(mean)):
        raise Separable(
            "The classes are separable in some fold under every value of Cs. Add smaller values to "
            "Cs, or rescale the features."
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
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnseenClass)
                start = learner.having(C=float(C)).fit(
                    rows_at(X, train), targets[train], sample_weight=weights[train], start=start
                )
        except (Separable, NotConverged):
            # Weaker penalties separate as well.
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
            f"Cs must be a number of values, or finite values above 0, got {Cs!r}. Use Cs=10 or "
            "Cs=[0.01, 0.1, 1, 10]."
        )
    return grid

"""Softmax regression, fitted by Newton's method."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import like, to_numpy
from goalward.core.labels import as_classes, find_classes, is_soft
from goalward.core.rows import Labelled
from goalward.errors import BadParameter, OneClass, UnseenClass
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
    features: Any = "linear"
    opinion: Any = None


class Logistic(LogisticParameters, Learner):
    """Softmax regression with a squared penalty and K columns of weights, also for K = 2.

    Minimises Σ wᵢ ℓ(xᵢ, yᵢ) + (1/2C) ‖Θ‖². For K ≥ 3 this is scikit-learn's
    `LogisticRegression(C=C)`; for K = 2 it is scikit-learn's at 2C.

    Parameters
    ----------
    C
        Inverse penalty strength; "loo" chooses it by leave-one-out.
    fit_intercept, penalize_intercept
        True penalises the intercept always, "until-seen" and False while a class has no label.
    classes
        All classes, in the order of the columns, with or without labels; those in `y` by default.
    tol
        ‖∇F‖ at the optimum relative to ‖∇F(0)‖.
    solver
        "auto", "cholesky", "dual", "cg" or a solver object.
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

    def _penalty(self, known: Labelled, classes: NDArray[Any]) -> tuple[float, bool]:
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
        free = bool(seen.all()) and self.penalize_intercept in (False, "until-seen")
        return float(self.C), free

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

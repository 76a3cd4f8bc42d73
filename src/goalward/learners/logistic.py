"""Softmax regression, fitted by Newton's method on the kernels of this library."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import like
from goalward.core.labels import as_classes, clean_weights, encode, find_classes, is_soft
from goalward.core.rows import clean_rows, column_names, held
from goalward.errors import BadParameter, OneClass, ShapeMismatch, UnseenClass
from goalward.learners.cross_validation import cross_validate
from goalward.learners.left_out import best_left_out
from goalward.learners.linear_fit import Learner, labelled_rows, started
from goalward.models import LinearModel
from goalward.models.fitted import Fitted
from goalward.models.trust import refuse_separable
from goalward.solvers import named

__all__ = ["Logistic", "LogisticParameters"]


class LogisticParameters:
    """What `Logistic` and `LogisticClassifier` are told; each parameter is explained at `Logistic`."""

    def __init__(
        self,
        C: float | str = 1.0,
        *,
        fit_intercept: bool = True,
        penalize_intercept: bool | str = False,
        classes: Sequence[Hashable] | None = None,
        tol: float = 1e-8,
        max_iter: int = 100,
        solver: Any = "auto",
        Cs: int | Sequence[float] = 10,
        cv: int = 5,
        opinion: Any = None,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.classes = classes
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.Cs = Cs
        self.cv = cv
        self.opinion = opinion


class Logistic(LogisticParameters, Learner):
    """Softmax regression with a squared penalty: K columns of weights, also for K = 2.

    Minimises Σ wᵢ ℓ(xᵢ, yᵢ) + (1/2C) ‖Θ‖². For K ≥ 3 this is scikit-learn's
    `LogisticRegression(C=C)`; for K = 2 scikit-learn has one weight vector, which is this
    model at C/2 (`gw.adapters.from_sklearn` sees to it).

    Parameters
    ----------
    C
        Inverse strength of the penalty, or "cv" to choose it by cross validation (the
        paper's way) from `Cs` by `cv` stratified folds, or "loo" to choose it from 0.01 to 10 by
        approximate leave-one-out, a few fits in all; 1 while there are fewer than 10 labels.
    fit_intercept, penalize_intercept
        Whether logits have a constant, and whether it is penalised like a weight: True, or
        "until-seen" while a class has no label, which False does too, with a warning.
    classes
        All classes, in the order of the columns; a class without a label yet is allowed, and with
        penalised intercepts no label at all: `fit(X[:0], [])`. Default: those that occur, sorted.
    tol
        ‖∇F‖ at the optimum relative to ‖∇F(0)‖.
    solver
        "auto", "cholesky", "dual", "cg" or a solver object, for the Newton steps.
    opinion
        An `Opinion`: what guesses say of rows, used as far as it helps to predict labels left out.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic(C=10.0).fit([[0.0], [1.0], [2.0]], ["no", "yes", "yes"])
    >>> fitted.predict_proba([[2.0]]).shape
    (1, 2)
    """

    def fit(
        self, X: object, y: object, *, sample_weight: object = None, start: Fitted | None = None
    ) -> Fitted:
        """Return the model fitted to labelled rows.

        Parameters
        ----------
        X
            (n, d) array of any library, sparse matrix, frame or list of rows.
        y
            n labels, any hashables; or (n, K) distributions over `classes`.
        sample_weight
            A weight per row.
        start
            A model of the same shape to start from: the one before, say.
        """
        self._check_parameters()
        X = held(X)
        if self.opinion is not None:
            found: Fitted = self.opinion.fitted(self, X, y, sample_weight)
            return found
        # Of named classes with penalised intercepts there is a model before the first label.
        least = int(self.classes is None or not self.penalize_intercept)
        rows = clean_rows(X, "X", least=least)
        classes = self.classes_of(y)
        targets = encode(y, classes, least=least)
        if targets.shape[0] != rows.shape[0]:
            raise ShapeMismatch(
                f"X has {rows.shape[0]} rows and y has {targets.shape[0]} labels; as many of "
                "one as of the other were expected. Pass a label for every row."
            )
        if self.C == "loo":
            given = {"sample_weight": sample_weight, "start": start}
            return best_left_out(self, X, y, targets.shape[0], **given)
        weights = clean_weights(sample_weight, targets.shape[0])
        chosen = self.C == "cv"
        seen = self._seen(targets, weights, classes)
        C = cross_validate(self, X, y, sample_weight=sample_weight).C if chosen else float(self.C)
        labelled = labelled_rows(rows, targets, weights)
        penalty = np.full(rows.shape[1] + self.fit_intercept, 1.0 / C)
        free = penalty.copy()
        frees = self.fit_intercept and self.penalize_intercept in (False, "until-seen")
        free[-1] *= 0.0 if frees else 1.0
        freed = None if seen or np.all(free == penalty) else like(free, labelled.targets)
        params = like(np.zeros((len(penalty), len(classes))), labelled.targets)
        if start is not None:
            params = started(start, params, classes)
        first = Fitted(
            params,
            labelled,
            like(free if seen else penalty, labelled.targets),
            classes,
            model=LinearModel(intercept=self.fit_intercept),
            C=C,
            freed=freed,
            columns=column_names(X),
        )
        if len(labelled) == 0:
            return first
        fitted = first.polished(tol=self.tol, max_iter=self.max_iter, solver=named(self.solver))
        refuse_separable(fitted)
        return fitted

    def _check_parameters(self) -> None:
        C: Any = self.C
        number = isinstance(C, Real) and not isinstance(C, bool)
        # Both C and 1/C must be numbers.
        if C not in ("cv", "loo") and not (number and 1e-150 < float(C) < 1e150):
            raise BadParameter(
                f"C={self.C!r}; a finite number above 0 (1e-150 to 1e150), 'cv' or 'loo' was expected. Use "
                "C=1.0, or a large C for a weak penalty."
            )
        if self.penalize_intercept not in (True, False, "until-seen"):
            raise BadParameter(
                f"penalize_intercept={self.penalize_intercept!r}; True, False or 'until-seen' was "
                "expected. Leave it out."
            )
        if not self.tol > 0:
            raise BadParameter(f"tol={self.tol!r}; a number above 0 was expected. Use 1e-8.")
        if not self.max_iter >= 1:
            raise BadParameter(
                f"max_iter={self.max_iter!r}; at least 1 was expected. Leave it at 100."
            )

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
                f"All labels are of one class, {classes.tolist()[0]!r}; two or more classes were "
                "expected. Label a row of another class first, or name all classes with "
                "classes=[...]."
            )
        return classes

    def _seen(self, targets: NDArray[Any], weights: NDArray[Any], classes: NDArray[Any]) -> bool:
        """Return whether every class has a label; warn if not, raise if only one may have."""
        seen = weights @ targets > 0
        if seen.sum() <= 1 and (self.classes is None or not self.penalize_intercept):
            names = ", ".join(map(repr, classes[seen].tolist())) or "no class"
            raise OneClass(
                f"The labels (with weight above 0) are of {names} only; labels of at least two "
                "classes were expected. Label a row of another class first, or name all classes with "
                "classes=[...] and set penalize_intercept='until-seen'."
            )
        if not seen.all() and self.fit_intercept and not self.penalize_intercept:
            missing = ", ".join(map(repr, classes[~seen][:5].tolist()))
            warnings.warn(
                f"No label yet for {missing}: a free intercept would run to minus infinity, so "
                "intercepts are penalised like weights until every class has a label. The label "
                "that frees them is retrained row by row in utilities, which takes its time. Label "
                "a row of each class, or set penalize_intercept=True to have it so from the first "
                "fit to the last.",
                UnseenClass,
                stacklevel=3,
            )
        return bool(seen.all())

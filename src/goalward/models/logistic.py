"""Softmax regression, fitted by Newton's method on the kernels of this library."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from goalward.core.arrays import like, rows_at, to_numpy
from goalward.core.labels import as_classes, clean_weights, encode, find_classes, is_soft
from goalward.core.rows import Labelled, clean_rows, column_names, held
from goalward.errors import (
    BadInput,
    BadParameter,
    NotConverged,
    OneClass,
    Separable,
    ShapeMismatch,
    UnseenClass,
)
from goalward.models.fitted import Fitted
from goalward.models.left_out import best_left_out
from goalward.models.linear import LinearModel
from goalward.models.linear_fit import Learner, labelled_rows, started
from goalward.models.trust import refuse_separable
from goalward.solvers.auto import named

if TYPE_CHECKING:
    from goalward.models.fitted import Fitted


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
        free_penalty = None if seen or np.all(free == penalty) else like(free, labelled.targets)
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
            free_penalty=free_penalty,
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


# C by cross validation, each fold warm-started along the path of penalties.


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

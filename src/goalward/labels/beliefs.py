"""Beliefs about a row's label: P(y) in the paper's operator ℓ_y."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from goalward.core.arrays import Array, like, plain_rows, rows_at, softmax, stack_rows, to_numpy
from goalward.core.rows import Candidates, Labelled
from goalward.errors import BadInput, BadParameter, UnknownLabel, Unsupported
from goalward.models import Fitted, Loss

PerLabel = Float[Array, "n k"]
Believe = Callable[[Candidates], PerLabel]  # a distribution per row; pickled for workers
Schedule = Callable[[int], float]  # of the round, or of the number of labelled rows


@runtime_checkable
class Belief(Protocol):
    """A source of label distributions; `prepare` once a round, apply to blocks of rows."""

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe: ...


@dataclass(frozen=True)
class Uniform:
    """Every label equally likely: the paper's Average. For numbers, the predictive distribution.

    Examples
    --------
    >>> Uniform()
    Uniform()
    """

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        return partial(_uniform, fitted.loss)


def _uniform(loss: Loss, candidates: Candidates) -> PerLabel:
    return loss.even(candidates.proba)


@dataclass(frozen=True)
class Predicted:
    """The model's own prediction, softened: softmax(log p / T).

    T = 1 is the paper's ExPred, the same for every row with a first-order utility (Remark 1). T → ∞ is
    `Uniform()`, T → 0 the most likely label. T may be a schedule: `Geometric(8, 1, rounds=20)`.

    Examples
    --------
    >>> Predicted(temperature=2.0)
    Predicted(temperature=2.0)
    """

    temperature: float | Schedule = 1.0

    def __post_init__(self) -> None:
        if not callable(self.temperature):
            self._at(0)

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        return partial(_softened, fitted.loss, self._at(round))

    def _at(self, round: int) -> float:
        T: Any = self.temperature(round) if callable(self.temperature) else self.temperature
        if isinstance(T, bool) or not isinstance(T, Real) or not float(T) >= 0.0:
            raise BadParameter(
                f"temperature must be 0 or more, or a schedule over rounds, got {T!r}. Use 1 for the "
                "prediction itself, 2.0, or Geometric(8.0, 2.0, rounds=20)."
            )
        return float(T)


def _softened(loss: Loss, T: float, candidates: Candidates) -> PerLabel:
    return loss.softened(candidates.proba, T)


@dataclass(frozen=True, eq=False)
class Truth:
    """The true labels, for studies of the method only: the paper's Oracle.

    One for every row of the pool, in order, or a mapping from row id (`rows=`) to label.

    Examples
    --------
    >>> Truth(["a", "b"])
    Truth()
    """

    labels: Any = field(repr=False)

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        labels = self.labels
        if not isinstance(labels, Mapping):
            # In order, whatever index a pandas Series carries.
            labels = list(labels.tolist() if hasattr(labels, "tolist") else labels)
        return partial(_true, labels, fitted)


def _true(labels: Any, fitted: Fitted, candidates: Candidates) -> PerLabel:
    known = []
    for row in candidates.ids.tolist():
        try:
            known.append(labels[row])
        except (KeyError, IndexError, TypeError) as error:
            raise UnknownLabel(
                f"Truth needs a label for every row of the pool, got no label for row {row!r}. Pass labels "
                "for the whole pool, and rows= their ids where the pool shrinks (candidates= their indices "
                "in scikit-activeml)."
            ) from error
    targets = fitted.targets(known, len(known), "labels of Truth")
    return fitted.loss.standing_for(targets, candidates.proba)


@dataclass(frozen=True)
class Linear:
    """A schedule from `start` to `stop` in equal steps over `rounds`, then constant.

    Examples
    --------
    >>> [Linear(4.0, 1.0, rounds=3)(r) for r in range(5)]
    [4.0, 3.0, 2.0, 1.0, 1.0]
    """

    start: float
    stop: float
    rounds: int

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise BadParameter(
                f"rounds must be at least 1, got rounds={self.rounds}. Give a longer schedule."
            )

    def __call__(self, round: int) -> float:
        return self.start + (self.stop - self.start) * min(max(round / self.rounds, 0.0), 1.0)


class Geometric(Linear):
    """A schedule from `start` to `stop` by equal factors over `rounds`, then constant.

    Examples
    --------
    >>> [Geometric(8.0, 1.0, rounds=3)(r) for r in range(5)]
    [8.0, 4.0, 2.0, 1.0, 1.0]
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.start > 0.0 and self.stop > 0.0):
            raise BadParameter(f"Geometric needs ends above 0, got {self!r}. Use Linear().")

    def __call__(self, round: int) -> float:
        if round >= self.rounds:
            return self.stop
        return float(self.start * (self.stop / self.start) ** max(round / self.rounds, 0.0))


def labelled_rows(fitted: Fitted) -> tuple[Any, NDArray[Any]]:
    """Return the labelled rows of positive weight and their likeliest class."""
    fitted.check_kind("LabelModel")
    counted = np.flatnonzero(to_numpy(fitted.labelled.weights) > 0)
    codes = to_numpy(fitted.labelled.targets).argmax(axis=1)
    return plain_rows(fitted.labelled.X)[counted], codes[counted]


def _held_out_rows(fitted: Fitted, X: Any, y: Any, name: str) -> tuple[Any, NDArray[Any]]:
    rows = fitted.features(X, f"X of {name}")
    targets = to_numpy(fitted.targets(y, rows.shape[0], f"y of {name}"))
    return rows, targets.argmax(axis=1)


@dataclass(frozen=True)
class LabelModel:
    """The predictions of a separate classifier (the paper's §3), fitted once for each `suggest`.

    The classifier needs `predict_proba`, and is cloned; X and y are more labelled rows to fit it to, such
    as the dev set. Classes unknown to it get probability 0.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> LabelModel(KNeighborsClassifier())
    LabelModel(estimator=KNeighborsClassifier())
    """

    estimator: Any
    X: Any = field(default=None, repr=False, kw_only=True)
    y: Any = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not hasattr(self.estimator, "predict_proba"):
            raise Unsupported(
                f"LabelModel needs a probabilistic classifier, got {self.estimator!r}, which has no "
                "predict_proba. Wrap it in CalibratedClassifierCV."
            )

    def prepare(self, fitted: Fitted, round: int = 0) -> Classifiers:
        X, codes = labelled_rows(fitted)
        if self.X is not None:
            rows, more = _held_out_rows(fitted, self.X, self.y, "LabelModel")
            X, codes = stack_rows(X, plain_rows(rows)), np.concatenate([codes, more])
        return Classifiers([clone(self.estimator).fit(X, codes)], fitted.n_classes)


@dataclass(frozen=True, eq=False)
class Classifiers:
    """The mean prediction of fitted classifiers."""

    models: list[Any]
    n_classes: int
    held_out: tuple[NDArray[Any], NDArray[Any]] | None = None  # predictions, classes

    def __call__(self, candidates: Candidates) -> PerLabel:
        X = plain_rows(candidates.X)
        mean = np.mean([_every_class(model, X, self.n_classes) for model in self.models], axis=0)
        return like(mean, candidates.proba, dtype=candidates.proba.dtype)


def _every_class(model: Any, X: Any, n_classes: int) -> NDArray[Any]:
    """Return predictions with a column for every class; 0 for one the model does not know."""
    full = np.zeros((X.shape[0], n_classes))
    full[:, model.classes_] = model.predict_proba(X)
    return full


@dataclass(frozen=True)
class CrossFitted:
    """The mean prediction of clones of a classifier, each fitted without one fold.

    The held-out predictions let `Calibrated` temper the belief without further labels. There are at most
    as many folds as labels of the rarest class.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> CrossFitted(KNeighborsClassifier(), folds=3)
    CrossFitted(estimator=KNeighborsClassifier(), folds=3, seed=0)
    """

    estimator: Any
    folds: int = field(default=5, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def prepare(self, fitted: Fitted, round: int = 0) -> Classifiers:
        X, codes = labelled_rows(fitted)
        counts = np.bincount(codes)
        fewest = int(counts[counts > 0].min())
        folds = min(self.folds, fewest)
        if folds < 2:
            raise BadInput(
                f"CrossFitted needs 2 labels of each class and folds of 2 or more, got a class of {fewest} "
                f"label(s) and folds={self.folds}. Label more rows, or use LabelModel()."
            )
        split = StratifiedKFold(folds, shuffle=True, random_state=self.seed)
        models, predicted = [], np.empty((len(codes), fitted.n_classes))
        for rest, fold in split.split(np.zeros(len(codes)), codes):
            models.append(clone(self.estimator).fit(X[rest], codes[rest]))
            predicted[fold] = _every_class(models[-1], X[fold], fitted.n_classes)
        return Classifiers(models, fitted.n_classes, (predicted, codes))


@dataclass(frozen=True)
class Calibrated:
    """A belief with the temperature that makes held-out labels most likely.

    `CrossFitted` has held-out predictions; other beliefs need X and y, labelled rows that neither the
    model nor the belief was fitted to.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> Calibrated(CrossFitted(KNeighborsClassifier()))
    Calibrated(belief=CrossFitted(estimator=KNeighborsClassifier(), folds=5, seed=0))
    """

    belief: Belief
    X: Any = field(default=None, repr=False, kw_only=True)
    y: Any = field(default=None, repr=False, kw_only=True)

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        inner = self.belief.prepare(fitted, round)
        held_out = getattr(inner, "held_out", None)
        if self.X is not None:
            rows, codes = _held_out_rows(fitted, self.X, self.y, "Calibrated")
            block = Candidates(np.arange(rows.shape[0]), rows, fitted.proba_of(rows))
            held_out = to_numpy(inner(block)), codes
        if held_out is None:
            raise BadParameter(
                f"Calibrated needs X= and y=, since {self.belief!r} has no held-out labels. Pass them, or "
                "use CrossFitted(estimator)."
            )
        return partial(at_temperature, fitted_temperature(*held_out), inner)


def at_temperature(T: float, inner: Believe, candidates: Candidates) -> PerLabel:
    """Return a belief at a temperature: softmax(log p / T)."""
    tempered = _tempered(to_numpy(inner(candidates)), T)
    return like(tempered, candidates.proba, dtype=candidates.proba.dtype)


def fitted_temperature(predicted: NDArray[Any], codes: NDArray[Any]) -> float:
    """Return T that maximises Σ log softmax(log p / T)_y, between 0.05 and 50."""
    rows = np.arange(len(codes))

    def loss(log_T: float) -> float:
        return float(-np.log(_tempered(predicted, float(np.exp(log_T)))[rows, codes]).sum())

    best = minimize_scalar(loss, bounds=(np.log(0.05), np.log(50.0)), method="bounded")
    return float(np.exp(best.x))


def _tempered(p: NDArray[Any], T: float) -> NDArray[Any]:
    # A belief of exactly zero would make one wrong vote infinitely surprising.
    return np.asarray(softmax(np.log(np.maximum(p, 1e-6)) / T))


@dataclass(frozen=True)
class Jackknife:
    """The prediction of the mean of the models that each leave out one labelled row.

    Compared with the model's prediction it shows the bias of few labels (GOIMDA, Yao et al. 2026). It
    needs one fit per label, once a round; linear models only.

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

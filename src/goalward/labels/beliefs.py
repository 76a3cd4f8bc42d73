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
from sklearn.base import clone

from goalward.core.arrays import Array, like, plain_rows, rows_at, stack_rows, to_numpy
from goalward.core.rows import Candidates, Labelled
from goalward.errors import BadParameter, UnknownLabel, Unsupported
from goalward.models import Fitted

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
        return partial(_of_proba, fitted.loss.even)


def _of_proba(belief: Callable[[PerLabel], PerLabel], candidates: Candidates) -> PerLabel:
    return belief(candidates.proba)


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
        return partial(_of_proba, partial(fitted.loss.softened, T=self._at(round)))

    def _at(self, round: int) -> float:
        T: Any = self.temperature(round) if callable(self.temperature) else self.temperature
        if isinstance(T, bool) or not isinstance(T, Real) or not float(T) >= 0.0:
            raise BadParameter(
                f"temperature must be 0 or more, or a schedule over rounds, got {T!r}. Use 1 for the "
                "prediction itself, 2.0, or Geometric(8.0, 2.0, rounds=20)."
            )
        return float(T)


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
class Geometric:
    """A schedule from `start` to `stop` by equal factors over `rounds`, then constant.

    Examples
    --------
    >>> [Geometric(8.0, 1.0, rounds=3)(r) for r in range(5)]
    [8.0, 4.0, 2.0, 1.0, 1.0]
    """

    start: float
    stop: float
    rounds: int

    def __post_init__(self) -> None:
        if not (self.rounds >= 1 and self.start > 0.0 and self.stop > 0.0):
            raise BadParameter(
                f"Geometric needs 1 round or more and ends above 0, got {self!r}. Any function of the "
                "round is a schedule too."
            )

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

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        X, codes = labelled_rows(fitted)
        if self.X is not None:
            rows = fitted.features(self.X, "X of LabelModel")
            targets = to_numpy(fitted.targets(self.y, rows.shape[0], "y of LabelModel"))
            X = stack_rows(X, plain_rows(rows))
            codes = np.concatenate([codes, targets.argmax(axis=1)])
        return partial(_classified, clone(self.estimator).fit(X, codes))


def _classified(model: Any, candidates: Candidates) -> PerLabel:
    """Return predictions with a column for every class; 0 for one the model does not know."""
    full = np.zeros(tuple(candidates.proba.shape))
    full[:, model.classes_] = model.predict_proba(plain_rows(candidates.X))
    return like(full, candidates.proba, dtype=candidates.proba.dtype)


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

"""What label a row is believed to have: P(y) in the paper's operator ℓ_y."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float

from goalward.core.arrays import Array
from goalward.core.candidates import Candidates
from goalward.errors import BadParameter, UnknownLabel
from goalward.models import Fitted, Loss

__all__ = ["Belief", "Believe", "Constant", "Geometric", "Linear", "Predicted", "Truth", "Uniform"]

PerLabel = Float[Array, "n k"]
Believe = Callable[[Candidates], PerLabel]
"""Candidates -> one distribution per row."""
Schedule = Callable[[int], float]
"""Round, counted from 0 (labelled rows, where nobody counts rounds) -> number."""


@runtime_checkable
class Belief(Protocol):
    """A source of label distributions; `prepare` once a round, apply to blocks of rows."""

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe: ...


@dataclass(frozen=True)
class Uniform:
    """Every label equally likely: the paper's Average. Of numbers, which cannot be, their own law.

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

    T = 1 is the paper's ExPred, which with a first-order utility is the same for every row
    (Remark 1). T → ∞ is `Uniform()`, T → 0 the most likely label.

    Parameters
    ----------
    temperature
        A number, or a schedule over rounds such as `Geometric(8, 1, rounds=20)`.

    Examples
    --------
    >>> Predicted(temperature=2.0)
    Predicted(temperature=2.0)
    """

    temperature: float | Schedule = 1.0

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        T: Any = self.temperature(round) if callable(self.temperature) else self.temperature
        if isinstance(T, bool) or not isinstance(T, Real):
            raise BadParameter(
                f"{T!r} came where a number or a schedule over rounds was expected. Use 2.0, or "
                "Geometric(8.0, 2.0, rounds=20)."
            )
        if not float(T) >= 0.0:
            raise BadParameter(
                f"The temperature of round {round} is {T}; 0 or more was expected. Use 1 for "
                "the prediction itself."
            )
        return partial(_softened, fitted.loss, float(T))


def _softened(loss: Loss, T: float, candidates: Candidates) -> PerLabel:
    return loss.softened(candidates.proba, T)


@dataclass(frozen=True, eq=False)
class Truth:
    """The true labels, for studies of the method only: the paper's Oracle.

    Parameters
    ----------
    labels
        A label for every row of the pool, in order; or a mapping from row id to label. With
        `rows=` given to the operator, rows are looked up by their ids, so that the labels
        stay aligned in a shrinking pool.

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
    listed = [_label(labels, row) for row in candidates.rows.tolist()]
    targets = fitted.targets(listed, len(listed), "labels of Truth")
    return fitted.loss.standing_for(targets, candidates.proba)


def _label(labels: Any, row: Any) -> Any:
    try:
        label = labels[row]
    except (KeyError, IndexError, TypeError) as error:
        raise UnknownLabel(
            f"Truth has no label for row {row!r}; one for every row of the pool was expected. Pass "
            "labels for the whole pool, and rows= their ids where the pool shrinks (candidates= their "
            "indices in scikit-activeml)."
        ) from error
    return label


@dataclass(frozen=True)
class Constant:
    """A schedule: the same number in every round.

    Examples
    --------
    >>> Constant(2.0)(7)
    2.0
    """

    value: float

    def __call__(self, round: int) -> float:
        return self.value


@dataclass(frozen=True)
class _Ramp:
    """A way from `start` to `stop` over `rounds`."""

    start: float
    stop: float
    rounds: int

    def share(self, round: int) -> float:
        """Return how much of the way a round has behind it, from 0 to 1."""
        if self.rounds < 1:
            raise BadParameter(
                f"rounds={self.rounds}; at least 1 was expected. Give a longer schedule."
            )
        return min(max(round, 0), self.rounds) / self.rounds


class Linear(_Ramp):
    """A schedule from `start` to `stop` in equal steps over `rounds`, then constant.

    Examples
    --------
    >>> [Linear(4.0, 1.0, rounds=3)(r) for r in range(5)]
    [4.0, 3.0, 2.0, 1.0, 1.0]
    """

    def __call__(self, round: int) -> float:
        return self.start + (self.stop - self.start) * self.share(round)


class Geometric(_Ramp):
    """A schedule from `start` to `stop` by equal factors over `rounds`, then constant.

    Examples
    --------
    >>> [Geometric(8.0, 1.0, rounds=3)(r) for r in range(5)]
    [8.0, 4.0, 2.0, 1.0, 1.0]
    """

    def __call__(self, round: int) -> float:
        if not (self.start > 0.0 and self.stop > 0.0):
            raise BadParameter(
                f"{self!r} runs through 0 or below; positive ends were expected. Use Linear()."
            )
        if round >= self.rounds:
            return self.stop
        return float(self.start * (self.stop / self.start) ** self.share(round))

"""Base classes of goals: functions of the parameters through the logits of some rows, so ∇τ = Jᵀu."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, astype
from goalward.core.cores import threads_for
from goalward.errors import BadInput, BadParameter, Unsupported
from goalward.goals.kernels import Kernel, Logits
from goalward.models import Fitted, as_fitted

ALL_KINDS = ("class", "labels", "numbers")


class Term(NamedTuple):
    """A weight, rows, and a kernel over their logits."""

    weight: float
    X: Rows
    kernel: Kernel


class Goal(ABC):
    """A quantity to raise. Goals add up and take weights: `DevLoss(X, y) + 0.1 * Entropy(U)`."""

    utility: ClassVar[str] = "first-order"  # the word of the utility, where none is chosen

    kinds: ClassVar[tuple[str, ...]] = ("class",)  # which models: "class", "labels", "numbers"

    @abstractmethod
    def terms(self, fitted: Fitted) -> list[Term]:
        """Return the goal bound to a model."""

    def check_loss(self, fitted: Fitted) -> None:
        for _, part in self.parts:
            fitted.check_kind(type(part).__name__, part.kinds)

    @property
    def parts(self) -> tuple[tuple[float, Goal], ...]:
        """(weight, goal) pairs that add up to this goal, none of them a sum itself."""
        return ((1.0, self),)

    @property
    def labels_held(self) -> int:
        """Number of labels in the goal that the model was not trained on; they are charged too."""
        return 0

    def for_round(self, fitted: Fitted, round: int = 0) -> Goal:
        """Return the goal of one round: itself, unless it learns from labelled rows or follows the round."""
        return self

    def value(self, fitted: Fitted) -> float:
        """Return τ at the model's parameters."""
        fitted = as_fitted(fitted)
        terms: list[Term] = fitted.bound(self)
        return sum(w * float(kernel.value(logits_of(fitted, X))) for w, X, kernel in terms)

    def gradient(self, fitted: Fitted) -> Float[Array, "p k"]:
        """Return ∇τ = Σ weight Jᵀu at the model's parameters."""
        total: Any = 0.0
        for weight, X, kernel in fitted.bound(self):
            with threads_for(X.shape[0] * math.prod(fitted.params.shape)):
                cotangent = kernel.cotangent(logits_of(fitted, X))
                # Rows in single precision are multiplied as they are; few numbers come back.
                pulled = fitted.model.at(fitted.params).vjp(X, astype(cotangent, X.dtype))
            total = total + weight * astype(pulled, fitted.params.dtype)
        # The loss does not see some directions, and neither does u but for rounding.
        return total - fitted.loss.unseen(total) if fitted.model.is_linear else total

    def __add__(self, other: object) -> Goal:
        if not isinstance(other, Goal):
            return NotImplemented
        return Weighted((*self.parts, *other.parts))

    def __mul__(self, factor: object) -> Goal:
        if not isinstance(factor, Real):
            return NotImplemented
        return Weighted(tuple((float(factor) * w, goal) for w, goal in self.parts))

    __rmul__ = __mul__

    def __neg__(self) -> Goal:
        return -1.0 * self

    def __sub__(self, other: Goal) -> Goal:
        return self + -1.0 * other


@dataclass(frozen=True, eq=False)
class Bound(Goal):
    """A goal that is bound to a model already."""

    kinds: ClassVar[tuple[str, ...]] = ALL_KINDS
    bound: list[Term]

    def terms(self, fitted: Fitted) -> list[Term]:
        return self.bound


@dataclass(frozen=True)
class Weighted(Goal):
    """A weighted sum of goals, as `2 * a + b` builds it; `summands` are (weight, goal) pairs."""

    summands: tuple[tuple[float, Goal], ...]

    def __post_init__(self) -> None:
        if not self.summands:
            raise BadParameter("Weighted needs at least 1 goal, got none. Add one.")

    @property
    def parts(self) -> tuple[tuple[float, Goal], ...]:
        return tuple((w * share, part) for w, goal in self.summands for share, part in goal.parts)

    @property
    def utility(self) -> str:  # type: ignore[override]
        words = {goal.utility: goal for _, goal in self.parts}
        if len(words) > 1:
            names = " and ".join(type(goal).__name__ for goal in words.values())
            raise Unsupported(
                f"{names} cannot be added up. Add goals of the logits alone, or DecisionRisk, Epig and "
                "FisherRatio alone."
            )
        return next(iter(words))

    @property
    def labels_held(self) -> int:
        return sum(goal.labels_held for _, goal in self.parts)

    def value(self, fitted: Fitted) -> float:
        return sum(weight * goal.value(fitted) for weight, goal in self.parts)

    def for_round(self, fitted: Fitted, round: int = 0) -> Goal:
        parts = tuple((weight, goal.for_round(fitted, round)) for weight, goal in self.parts)
        same = all(new is old for (_, new), (_, old) in zip(parts, self.parts, strict=True))
        return self if same else Weighted(parts)

    def terms(self, fitted: Fitted) -> list[Term]:
        return [
            Term(weight * term.weight, term.X, term.kernel)
            for weight, goal in self.parts
            for term in goal.terms(fitted)
        ]


class LearnedGoal(Goal):
    """A goal that takes something from the model, in `for_round`, before it is bound."""

    @abstractmethod
    def for_round(self, fitted: Fitted, round: int = 0) -> Goal: ...

    def terms(self, fitted: Fitted) -> list[Term]:
        return self.for_round(fitted).terms(fitted)


@dataclass(frozen=True, eq=False)
class RowGoal(Goal):
    """A goal that a kernel measures on rows `X`; those of a file are read into memory."""

    X: Any = field(repr=False)

    @abstractmethod
    def bind(self, fitted: Fitted, X: Rows) -> Kernel:
        """Return the kernel over the logits of X, the rows as the model sees them."""

    def terms(self, fitted: Fitted) -> list[Term]:
        X = fitted.features(self.X, f"X of {type(self).__name__}")
        return [Term(1.0, X, self.bind(fitted, X))]


def logits_of(fitted: Fitted, X: Rows) -> Logits:
    """Return the logits of a goal's rows in the precision of the model."""
    return astype(fitted.logits_of(X), fitted.params.dtype)


def check_some_weight(total: float, name: str) -> None:
    """Raise unless the weights of a goal's rows add up to more than 0."""
    if not total > 0.0:
        raise BadInput(
            f"weights of {name} must have at least 1 above 0, got all 0. Leave weights= out to count "
            "every row once."
        )

"""What every goal is: a number that depends on the parameters through some rows' logits.

A goal is a recipe with data. `terms(fitted)` binds it to a model: rows as the model sees
them, and a kernel in logit space with the value τ, the cotangent u = ∂τ/∂g and the
curvature W = ∂²τ/∂g², applied. From these ∇τ = Jᵀu follows for any model.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, astype, namespace
from goalward.core.threads import threads_for
from goalward.errors import BadParameter, Unsupported
from goalward.models import Fitted, as_fitted

__all__ = [
    "Bound",
    "Coupled",
    "Coupling",
    "Goal",
    "Kernel",
    "Logits",
    "ManyLogits",
    "ManyValues",
    "Term",
    "Unsettled",
    "Weighted",
    "file_parts",
    "logits_of",
]

Logits = Float[Array, "m k"]
ManyLogits = Float[Array, "*b m k"]
"""Leading axes are other models."""
ManyValues = Float[Array, "*b"]

PIECE = 2**26
"""Bytes of rows on disk that a goal reads at a time."""


@runtime_checkable
class Kernel(Protocol):
    """A goal in logit space. Leading axes are other models; the last two are (m, K)."""

    def value(self, logits: ManyLogits) -> ManyValues:
        """Return τ, larger is better."""
        ...

    def cotangent(self, logits: Logits) -> Logits:
        """Return u = ∂τ/∂logits; its rows sum to zero."""
        ...

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        """Return W s = d u when the logits move by `motion`."""
        ...


class Coupling(NamedTuple):
    """Σ_ij C_ij z_i z_jᵀ: what couples the rows; rows of each z sum to zero."""

    vectors: Float[Array, "r m k"]
    middle: Float[Array, "r r"]


class Coupled(ABC):
    """A kernel whose rows depend on one another, through a few directions that they share.

    A goal of sums over rows, τ = Φ(Σ_r a(g_r)), bends in two ways: each row by itself, and all rows
    together along the gradients z_i of the sums, W = W_rows + Σ_ij C_ij z_i z_jᵀ with C = ∂²Φ. The
    second part has low rank. It is kept apart, so that a utility which needs W row by row has both.
    """

    @abstractmethod
    def own(self, logits: Logits, motion: Logits) -> Logits:
        """Return W_rows s: a row's part depends on that row's motion alone."""

    @abstractmethod
    def coupling(self, logits: Logits) -> Coupling:
        """Return what couples the rows."""

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        """Return W_rows s + Σ_ij C_ij z_i ⟨z_j, s⟩."""
        xp = namespace(logits)
        vectors, middle = self.coupling(logits)
        flat = xp.reshape(vectors, (vectors.shape[0], -1))
        shares = middle @ (flat @ xp.reshape(motion, (-1,)))
        return self.own(logits, motion) + xp.reshape(shares @ flat, logits.shape)


class Term(NamedTuple):
    """A weight, rows, and what is measured on their logits."""

    weight: float
    X: Rows
    kernel: Kernel


class Goal(ABC):
    """A quantity to raise. Goals add up and take weights: `DevLoss(X, y) + 0.1 * Entropy(U)`."""

    utility: ClassVar[str] = "first-order"
    """The recipe word of the utility that predicts how the goal changes, where none is chosen."""

    kinds: ClassVar[tuple[str, ...]] = ("class",)
    """What a model may learn for the goal to have a meaning: "class", "labels", "numbers"."""

    @abstractmethod
    def terms(self, fitted: Fitted) -> list[Term]:
        """Return the goal bound to a model."""

    def check_loss(self, fitted: Fitted) -> None:
        """Raise where the model's loss is not one that the goal is written for."""
        for _, part in self.parts:
            fitted.check_kind(type(part).__name__, part.kinds)

    @property
    def parts(self) -> tuple[tuple[float, Goal], ...]:
        """(weight, goal) pairs that add up to this goal, none of them a sum itself."""
        return ((1.0, self),)

    @property
    def labels_held(self) -> int:
        """How many labels the goal brings that the model was not trained on; they cost too."""
        return 0

    def settled(self, fitted: Fitted, round: int = 0) -> Goal:
        """Return the goal as it stands for one round: what it takes from the model is settled.

        Most goals are the same in every round. One that learns from the labelled rows (soft
        labels, leave-one-out) or changes its rows with the round returns a goal that no longer
        does, so that a whole batch is chosen by the same goal.
        """
        return self

    def pieces(self) -> list[tuple[float, Goal]]:
        """Return weights and goals that add up to this one, over rows that are read together.

        A goal whose rows stay on disk is the sum of goals over parts of the file, so that its
        value and gradient need one part in memory, or one on each worker.
        """
        return [(1.0, self)]

    def value(self, fitted: Fitted) -> float:
        """Return τ at the model's parameters."""
        fitted = as_fitted(fitted)
        self.check_loss(fitted)
        return sum(
            share * weight * float(kernel.value(logits_of(fitted, X)))
            for share, piece in self.pieces()
            for weight, X, kernel in piece.terms(fitted)
        )

    def gradient(self, fitted: Fitted) -> Float[Array, "p k"]:
        """Return ∇τ = Σ weight Jᵀu at the model's parameters."""
        self.check_loss(fitted)
        total: Any = 0.0
        for share, piece in self.pieces():
            for weight, X, kernel in piece.terms(fitted):
                with threads_for(X.shape[0] * math.prod(fitted.params.shape)):
                    cotangent = kernel.cotangent(logits_of(fitted, X))
                    # Rows in single precision are multiplied as they are; few numbers come back.
                    pulled = fitted.model.at(fitted.params).vjp(X, astype(cotangent, X.dtype))
                total = total + share * weight * astype(pulled, fitted.params.dtype)
        # Rows of u have no part that the loss does not see: rounding must not say otherwise.
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


@dataclass(frozen=True)
class Bound(Goal):
    """A goal whose rows went through the model's pipeline already."""

    kinds: ClassVar[tuple[str, ...]] = ("class", "labels", "numbers")
    bound: list[Term]

    def terms(self, fitted: Fitted) -> list[Term]:
        """Return what is bound already."""
        return self.bound


@dataclass(frozen=True)
class Weighted(Goal):
    """A weighted sum of goals, as `2 * a + b` builds it.

    Parameters
    ----------
    summands
        (weight, goal) pairs.
    """

    summands: tuple[tuple[float, Goal], ...]

    def __post_init__(self) -> None:
        if not self.summands:
            raise BadParameter("Weighted() has no goals; at least 1 was expected. Add one.")

    @property
    def parts(self) -> tuple[tuple[float, Goal], ...]:
        return tuple((w * share, part) for w, goal in self.summands for share, part in goal.parts)

    @property
    def utility(self) -> str:  # type: ignore[override]
        words = {goal.utility: goal for _, goal in self.parts}
        if len(words) > 1:
            names = " and ".join(type(goal).__name__ for goal in words.values())
            raise Unsupported(
                f"A sum of {names} came; goals of the logits alone, or DecisionRisk, Epig and "
                "FisherRatio alone, were expected. The two kinds cannot be added up."
            )
        return next(iter(words))

    @property
    def labels_held(self) -> int:
        return sum(goal.labels_held for _, goal in self.parts)

    def value(self, fitted: Fitted) -> float:
        return sum(weight * goal.value(fitted) for weight, goal in self.parts)

    def settled(self, fitted: Fitted, round: int = 0) -> Goal:
        parts = tuple((weight, goal.settled(fitted, round)) for weight, goal in self.parts)
        same = all(new is old for (_, new), (_, old) in zip(parts, self.parts, strict=True))
        return self if same else Weighted(parts)

    def pieces(self) -> list[tuple[float, Goal]]:
        return [
            (weight * share, piece) for weight, goal in self.parts for share, piece in goal.pieces()
        ]

    def terms(self, fitted: Fitted) -> list[Term]:
        return [
            Term(weight * term.weight, term.X, term.kernel)
            for weight, goal in self.parts
            for term in goal.terms(fitted)
        ]


class Unsettled(Goal):
    """A goal that takes something from the model: it is settled first, and then bound."""

    @abstractmethod
    def settled(self, fitted: Fitted, round: int = 0) -> Goal: ...

    def terms(self, fitted: Fitted) -> list[Term]:
        return self.settled(fitted).terms(fitted)

    def value(self, fitted: Fitted) -> float:
        return self.settled(fitted).value(fitted)

    def gradient(self, fitted: Fitted) -> Float[Array, "p k"]:
        return self.settled(fitted).gradient(fitted)


def logits_of(fitted: Fitted, X: Rows) -> Logits:
    """Return the logits of a goal's rows in the precision of the model."""
    return astype(fitted.logits_of(X), fitted.params.dtype)


def file_parts(X: Any) -> list[tuple[slice, Any]]:
    """Return rows that stay on disk in parts of about 64 MB, not read; others as one part."""
    total = len(X) if hasattr(X, "part") else 0
    if not total:
        return [(slice(None), X)]
    size = max(1, PIECE // (X.shape[1] * X.dtype.itemsize))
    starts = range(0, total, size)
    return [(slice(s, min(s + size, total)), X.part(s, s + size)) for s in starts]

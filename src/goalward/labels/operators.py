"""The paper's operators ℓ_y: from a utility per label to one number per row."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from goalward.core.arguments import in_place
from goalward.core.arrays import Array, astype, eps, namespace
from goalward.core.rows import Candidates
from goalward.errors import ShapeMismatch, VacuousUtility
from goalward.labels.beliefs import Belief, Believe, PerLabel, Predicted, Uniform
from goalward.models.fitted import Fitted, as_fitted

PerRow = Float[Array, " n"]


def warn_if_vacuous(lowest: float, highest: float, scale: float, eps: float, name: str) -> None:
    """Warn if all rows score the same to rounding (`eps`) while utilities of a label spread by `scale`."""
    gap = highest - lowest
    if scale > 0.0 and gap <= 1e4 * eps * scale:
        warn_vacuous(name, f" (they spread over {gap:.1e}, utilities of a label over {scale:.1e})")


def warn_vacuous(name: str, measured: str = "") -> None:
    """Warn that all rows score the same under an operator: it was measured, or follows (Remark 1)."""
    reason = "the operator does not tell them apart"
    if "Predicted" in name:
        reason = (
            "to first order the expected utility under the model's own prediction is constant "
            "(Remark 1 of the paper)"
        )
    warnings.warn(
        f"Every candidate scores the same under {name}{measured}, so the choice is arbitrary: {reason}. "
        "Use Spread(Predicted()), Expected(Uniform()), a LabelModel, or a utility such as Retrain().",
        VacuousUtility,
        stacklevel=4,
    )


class Resolver(NamedTuple):
    """An operator bound to a model and a round. Several questions of a row are resolved one by one."""

    operator: Operator
    believe: Believe
    questions: int = 1

    def __call__(self, utility: PerLabel, candidates: Candidates) -> PerRow:
        belief = self.believe(candidates)
        if self.questions == 1:
            return self.operator.resolve(utility, belief)
        xp, n = namespace(utility), utility.shape[0]
        apart = (n * self.questions, utility.shape[1] // self.questions)
        each = self.operator.resolve(xp.reshape(utility, apart), xp.reshape(belief, apart))
        return self.operator.together(xp.reshape(each, (n, self.questions)))


class Operator(ABC):
    """A way to resolve the unknown label: one number from utilities and a belief."""

    belief: Belief = Predicted()

    statistic: str | None = None
    """Of utilities, if a scorer may compute it without a table: "mean", "min", "max", "spread"."""

    def __post_init__(self) -> None:
        in_place(self.belief, "belief", "gw.labels.Predicted()", "prepare", lacks="resolve")

    @abstractmethod
    def resolve(self, utility: PerLabel, belief: PerLabel) -> PerRow:
        """Return one number per row, from its utilities and the belief about its label."""

    def together(self, each: Float[Array, "n q"]) -> PerRow:
        """Return the number of a row from those of its questions, their sum."""
        return namespace(each).sum(each, axis=1)

    def prepare(self, fitted: Fitted, round: int = 0) -> Resolver:
        """Return the operator bound to a model and a round, for blocks of candidates."""
        questions = 1 if fitted.loss.kind == "class" else fitted.n_classes
        return Resolver(self, self.belief.prepare(fitted, round), questions)

    def __call__(
        self,
        utility: PerLabel,
        fitted: Fitted,
        X_pool: Any,
        rows: Any = None,
        *,
        round: int | None = None,
    ) -> PerRow:
        """Return one number per row from (N, L) utilities; `rows` are ids for `Truth`, `round` for schedules."""
        fitted = as_fitted(fitted)
        X = fitted.features(X_pool, "X_pool")
        if tuple(utility.shape) != (X.shape[0], fitted.n_answers):
            raise ShapeMismatch(
                f"utility must have shape ({X.shape[0]}, {fitted.n_answers}), rows by answers, got "
                f"{tuple(utility.shape)}. Score the same pool that is passed here."
            )
        ids = np.arange(X.shape[0]) if rows is None else rows
        if not isinstance(ids, np.ndarray):
            ids = np.empty(len(rows), dtype=object)
            ids[:] = list(rows)
        if len(ids) != X.shape[0]:
            raise ShapeMismatch(
                f"rows must have {X.shape[0]} ids, one for each row of X_pool, got {len(ids)}."
            )
        number = len(fitted.labelled) if round is None else round
        resolved = self.prepare(fitted, number)(utility, Candidates(ids, X, fitted.proba_of(X)))
        xp = namespace(resolved)
        if len(ids) > 1:
            scale = float(xp.max(xp.max(utility, axis=0) - xp.min(utility, axis=0)))
            low, high = float(xp.min(resolved)), float(xp.max(resolved))
            warn_if_vacuous(low, high, scale, eps(utility), repr(self))
        return resolved


def mean(utility: PerLabel, belief: PerLabel) -> PerRow:
    """Return Σ_y P(y) u_y."""
    return namespace(utility).sum(astype(belief, utility.dtype) * utility, axis=1)


def deviation(utility: PerLabel, belief: PerLabel) -> PerRow:
    """Return the standard deviation of the utility under a belief."""
    centred = utility - mean(utility, belief)[:, None]
    return namespace(utility).sqrt(mean(centred * centred, belief))


@dataclass(frozen=True)
class Expected(Operator):
    """The mean utility under a belief: the paper's Average, ExPred and Oracle.

    Examples
    --------
    >>> Expected()
    Expected(belief=Uniform())
    """

    belief: Belief = field(default_factory=Uniform)

    @cached_property
    def statistic(self) -> str | None:  # type: ignore[override]
        return "mean" if self.belief == Uniform() else None

    def resolve(self, utility: PerLabel, belief: PerLabel) -> PerRow:
        return mean(utility, belief)


@dataclass(frozen=True)
class WorstCase(Operator):
    """The smallest utility over labels: the paper's Minimum.

    Examples
    --------
    >>> WorstCase()
    WorstCase()
    """

    statistic = "min"

    def resolve(self, utility: PerLabel, belief: PerLabel) -> PerRow:
        return namespace(utility).min(utility, axis=1)


@dataclass(frozen=True)
class BestCase(Operator):
    """The largest utility over labels: the paper's Maximum.

    Examples
    --------
    >>> BestCase()
    BestCase()
    """

    statistic = "max"

    def resolve(self, utility: PerLabel, belief: PerLabel) -> PerRow:
        return namespace(utility).max(utility, axis=1)


@dataclass(frozen=True)
class Spread(Operator):
    """The standard deviation of the utility over the believed label.

    To first order under the model's own prediction it is √(sᵀΛs), the Fisher information of the row in
    the goal's direction. It does not add up over a batch.

    Examples
    --------
    >>> Spread()
    Spread(belief=Predicted(temperature=1.0))
    """

    belief: Belief = field(default_factory=Predicted)

    @cached_property
    def statistic(self) -> str | None:  # type: ignore[override]
        return "spread" if self.belief == Predicted() else None

    def resolve(self, utility: PerLabel, belief: PerLabel) -> PerRow:
        return deviation(utility, belief)

    def together(self, each: Float[Array, "n q"]) -> PerRow:
        xp = namespace(each)
        return xp.sqrt(xp.sum(each * each, axis=1))


@dataclass(frozen=True)
class UpperConfidence(Operator):
    """Mean plus κ standard deviations of the utility under a belief.

    Examples
    --------
    >>> UpperConfidence(kappa=2.0)
    UpperConfidence(belief=Predicted(temperature=1.0), kappa=2.0)
    """

    belief: Belief = field(default_factory=Predicted)
    kappa: float = 1.0

    def resolve(self, utility: PerLabel, belief: PerLabel) -> PerRow:
        return mean(utility, belief) + self.kappa * deviation(utility, belief)


@dataclass(frozen=True)
class ExpectedImprovement(Operator):
    """The mean excess over a threshold: Σ_y P(y) max(u_y - threshold, 0).

    Examples
    --------
    >>> ExpectedImprovement()
    ExpectedImprovement(belief=Predicted(temperature=1.0), threshold=0.0)
    """

    belief: Belief = field(default_factory=Predicted)
    threshold: float = 0.0

    def resolve(self, utility: PerLabel, belief: PerLabel) -> PerRow:
        xp = namespace(utility)
        gain = utility - self.threshold
        return mean(xp.maximum(gain, xp.zeros_like(gain)), belief)


@dataclass(frozen=True)
class ProbabilityOfImprovement(Operator):
    """The believed probability that the utility exceeds a threshold.

    Examples
    --------
    >>> ProbabilityOfImprovement()
    ProbabilityOfImprovement(belief=Predicted(temperature=1.0), threshold=0.0)
    """

    belief: Belief = field(default_factory=Predicted)
    threshold: float = 0.0

    def resolve(self, utility: PerLabel, belief: PerLabel) -> PerRow:
        better = namespace(utility).astype(utility > self.threshold, utility.dtype)
        return mean(better, belief)

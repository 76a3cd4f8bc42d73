"""Acquisition functions of Bayesian optimisation as operators, exact sums over labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float

from goalward.core.arrays import Array, namespace
from goalward.labels.beliefs import Belief, Predicted
from goalward.labels.operators import Operator, Resolve, deviation, mean

__all__ = ["ExpectedImprovement", "ProbabilityOfImprovement", "UpperConfidence"]


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

    def prepare(self, fitted: Any, round: int = 0) -> Resolve:
        """Return mean + κ deviation."""
        believe = self.belief.prepare(fitted, round)

        def resolve(utility: Float[Array, "n k"], candidates: Any) -> Float[Array, " n"]:
            belief = believe(candidates)
            return mean(utility, belief) + self.kappa * deviation(utility, belief)

        return resolve


@dataclass(frozen=True)
class ExpectedImprovement(Operator):
    """The mean of what exceeds a threshold: Σ_y P(y) max(u_y - threshold, 0).

    Examples
    --------
    >>> ExpectedImprovement()
    ExpectedImprovement(belief=Predicted(temperature=1.0), threshold=0.0)
    """

    belief: Belief = field(default_factory=Predicted)
    threshold: float = 0.0

    def prepare(self, fitted: Any, round: int = 0) -> Resolve:
        """Return Σ_y P(y) max(u_y - threshold, 0)."""
        believe = self.belief.prepare(fitted, round)

        def resolve(utility: Float[Array, "n k"], candidates: Any) -> Float[Array, " n"]:
            xp = namespace(utility)
            gain = utility - self.threshold
            return mean(xp.maximum(gain, xp.zeros_like(gain)), believe(candidates))

        return resolve


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

    def prepare(self, fitted: Any, round: int = 0) -> Resolve:
        """Return Σ_y P(y) [u_y > threshold]."""
        believe = self.belief.prepare(fitted, round)

        def resolve(utility: Float[Array, "n k"], candidates: Any) -> Float[Array, " n"]:
            xp = namespace(utility)
            better = xp.astype(utility > self.threshold, utility.dtype)
            return mean(better, believe(candidates))

        return resolve

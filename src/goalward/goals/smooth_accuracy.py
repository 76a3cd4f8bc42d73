"""Accuracy with a slope: how many dev rows are right, counted softly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from goalward.core.arrays import namespace, softmax, to_numpy
from goalward.goals.dev_goal import DevGoal, Weights, check_some_weight, check_temperature
from goalward.goals.goal import Goal, Logits, ManyLogits, ManyValues
from goalward.models import Fitted

__all__ = ["SmoothAccuracy", "SoftPoints"]


@dataclass(frozen=True, eq=False)
class SmoothAccuracy(DevGoal):
    """τ = mean softmax(g/T)_y over dev rows, the share of them that is right, smoothed.

    softmax(g/T)_y is sigmoid(margin/T) with the margin g_y - T log Σ_{j≠y} exp(g_j/T), a smooth
    g_y - max g_j. T = 1 is the mean probability of the true label; T → 0 is accuracy, but then only
    rows at the boundary have a slope.

    Parameters
    ----------
    X, y, weights
        Dev rows with labels, as for `DevLoss`.
    temperature
        Width of the boundary, in logits.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.SmoothAccuracy([[2.0], [-1.0], [0.6]], [1, 0, 0], temperature=0.01)
    >>> round(goal.value(fitted), 3)
    0.667
    """

    coupled: ClassVar[bool] = False
    temperature: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        check_temperature(self.temperature, "SmoothAccuracy")

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> SoftPoints:
        """Return each row's share of the mean as points for its label."""
        total = namespace(weights).sum(weights)
        check_some_weight(float(total), "SmoothAccuracy")
        return SoftPoints((weights / total)[:, None] * targets, self.temperature)

    def pieces(self) -> list[tuple[float, Goal]]:
        """Return the goal over parts of a file, each by its share of the mean."""
        parts = self.in_parts()
        if len(parts) == 1:
            return [(1.0, self)]
        totals = [
            float(len(part.X)) if part.weights is None else float(to_numpy(part.weights).sum())
            for part in parts
        ]
        check_some_weight(sum(totals), "SmoothAccuracy")
        return [
            (total / sum(totals), part)
            for total, part in zip(totals, parts, strict=True)
            if total > 0.0
        ]


@dataclass(frozen=True)
class SoftPoints:
    """Σ c softmax(g/T): c points for each class, by its tempered probability."""

    points: Logits
    temperature: float

    def value(self, logits: ManyLogits) -> ManyValues:
        """Return Σ c P."""
        return namespace(logits).sum(
            self.points * softmax(logits / self.temperature), axis=(-2, -1)
        )

    def cotangent(self, logits: Logits) -> Logits:
        """Return P∘(c - ⟨c, P⟩)/T."""
        _, u = self._parts(logits)
        return u / self.temperature

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        """Return [u∘(s - ⟨P, s⟩) - P⟨u, s⟩]/T², u = P∘(c - ⟨c, P⟩)."""
        xp = namespace(logits)
        P, u = self._parts(logits)
        mean = xp.sum(P * motion, axis=-1, keepdims=True)
        along = xp.sum(u * motion, axis=-1, keepdims=True)
        return (u * (motion - mean) - P * along) / self.temperature**2

    def _parts(self, logits: Logits) -> tuple[Logits, Logits]:
        xp = namespace(logits)
        P = softmax(logits / self.temperature)
        return P, P * (self.points - xp.sum(self.points * P, axis=-1, keepdims=True))

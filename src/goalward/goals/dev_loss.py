"""The dev-set log-likelihood: the paper's most useful goal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, log_softmax, namespace, softmax, to_numpy
from goalward.goals.dev_goal import DevGoal, Weights, count_labels
from goalward.goals.goal import Goal, Logits, ManyLogits, ManyValues
from goalward.models import Fitted

__all__ = ["DevLoss", "LogLikelihood"]


@dataclass(frozen=True, eq=False)
class DevLoss(DevGoal):
    """τ = Σ log p_y over dev rows: higher is better, so the loss falls.

    Parameters
    ----------
    X
        Dev rows.
    y
        Their labels, or (m, K) distributions over the classes.
    weights
        A weight per row; ones by default.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.DevLoss([[2.0]], [1]).value(fitted) < 0
    True
    """

    coupled: ClassVar[bool] = False

    @property
    def effective_rows(self) -> float:
        """(Σw)² / Σw²: how many rows of equal weight would say as much."""
        if self.weights is None:
            return float(count_labels(self.y))
        w = to_numpy(self.weights).astype(np.float64)
        return float(w.sum() ** 2 / max(float(np.sum(w * w)), 1e-300))

    def pieces(self) -> list[tuple[float, Goal]]:
        """Return the goal over parts of a file."""
        return [(1.0, part) for part in self.in_parts()]

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> LogLikelihood:
        """Return the weighted log-likelihood."""
        return LogLikelihood(weights[:, None] * targets)


@dataclass(frozen=True)
class LogLikelihood:
    """Σ t log p with u = t - p Σt and W = -(Σt) Λ; t carries the row's weight."""

    targets: Logits

    def value(self, logits: ManyLogits) -> ManyValues:
        """Return Σ t log p."""
        return namespace(logits).sum(self.targets * log_softmax(logits), axis=(-2, -1))

    def cotangent(self, logits: Logits) -> Logits:
        """Return t - p Σt."""
        return self.targets - self.mass * softmax(logits)

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        """Return -(Σt) p∘(s - ⟨p, s⟩)."""
        xp = namespace(logits)
        p = softmax(logits)
        return -self.mass * p * (motion - xp.sum(p * motion, axis=-1, keepdims=True))

    @cached_property
    def mass(self) -> Float[Array, "m 1"]:
        """Σt of every row."""
        return namespace(self.targets).sum(self.targets, axis=-1, keepdims=True)

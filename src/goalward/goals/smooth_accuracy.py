"""Accuracy with a slope: how many dev rows are right, counted softly."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, namespace, softmax, to_numpy
from goalward.goals.goal import Goal, Term, file_parts
from goalward.goals.labelled import (
    check_lengths,
    check_some_weight,
    check_temperature,
    count_labels,
    dev_rows,
)

__all__ = ["SmoothAccuracy", "SoftPoints"]


@dataclass(frozen=True, eq=False)
class SmoothAccuracy(Goal):
    """τ = mean softmax(g/T)_y over dev rows, the share of them that is right, smoothed.

    softmax(g/T)_y is sigmoid(margin/T) with the margin g_y - T log Σ_{j≠y} exp(g_j/T), a smooth
    g_y - max g_j. T = 1 is the mean probability of the true label; T → 0 is accuracy, but then only
    rows at the boundary have a slope.

    Parameters
    ----------
    X
        Dev rows.
    y
        Their labels, or (m, K) distributions over the classes.
    temperature
        Width of the boundary, in logits.
    weights
        A weight per row; ones by default.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.SmoothAccuracy([[2.0], [-1.0], [0.6]], [1, 0, 0], temperature=0.01)
    >>> round(goal.value(fitted), 3)
    0.667
    """

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    temperature: float = field(default=1.0, kw_only=True)
    weights: Any = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_temperature(self.temperature, "SmoothAccuracy")

    @property
    def labels_held(self) -> int:
        """The dev labels."""
        return count_labels(self.y)

    def terms(self, fitted: Any) -> list[Term]:
        """Return the goal bound to a model."""
        X, targets, w = dev_rows(fitted, self.X, self.y, self.weights, "SmoothAccuracy")
        points = (w / namespace(w).sum(w))[:, None] * targets
        return [Term(1.0, X, SoftPoints(points, self.temperature))]

    def pieces(self) -> list[tuple[float, Goal]]:
        """Return the goal over parts of a file, each by its share of the mean."""
        parts = file_parts(self.X)
        if len(parts) == 1:
            return [(1.0, self)]
        total = len(self.X)
        check_lengths(total, "SmoothAccuracy", y=self.y, weights=self.weights)
        w = np.ones(total) if self.weights is None else to_numpy(self.weights)
        check_some_weight(float(w.sum()), "SmoothAccuracy")
        return [
            (float(w[at].sum() / w.sum()), replace(self, X=X, y=self.y[at], weights=w[at]))
            for at, X in parts
            if w[at].sum() > 0.0
        ]


@dataclass(frozen=True)
class SoftPoints:
    """Σ c softmax(g/T): c points for each class, by its tempered probability."""

    points: Float[Array, "m k"]
    temperature: float

    def value(self, logits: Float[Array, "*b m k"]) -> Float[Array, "*b"]:
        """Return Σ c P."""
        return namespace(logits).sum(
            self.points * softmax(logits / self.temperature), axis=(-2, -1)
        )

    def cotangent(self, logits: Float[Array, "m k"]) -> Float[Array, "m k"]:
        """Return P∘(c - ⟨c, P⟩)/T."""
        _, u = self._parts(logits)
        return u / self.temperature

    def curvature(
        self, logits: Float[Array, "m k"], motion: Float[Array, "m k"]
    ) -> Float[Array, "m k"]:
        """Return [u∘(s - ⟨P, s⟩) - P⟨u, s⟩]/T², u = P∘(c - ⟨c, P⟩)."""
        xp = namespace(logits)
        P, u = self._parts(logits)
        mean = xp.sum(P * motion, axis=-1, keepdims=True)
        along = xp.sum(u * motion, axis=-1, keepdims=True)
        return (u * (motion - mean) - P * along) / self.temperature**2

    def _parts(self, logits: Float[Array, "m k"]) -> tuple[Array, Array]:
        xp = namespace(logits)
        P = softmax(logits / self.temperature)
        return P, P * (self.points - xp.sum(self.points * P, axis=-1, keepdims=True))

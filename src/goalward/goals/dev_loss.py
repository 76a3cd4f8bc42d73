"""The dev-set log-likelihood: the paper's most useful goal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, log_softmax, namespace, softmax, to_numpy
from goalward.goals.goal import Goal, Term, file_parts
from goalward.goals.labelled import check_lengths, count_labels

__all__ = ["DevLoss", "LogLikelihood"]


@dataclass(frozen=True, eq=False)
class DevLoss(Goal):
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

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    weights: Any = field(default=None, repr=False, kw_only=True)

    @property
    def labels_held(self) -> int:
        """The dev labels."""
        return count_labels(self.y)

    @property
    def effective_rows(self) -> float:
        """(Σw)² / Σw²: how many rows of equal weight would say as much."""
        if self.weights is None:
            return float(count_labels(self.y))
        w = to_numpy(self.weights).astype(np.float64)
        return float(w.sum() ** 2 / max(float(np.sum(w * w)), 1e-300))

    def pieces(self) -> list[tuple[float, Goal]]:
        """Return the goal over parts of a file."""
        parts = file_parts(self.X)
        if len(parts) == 1:
            return [(1.0, self)]
        w = self.weights
        check_lengths(len(self.X), "DevLoss", y=self.y, weights=w)
        return [
            (1.0, DevLoss(X, self.y[at], weights=None if w is None else w[at])) for at, X in parts
        ]

    def terms(self, fitted: Any) -> list[Term]:
        """Return the goal bound to a model."""
        X = fitted.features(self.X, "X of DevLoss")
        targets = fitted.targets(self.y, X.shape[0], "y of DevLoss")
        weights = fitted.row_weights(self.weights, X.shape[0])
        return [Term(1.0, X, LogLikelihood(weights[:, None] * targets))]


@dataclass(frozen=True)
class LogLikelihood:
    """Σ t log p with u = t - p Σt and W = -(Σt) Λ; t carries the row's weight."""

    targets: Float[Array, "m k"]

    def value(self, logits: Float[Array, "*b m k"]) -> Float[Array, "*b"]:
        """Return Σ t log p."""
        xp = namespace(logits)
        return xp.sum(self.targets * log_softmax(logits), axis=(-2, -1))

    def cotangent(self, logits: Float[Array, "m k"]) -> Float[Array, "m k"]:
        """Return t - p Σt."""
        return self.targets - self._mass * softmax(logits)

    def curvature(
        self, logits: Float[Array, "m k"], motion: Float[Array, "m k"]
    ) -> Float[Array, "m k"]:
        """Return -(Σt) p∘(s - ⟨p, s⟩)."""
        xp = namespace(logits)
        p = softmax(logits)
        return -self._mass * p * (motion - xp.sum(p * motion, axis=-1, keepdims=True))

    @property
    def _mass(self) -> Float[Array, "m 1"]:
        return namespace(self.targets).sum(self.targets, axis=-1, keepdims=True)

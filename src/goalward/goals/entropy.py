"""Certainty on unlabelled rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float

from goalward.core.arrays import Array, log_softmax, namespace
from goalward.goals.goal import Goal, Term, file_parts

__all__ = ["Entropy", "NegativeEntropy"]


@dataclass(frozen=True, eq=False)
class Entropy(Goal):
    """τ = Σ Σ_k p_k log p_k: minus the summed entropy of predictions on unlabelled rows.

    The paper finds that raising it can lower accuracy (§6.3): prefer it as a baseline to
    beat, not as a default.

    Parameters
    ----------
    X
        Rows whose predictions should become certain.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.Entropy([[0.5]]).value(fitted)  # -log 2, at the boundary
    -0.6931471805599453
    """

    X: Any = field(repr=False)

    def pieces(self) -> list[tuple[float, Goal]]:
        """Return the goal over parts of a file."""
        return [(1.0, Entropy(X)) for _, X in file_parts(self.X)]

    def terms(self, fitted: Any) -> list[Term]:
        """Return the goal bound to a model."""
        return [Term(1.0, fitted.features(self.X, "X of Entropy"), NegativeEntropy())]


@dataclass(frozen=True)
class NegativeEntropy:
    """Σ p log p, with u = p∘(log p + h) of the paper's §8, h the entropy of the row."""

    def value(self, logits: Float[Array, "*b m k"]) -> Float[Array, "*b"]:
        """Return Σ p log p."""
        xp = namespace(logits)
        log_p = log_softmax(logits)
        return xp.sum(xp.exp(log_p) * log_p, axis=(-2, -1))

    def cotangent(self, logits: Float[Array, "m k"]) -> Float[Array, "m k"]:
        """Return p∘(log p + h)."""
        _, _, u = self._parts(logits)
        return u

    def curvature(
        self, logits: Float[Array, "m k"], motion: Float[Array, "m k"]
    ) -> Float[Array, "m k"]:
        """Return [diag(u + p) - upᵀ - puᵀ - ppᵀ] s."""
        xp = namespace(logits)
        p, _, u = self._parts(logits)
        ps = xp.sum(p * motion, axis=-1, keepdims=True)
        us = xp.sum(u * motion, axis=-1, keepdims=True)
        return (u + p) * motion - u * ps - p * (us + ps)

    def _parts(self, logits: Float[Array, "m k"]) -> tuple[Array, Array, Array]:
        xp = namespace(logits)
        log_p = log_softmax(logits)
        p = xp.exp(log_p)
        entropy = -xp.sum(p * log_p, axis=-1, keepdims=True)
        return p, log_p, p * (log_p + entropy)

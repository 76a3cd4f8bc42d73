"""Cross-entropy and its curvature.

With p = softmax(f) and a target distribution t, the loss is -Σ t log p, its slope
p - t and its curvature Λ = diag(p) - ppᵀ. Λ is singular along "all logits up
together", so K classes have K - 1 effective directions: the columns of `contrasts(K)`,
an orthonormal basis of the vectors that sum to zero. Everything that must be factored
is factored there, which also fixes the gauge of free intercepts exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import scipy.linalg
from jaxtyping import Float

from goalward.core.arrays import Array, like, log_softmax, namespace, softmax

__all__ = ["CrossEntropy", "contrasts"]


def contrasts(n_classes: int, reference: Array) -> Float[Array, "k c"]:
    """Return an orthonormal basis, K x (K-1), of the vectors that sum to zero."""
    return like(scipy.linalg.helmert(n_classes).T, reference, dtype=reference.dtype)


@dataclass(frozen=True)
class CrossEntropy:
    """Minus the log-probability of the label: the loss of softmax regression.

    Examples
    --------
    >>> import numpy as np
    >>> CrossEntropy().proba(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """

    def proba(self, logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        """Return softmax(logits)."""
        return softmax(logits)

    def rows(self, logits: Float[Array, "n k"], targets: Float[Array, "n k"]) -> Float[Array, " n"]:
        """Return -Σ_k t_k log p_k for each row."""
        xp = namespace(logits)
        return -xp.sum(targets * log_softmax(logits), axis=-1)

    def slope(
        self, logits: Float[Array, "n k"], targets: Float[Array, "n k"]
    ) -> Float[Array, "n k"]:
        """Return ∂loss/∂logits = p - t."""
        return softmax(logits) - targets

    def along(self, proba: Float[Array, "n k"], motion: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return d loss((x, y)) for every label y when the logits move by `motion`.

        With s the motion, d(-log p_y) = Σ_j p_j s_j - s_y, so all K labels of a row
        cost one row of logits and no per-label gradient.
        """
        xp = namespace(proba, motion)
        return xp.sum(proba * motion, axis=-1, keepdims=True) - motion

    def curvature(
        self,
        proba: Float[Array, "*n k"],
        motion: Float[Array, "*n k"],
        weighted: Float[Array, "*n k"] | None = None,
    ) -> Float[Array, "*n k"]:
        """Return Λs = p∘(s - ⟨p, s⟩); `weighted` is p times the rows' weights, if they have any."""
        xp = namespace(proba, motion)
        centred = motion - xp.sum(proba * motion, axis=-1, keepdims=True)
        return (proba if weighted is None else weighted) * centred

    def blocks(self, proba: Float[Array, "n k"]) -> Float[Array, "n c c"]:
        """Return QᵀΛQ for every row, with Q = contrasts(K)."""
        xp = namespace(proba)
        Q = contrasts(proba.shape[-1], proba)
        mean = proba @ Q
        n_classes, c = Q.shape
        # Σ_k p_k q_k q_kᵀ for all rows: one product with the stacked outer products.
        pairs = xp.reshape(Q[:, :, None] * Q[:, None, :], (n_classes, c * c))
        weighted = xp.reshape(proba @ pairs, (-1, c, c))
        return weighted - mean[:, :, None] * mean[:, None, :]

    def factors(self, proba: Float[Array, "n k"]) -> Float[Array, "n c c"]:
        """Return L with LLᵀ = QᵀΛQ for every row, exact also where Λ is singular.

        Λ = D^½(I - ssᵀ)D^½ with s = √p, a unit vector. The reflector I - hhᵀ/(1 + s₀),
        h = s + e₀, sends s to -e₀, so its other columns span what I - ssᵀ keeps:
        L = QᵀD^½ (those columns). No difference of nearly equal numbers is taken.
        """
        xp = namespace(proba)
        n_classes = proba.shape[-1]
        Q = contrasts(n_classes, proba)
        root = xp.sqrt(proba)
        first = xp.eye(n_classes, dtype=proba.dtype, device=proba.device)[0, :]
        h = root + first
        reflector = (
            xp.eye(n_classes, dtype=proba.dtype, device=proba.device)
            - h[:, :, None] * (h / (1.0 + root[:, :1]))[:, None, :]
        )
        return xp.matmul(Q.T, root[:, :, None] * reflector[:, :, 1:])

"""Goals whose rows depend on one another: blocks of the rows, and a few directions they share.

A goal of sums over rows, τ = Φ(Σ_r a(g_r)), bends in two ways: each row by itself, and all rows
together along the gradients z_i of the sums, W = W_rows + Σ_ij C_ij z_i z_jᵀ with C = ∂²Φ. The
second part has low rank. It is kept apart, so that a utility which needs W row by row has both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Float

from goalward.core.arrays import Array, namespace
from goalward.goals.goal import Logits

__all__ = ["Coupled", "Coupling"]


class Coupling(NamedTuple):
    """Σ_ij C_ij z_i z_jᵀ: what couples the rows; rows of each z sum to zero."""

    vectors: Float[Array, "r m k"]
    middle: Float[Array, "r r"]


class Coupled(ABC):
    """A kernel whose curvature is that of the rows plus a coupling of low rank."""

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

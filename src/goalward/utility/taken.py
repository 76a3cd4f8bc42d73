"""Candidates of a batch whose gains (`utility.information`) follow as rows are taken."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float

from goalward.core.arrays import Array, astype, namespace
from goalward.solvers import Inverse
from goalward.utility.scorer import Scored

__all__ = ["Taken"]


@dataclass(frozen=True, eq=False)
class Taken:
    """Candidates whose M and N follow as rows are taken: an update of rank K-1 for each.

    With y = 𝓗⁻¹J_kᵀ of the row taken, t = 𝓗⁻¹F y and A, B what J_x makes of them,

        M ← M - A S Aᵀ,   N ← N - A S Bᵀ - B S Aᵀ + A S (yᵀFy) S Aᵀ

    so a pick costs n q c² for n candidates instead of their quadratic forms again.

    Parameters
    ----------
    proba
        What is predicted for them.
    Z, blocks, M, N
        Their coordinates, Λ times the expected weight, and the forms.
    """

    proba: Float[Array, "n k"]
    Z: Float[Array, "n q"]
    blocks: Float[Array, "n c c"]
    M: Float[Array, "n c c"]
    N: Float[Array, "n c c"]
    inverse: Inverse
    F: Float[Array, "p p"]

    def after(self, position: int) -> Taken:
        """Return what holds once the curvature of a candidate is added."""
        xp = namespace(self.Z)
        q, c = self.Z.shape[1], self.M.shape[1]
        z, block = self.Z[position, :], self.blocks[position, :, :]
        y, S = self.inverse.change(z, self.M[position, :, :], block)
        Fy = self.F @ y
        t = self.inverse.matrix @ Fy
        A, B = (xp.reshape(self.Z @ xp.reshape(v, (q, c * c)), (-1, c, c)) for v in (y, t))
        AS = A @ S
        cross = AS @ _turned(B)
        M = self.M - AS @ _turned(A)
        N = self.N - cross - _turned(cross) + AS @ (y.T @ Fy) @ _turned(AS)
        return replace(self, M=M, N=N, inverse=self.inverse.less(y, S))

    @property
    def gains(self) -> Float[Array, " n"]:
        """tr((I + ΛM)⁻¹ΛN) of every row."""
        blocks, M, N = self.blocks, self.M, self.N
        xp, c = namespace(M), M.shape[1]
        if c == 1:
            return (blocks * N / (1.0 + blocks * M))[:, 0, 0]
        eye = xp.eye(c, dtype=M.dtype, device=M.device)
        return xp.sum(xp.linalg.solve(eye + blocks @ M, blocks) * _turned(N), axis=(1, 2))

    def scored(self, n_answers: int) -> Scored:
        """Return the gains, once for each label, with predictions and leverages."""
        xp, proba = namespace(self.proba), self.proba
        found = astype(self.gains, proba.dtype)
        leverage = xp.sum(self.blocks * _turned(self.M), axis=(1, 2))
        per_label = xp.broadcast_to(found[:, None], (found.shape[0], n_answers))
        return Scored(per_label, proba, astype(leverage, proba.dtype))


def _turned(A: Float[Array, "n a b"]) -> Float[Array, "n b a"]:
    return namespace(A).permute_dims(A, (0, 2, 1))

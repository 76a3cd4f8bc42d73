"""Candidates of a batch whose gains (`utility.information`) follow as rows are taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from jaxtyping import Float

from goalward.core.arrays import Array, astype, namespace
from goalward.solvers import Inverse
from goalward.solvers.inverse import shrunk
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
    inverse, off
        𝓗⁻¹ before a row was taken, and Y, YS of what YSYᵀ takes off it since.
    """

    proba: Float[Array, "n k"]
    Z: Float[Array, "n q"]
    blocks: Float[Array, "n c c"]
    M: Float[Array, "n c c"]
    N: Float[Array, "n c c"]
    inverse: Inverse
    F: Float[Array, "p p"]
    off: tuple[Float[Array, "p r"], Float[Array, "p r"]] | None = None

    def after(self, position: int) -> Taken:
        """Return what holds once the curvature of a candidate is added."""
        xp = namespace(self.Z)
        q, c = self.Z.shape[1], self.M.shape[1]
        z, S = self.Z[position : position + 1, :], self.S[position, :, :]
        y, S = xp.reshape(self.inverse.pulled(z), (c, -1)).T, (S + S.T) / 2
        if self.off is not None:
            Y, YS = self.off
            y = y - YS @ xp.reshape(z @ xp.reshape(Y, (q, -1)), (c, -1)).T
        Fy = self.F @ y
        t = self.inverse.matrix @ Fy
        off = y, y @ S
        if self.off is not None:
            t = t - YS @ (Y.T @ Fy)
            off = tuple(xp.concat(both, axis=1) for both in zip(self.off, off, strict=True))
        both = self.Z @ xp.concat([xp.reshape(v, (q, c * c)) for v in (y, t)], axis=1)
        A, B = (xp.reshape(part, (-1, c, c)) for part in (both[:, : c * c], both[:, c * c :]))
        AS = A @ S
        half = AS @ _turned(B - 0.5 * (AS @ (y.T @ Fy)))
        M, N = self.M - AS @ _turned(A), self.N - half - _turned(half)
        return replace(self, M=M, N=N, off=off)

    @property
    def posterior(self) -> Inverse:
        """𝓗⁻¹ now."""
        if self.off is None:
            return self.inverse
        Y, YS = self.off
        return replace(self.inverse, matrix=self.inverse.matrix - YS @ Y.T)

    @cached_property
    def S(self) -> Float[Array, "n c c"]:
        """(I + ΛM)⁻¹Λ of every row."""
        return shrunk(self.blocks, self.M)

    @property
    def gains(self) -> Float[Array, " n"]:
        """tr(S N) of every row."""
        return namespace(self.M).sum(self.S * _turned(self.N), axis=(1, 2))

    def scored(self, n_answers: int) -> Scored:
        """Return the gains, once for each label, with predictions and leverages."""
        xp, proba = namespace(self.proba), self.proba
        found = astype(self.gains, proba.dtype)
        leverage = xp.sum(self.blocks * _turned(self.M), axis=(1, 2))
        per_label = xp.broadcast_to(found[:, None], (found.shape[0], n_answers))
        return Scored(per_label, proba, astype(leverage, proba.dtype))


def _turned(A: Float[Array, "n a b"]) -> Float[Array, "n b a"]:
    return namespace(A).permute_dims(A, (0, 2, 1))

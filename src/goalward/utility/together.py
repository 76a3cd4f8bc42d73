"""What several rows bring together, and which of them are needed least.

Rows A that add their curvature Λ at once raise a goal of the posterior by tr(S N), where S = (Λ⁻¹ +
M)⁻¹, and M and N (`utility.information`) are those of all rows of A together, a block for each pair.
Without row i, S becomes its Schur complement S - S_i S_ii⁻¹ S_iᵀ, so what is lost is
tr(S_ii⁻¹ T_ii) with T = S N S, and T follows by an update of rank K-1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.linalg import block_diag

from goalward.core.arrays import Rows, to_numpy
from goalward.utility.information import Gains

__all__ = ["Together"]


@dataclass(frozen=True, eq=False)
class Together:
    """Rows that are added at once.

    Parameters
    ----------
    S, T
        See above; blocks of rows that were left out are zero.
    gain
        By how much all of them raise the goal.
    """

    S: Float[NDArray[Any], "n c n c"]
    T: Float[NDArray[Any], "n c n c"]
    gain: float

    @classmethod
    def of(cls, gains: Gains, rows: Rows) -> Together:
        """Return the rows under a goal."""
        held = gains.taking(rows)
        Z, blocks = held.Z, to_numpy(held.blocks)
        n, c = blocks.shape[:2]
        M = to_numpy(gains.posterior.joint_leverage(rows, Z))
        N = to_numpy(gains.posterior.joint_form(gains.bent, Z))
        added = block_diag(*blocks)
        S = np.linalg.solve(np.eye(n * c) + added @ M, added)
        SN = S @ N
        shape = (n, c, n, c)
        return cls(S.reshape(shape), (SN @ S).reshape(shape), float(np.trace(SN)))

    def losses(self) -> Float[NDArray[Any], " n"]:
        """Return what the goal loses without each row; 0 for those left out already."""
        own = np.arange(len(self.S))
        inverse = np.linalg.pinv(self.S[own, :, own, :], rcond=1e-10, hermitian=True)
        return np.asarray(np.einsum("nab,nba->n", inverse, self.T[own, :, own, :]))

    def without(self, row: int) -> Together:
        """Return the rows without one of them."""
        S, T = self.S, self.T
        inverse = np.linalg.pinv(S[row, :, row, :], rcond=1e-10, hermitian=True)
        R, own = S[:, :, row, :] @ inverse, T[row, :, row, :]
        # T - R T_i - T_iᵀ Rᵀ + R T_ii Rᵀ, the last shared between the two before it.
        half = np.tensordot(R, T[row] - 0.5 * np.tensordot(own, R, axes=(1, 2)), axes=1)
        left = replace(
            self,
            S=S - np.tensordot(R, S[row], axes=1),
            T=T - half - half.transpose(2, 3, 0, 1),
            gain=self.gain - float(np.trace(inverse @ own)),
        )
        for kept in (left.S, left.T):
            kept[row], kept[:, :, row] = 0.0, 0.0
        return left

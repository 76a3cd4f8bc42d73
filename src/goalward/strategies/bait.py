"""BAIT: rows whose information, added to what is known, best covers the pool's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.arrays import to_numpy
from goalward.errors import Unsupported
from goalward.learners import Fitted
from goalward.selection import Score, Sequential
from goalward.solvers.cholesky import dense_curvature
from goalward.strategies.strategy import Scores, Strategy, candidate_blocks
from goalward.utility.leverage import quadratic

__all__ = ["Bait"]

LARGEST = 2000
"""Unknowns up to which the information of the pool is held as a matrix."""


@dataclass(frozen=True)
class Bait(Strategy):
    """Forward greedy on tr((𝓗 + Σ Λ)⁻¹ F) (Ash et al. 2021, arXiv 2106.09675).

    F is the Fisher information of the pool, 𝓗 the curvature of the labelled rows with the
    penalty. Taking a row x lowers the trace by tr((Λ⁻¹ + M)⁻¹ N) with M = J𝓗⁻¹Jᵀ its leverage and
    N = J𝓗⁻¹F𝓗⁻¹Jᵀ, the quantities of ImplicitStep. The published backward pass is left out.
    Works in the features (with fewer rows than features, those of the model), for up to
    2,000 unknowns.

    Examples
    --------
    >>> Bait()
    Bait(seed=0)
    """

    seed: int = 0
    # One row at a time over the whole pool: each adds its information.
    selection = Sequential(shortlist=None, radius=0.0)

    def score(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any], round: int) -> Scores:
        """Return how much each row alone would lower the trace."""
        return Scores(_Information(fitted, X_pool, rows).gains())

    def outlook(
        self,
        fitted: Fitted,
        X_pool: Any,
        rows: NDArray[Any],
        values: NDArray[Any],
        round: int,
        used: Any = None,
    ) -> Score:
        """Return gains that follow what has been taken."""
        return _Greedy(_Information(fitted, X_pool, rows), values)


class _Information:
    """𝓗⁻¹ and the pool's information, in contrasts and in raw features."""

    def __init__(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any]) -> None:
        intercept = fitted.linear("Bait").intercept
        c = fitted.n_classes - 1
        size = (fitted.n_features + intercept) * c
        if size > LARGEST:
            raise Unsupported(
                f"BAIT holds {size} x {size} numbers for this model; up to {LARGEST} unknowns were "
                "expected. Reduce the features, with TruncatedSVD say."
            )
        blocks = list(candidate_blocks(fitted, X_pool, rows))
        dense = [_with_constant(c_.X, intercept) for _, c_ in blocks]
        self.Z = np.concatenate(dense)
        self.blocks = np.concatenate([to_numpy(fitted.loss.blocks(c_.proba)) for _, c_ in blocks])
        penalty = to_numpy(fitted.penalty)
        B = _with_constant(fitted.labelled.X, intercept)
        H = dense_curvature(B, to_numpy(fitted.hessian.blocks()), penalty)
        self.inverse = np.linalg.inv(H)
        self.F = dense_curvature(self.Z, self.blocks, np.zeros_like(penalty))
        self.c = c

    def gains(self) -> NDArray[Any]:
        """Return tr((I + ΛM)⁻¹ Λ N) of every row."""
        q = self.Z.shape[1]
        shape = (q, self.c, q, self.c)
        M = quadratic(self.Z, self.inverse.reshape(shape))
        N = quadratic(self.Z, (self.inverse @ self.F @ self.inverse).reshape(shape))
        inner = np.linalg.solve(np.eye(self.c) + self.blocks @ M, self.blocks)
        found: NDArray[Any] = np.einsum("nab,nba->n", inner, N)
        return found

    def take(self, row: int) -> None:
        """Add the information of a row: a low-rank update of the inverse."""
        J = np.kron(self.Z[row][None, :], np.eye(self.c))
        y = self.inverse @ J.T
        inner = np.linalg.solve(np.eye(self.c) + self.blocks[row] @ (J @ y), self.blocks[row])
        self.inverse -= y @ inner @ y.T


class _Greedy:
    def __init__(self, information: _Information, values: NDArray[Any]) -> None:
        self._information, self._values = information, values.copy()

    def values(self) -> NDArray[Any]:
        return self._values

    def focus(self, rows: NDArray[Any]) -> None:
        """Keep everything in play."""

    def absorb(self, row: int, update: str = "", radius: float = 0.0) -> None:
        self._information.take(row)
        taken = ~np.isfinite(self._values)
        taken[row] = True
        self._values = np.where(taken, -np.inf, self._information.gains())


def _with_constant(X: Any, intercept: bool) -> NDArray[Any]:
    plain = X.toarray() if hasattr(X, "toarray") else to_numpy(X)
    return np.column_stack([plain, np.ones(len(plain))]) if intercept else plain

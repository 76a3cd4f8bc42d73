"""How sure a linear model is of its logits: 𝓗⁻¹ as the covariance of its parameters.

Around its optimum the penalised likelihood is nearly Gaussian with covariance 𝓗⁻¹ (Laplace). The
logits of a row x then have the covariance M = J𝓗⁻¹Jᵀ, its leverage. All is held in the K-1
contrasts of the classes, in which 𝓗 has an inverse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.arrays import is_sparse, to_numpy
from goalward.solvers.cholesky import dense_curvature
from goalward.solvers.quadratic import numbers_per_row, quadratic

__all__ = ["LARGEST", "Posterior"]

LARGEST = 1500
"""Unknowns up to which the covariance is held whole: its inverse takes about 0.3 s on one core."""

LARGEST_BLOCK = 2**22
"""Numbers in one array on the way: 32 MB."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """The covariance of a linear model's parameters.

    Parameters
    ----------
    inverse
        (qc, qc) inverse of 𝓗, rows ordered (coordinate, contrast).
    intercept
        Whether coordinates end in a constant.
    basis
        (d, r) directions that serve as coordinates; None where the features do. With more than
        1,500 unknowns these are the leading directions of the rows that matter.
    kept
        Share of those rows' squared length that lies in the basis.
    """

    inverse: NDArray[Any] = field(repr=False)
    intercept: bool
    basis: NDArray[Any] | None = field(default=None, repr=False)
    kept: float = 1.0

    @classmethod
    def of(cls, hessian: Any, rows: Any, *, largest: int = LARGEST) -> Posterior:
        """Return the posterior of a linear model from its curvature.

        Parameters
        ----------
        rows
            The rows that matter, as the model sees them: where the unknowns are too many, their
            leading directions are kept.
        """
        c = hessian.shape[1] - 1
        n_features = rows.shape[1]
        room = max(1, largest // c - hessian.intercept)
        basis, kept = (None, 1.0) if n_features <= room else _leading(rows, room)
        plain = cls(np.empty((0, 0)), hessian.intercept, basis, kept)
        penalty = to_numpy(hessian.penalty)
        held = penalty[: room if basis is not None else n_features]
        if hessian.intercept:
            held = np.append(held, penalty[-1])
        H = dense_curvature(plain.coordinates(hessian.X), to_numpy(hessian.blocks()), held)
        inverse = scipy.linalg.inv(H, overwrite_a=True, check_finite=False)
        return cls((inverse + inverse.T) / 2, hessian.intercept, basis, kept)

    def coordinates(self, rows: Any) -> Float[NDArray[Any], "n q"]:
        """Return the coordinates of rows as the model sees them."""
        if self.basis is not None:
            plain = (
                np.asarray(rows @ self.basis) if is_sparse(rows) else to_numpy(rows) @ self.basis
            )
        else:
            plain = rows.toarray() if is_sparse(rows) else to_numpy(rows)
        plain = np.asarray(plain, dtype=np.float64)
        return np.column_stack([plain, np.ones(len(plain))]) if self.intercept else plain

    def form(self, matrix: NDArray[Any], Z: NDArray[Any]) -> Float[NDArray[Any], "n c c"]:
        """Return J A Jᵀ of every row for a (qc, qc) matrix A."""
        q = Z.shape[1]
        c = len(matrix) // q
        A = matrix.reshape(q, c, q, c)
        step = max(1, LARGEST_BLOCK // numbers_per_row(q, c))
        parts = [quadratic(Z[i : i + step], A) for i in range(0, len(Z), step)]
        return np.concatenate(parts) if parts else np.empty((0, c, c))

    def leverage(self, Z: NDArray[Any]) -> Float[NDArray[Any], "n c c"]:
        """Return M = J𝓗⁻¹Jᵀ of every row, the covariance of its logits in contrasts."""
        return self.form(self.inverse, Z)


def _leading(rows: Any, room: int) -> tuple[NDArray[Any], float]:
    """Return the leading directions of rows, and the share of their squared length there."""
    gram = rows.T @ rows
    gram = gram.toarray() if is_sparse(gram) else np.asarray(to_numpy(gram), dtype=np.float64)
    d = len(gram)
    _, vectors = scipy.linalg.eigh(gram, subset_by_index=[d - room, d - 1], check_finite=False)
    total = float(np.trace(gram))
    inside = float(np.einsum("ij,ij->", vectors, gram @ vectors))
    return vectors, inside / total if total > 0 else 1.0

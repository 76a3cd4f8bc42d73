"""How sure a linear model is of its logits: 𝓗⁻¹ as the covariance of its parameters.

Around its optimum the penalised likelihood is nearly Gaussian with covariance 𝓗⁻¹ (Laplace). The
logits of a row x then have the covariance M = J𝓗⁻¹Jᵀ, its leverage. All is held in the K-1
contrasts of the classes, in which 𝓗 has an inverse.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, stack_rows, to_numpy
from goalward.solvers.cholesky import dense_curvature
from goalward.solvers.quadratic import numbers_per_row, quadratic

__all__ = ["LARGEST", "Posterior"]

LARGEST = 1000
"""Unknowns up to which the covariance is held whole: an inverse of it takes about 0.1 s on one core."""

LARGEST_GRAM = 3000
"""Rows or features whose Gram matrix gives the directions."""
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
    penalty
        ρ of the weights: outside the basis nothing is known but the prior's variance 1/ρ.
    basis
        (d, r) orthonormal directions that serve as coordinates; None where the features do.
        With more than 1,000 unknowns these are the leading directions of the rows that matter
        and of the labelled rows.
    kept
        Share of those rows' squared length that lies in the basis.
    """

    inverse: NDArray[Any] = field(repr=False)
    intercept: bool
    penalty: float
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
        penalty = to_numpy(hessian.penalty)
        basis, kept = None, 1.0
        if n_features > room:
            basis, kept = _leading(_together(like_rows(rows), like_rows(hessian.X)), room)
        plain = cls(np.empty((0, 0)), hessian.intercept, float(penalty[0]), basis, kept)
        held = penalty[: n_features if basis is None else basis.shape[1]]
        if hessian.intercept:
            held = np.append(held, penalty[-1])
        H = dense_curvature(plain.coordinates(hessian.X), to_numpy(hessian.blocks()), held)
        inverse = scipy.linalg.inv(H, overwrite_a=True, check_finite=False)
        return replace(plain, inverse=(inverse + inverse.T) / 2)

    @property
    def reason(self) -> str:
        """What is held, in words."""
        if self.basis is None:
            return f"the covariance of all {len(self.inverse)} unknowns"
        d, r = self.basis.shape
        return (
            f"the covariance in {r} of {d} directions, {self.kept:.1%} of the rows' squared length"
        )

    def coordinates(self, rows: Any) -> Float[NDArray[Any], "n q"]:
        """Return the coordinates of rows as the model sees them."""
        plain = like_rows(rows)
        if self.basis is not None:
            plain = plain @ self.basis
        elif is_sparse(plain):
            plain = plain.toarray()
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

    def leverage(self, rows: Any, Z: NDArray[Any]) -> Float[NDArray[Any], "n c c"]:
        """Return M = J𝓗⁻¹Jᵀ of rows with coordinates Z: the covariance of logits in contrasts.

        What of a row lies outside the basis has the prior's variance.
        """
        M = self.form(self.inverse, Z)
        if self.basis is None:
            return M
        plain = like_rows(rows)
        squares = (
            plain.multiply(plain).sum(axis=1) if is_sparse(plain) else np.sum(plain**2, axis=1)
        )
        inside = Z[:, :-1] if self.intercept else Z
        outside = np.asarray(squares, dtype=np.float64).ravel() - np.sum(inside**2, axis=1)
        spread = np.maximum(outside, 0.0) / self.penalty
        return np.asarray(M + spread[:, None, None] * np.eye(M.shape[1]))


def like_rows(rows: Any) -> Any:
    """Return rows in NumPy, or sparse as they are."""
    return rows if is_sparse(rows) else to_numpy(rows)


def _together(A: Any, B: Any) -> Any:
    """Return rows below one another; sparse only if both are."""
    if is_sparse(A) != is_sparse(B):
        A, B = (one.toarray() if is_sparse(one) else one for one in (A, B))
    return stack_rows(A, B)


def _leading(rows: Any, room: int) -> tuple[NDArray[Any], float]:
    """Return the leading directions of rows, and the share of their squared length there.

    By the smaller of the two Gram matrices; of very many rows some thousands, evenly spaced, speak
    for all.
    """
    if min(rows.shape) > LARGEST_GRAM:
        rows = rows[np.linspace(0, rows.shape[0] - 1, LARGEST_GRAM).astype(np.int64)]
    m, d = rows.shape
    by_rows = m < d
    gram = rows @ rows.T if by_rows else rows.T @ rows
    gram = np.asarray(gram.toarray() if is_sparse(gram) else gram, dtype=np.float64)
    size = len(gram)
    ends = [max(0, size - room), size - 1]
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=ends, check_finite=False)
    # Directions below rounding of the largest carry no row.
    real = values > max(float(values[-1]), 0.0) * 1e-12
    values, vectors = values[real], vectors[:, real]
    if by_rows:
        vectors = np.asarray(rows.T @ vectors) / np.sqrt(values)
    total = float(np.trace(gram))
    return vectors, float(values.sum()) / total if total > 0 else 1.0

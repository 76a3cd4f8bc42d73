"""𝓗⁻¹ of a linear model in coordinates: leverages, low-rank updates, draws.

Around its optimum the penalised likelihood is nearly Gaussian with covariance 𝓗⁻¹ (Laplace). The
logits of a row x then have the covariance M = J𝓗⁻¹Jᵀ, its leverage. All is held in the K-1 contrasts
of the classes, in which 𝓗 has an inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import (
    Array,
    Rows,
    definite_inverse,
    like,
    namespace,
    pairs,
    rows_at,
    to_numpy,
)
from goalward.solvers.cholesky import dense_curvature
from goalward.solvers.coordinates import Coordinates
from goalward.solvers.solution import LinearCurvature

__all__ = ["Inverse", "quadratic", "rows_at_once", "shrunk"]

LARGEST_BLOCK = 2**22
"""Numbers in one array on the way to a form: 32 MB."""

MOST_PAIRED = 256
"""Coordinates up to which pairs of them are formed."""


@dataclass(frozen=True, eq=False)
class Inverse:
    """The inverse of a linear model's curvature: the covariance of its parameters.

    Parameters
    ----------
    matrix
        (qc, qc) inverse, rows ordered (coordinate, contrast).
    coordinates
        How rows are written; outside of them rows have the prior's variance.

    Examples
    --------
    >>> from goalward.solvers.coordinates import Coordinates
    >>> from goalward.testing import problem
    >>> task = problem(n_classes=3)
    >>> hessian = task.fitted.hessian
    >>> inverse = Inverse.of(hessian, Coordinates.features(hessian))
    >>> inverse.leverage(task.X_pool[:5]).shape
    (5, 2, 2)
    """

    matrix: Float[Array, "qc qc"] = field(repr=False)
    coordinates: Coordinates

    @classmethod
    def of(cls, hessian: LinearCurvature, coordinates: Coordinates) -> Inverse:
        """Return the inverse of a curvature: of the same objective, written in the coordinates."""
        ridge = coordinates.ridge
        blocks = like(hessian.blocks(), ridge, dtype=ridge.dtype)
        H = dense_curvature(coordinates(hessian.labelled.X), blocks, ridge)
        return cls(definite_inverse(H), coordinates)

    @property
    def reason(self) -> str:
        """What is held, in words."""
        basis = self.coordinates.basis
        if basis is None:
            return f"the covariance of all {self.matrix.shape[0]} unknowns"
        return (
            f"the covariance in {basis.shape[1]} of {basis.shape[0]} directions, "
            f"{self.coordinates.kept:.1%} of the rows' squared length"
        )

    def form(self, A: Float[Array, "qc qc"], Z: Float[Array, "n q"]) -> Float[Array, "n c c"]:
        """Return J A Jᵀ of every row with coordinates Z, for a symmetric A."""
        return self.forms((A,), Z)[0]

    def forms(
        self, matrices: Sequence[Float[Array, "qc qc"]], Z: Float[Array, "n q"]
    ) -> list[Float[Array, "n c c"]]:
        """Return J A Jᵀ of every row for several symmetric A: what they share is made once."""
        xp = namespace(Z)
        n, q = Z.shape
        apply = quadratic(matrices, q)
        step = rows_at_once(q, matrices[0].shape[0] // q)
        parts = [apply(rows_at(Z, slice(i, i + step))) for i in range(0, max(n, 1), step)]
        return parts[0] if len(parts) == 1 else [xp.concat(p) for p in zip(*parts, strict=True)]

    def pulled(self, Z: Float[Array, "n q"]) -> Float[Array, "n c q c"]:
        """Return y = 𝓗⁻¹Jᵀ of every row: how the parameters follow a pull at each of its contrasts."""
        return _product(Z, self.matrix)

    def leverage(
        self, rows: Rows, Z: Array | None = None, y: Array | None = None
    ) -> Float[Array, "n c c"]:
        """Return M = J𝓗⁻¹Jᵀ of rows: the covariance of their logits in contrasts.

        What of a row lies outside the coordinates has the prior's variance. Z = coordinates(rows) and
        y = pulled(Z) are taken where they are at hand.
        """
        Z = self.coordinates(rows) if Z is None else Z
        return self.with_outside(self.form(self.matrix, Z) if y is None else _summed(Z, y), rows, Z)

    def with_outside(
        self, M: Float[Array, "n c c"], rows: Rows, Z: Float[Array, "n q"]
    ) -> Float[Array, "n c c"]:
        """Return the leverage of rows, given that of their part inside the coordinates."""
        if self.coordinates.basis is None:
            return M
        xp = namespace(Z)
        spread = self.coordinates.squared_outside(rows, Z) / self.coordinates.rho
        return M + spread[:, None, None] * xp.eye(M.shape[1], dtype=Z.dtype, device=Z.device)

    def joint_form(self, A: Float[Array, "qc qc"], Z: Float[Array, "n q"]) -> Float[Array, "nc nc"]:
        """Return J A Jᵀ of all rows together: their forms on the diagonal, what they share beside."""
        xp = namespace(Z)
        y = _product(Z, A)
        n, c = y.shape[:2]
        shared = xp.permute_dims(xp.tensordot(y, Z, axes=([2], [1])), (0, 1, 3, 2))
        return xp.reshape(shared, (n * c, n * c))

    def joint_leverage(self, rows: Rows, Z: Float[Array, "n q"]) -> Float[Array, "nc nc"]:
        """Return the covariance of the logits of all rows together."""
        M = self.joint_form(self.matrix, Z)
        outside = self.coordinates.outside(rows, Z, rows, Z)
        if outside is None:
            return M
        xp = namespace(Z)
        size = M.shape[0]
        eye = xp.eye(size // Z.shape[0], dtype=Z.dtype, device=Z.device)
        spread = (outside / self.coordinates.rho)[:, None, :, None] * eye[None, :, None, :]
        return M + xp.reshape(spread, (size, size))

    def change(
        self, z: Float[Array, " q"], M: Float[Array, "c c"], block: Float[Array, "c c"]
    ) -> tuple[Float[Array, "qc c"], Float[Array, "c c"]]:
        """Return y and S with which a row of curvature `block` takes y S yᵀ off the inverse.

        y = 𝓗⁻¹Jᵀ and S = (I + ΛM)⁻¹Λ (Woodbury); z are the row's coordinates, M its leverage.
        """
        xp = namespace(block)
        S = shrunk(block[None, :, :], M[None, :, :])[0, :, :]
        return xp.reshape(self.pulled(z[None, :]), (block.shape[0], -1)).T, (S + S.T) / 2

    def added(self, row: Rows, block: Float[Array, "c c"]) -> Inverse:
        """Return the inverse after a row with curvature `block` has been added."""
        Z = self.coordinates(row)
        return self.less(*self.change(Z[0, :], self.leverage(row, Z)[0, :, :], block))

    def less(self, y: Float[Array, "qc c"], S: Float[Array, "c c"]) -> Inverse:
        """Return the inverse less y S yᵀ, what a row that was added takes off."""
        return replace(self, matrix=self.matrix - y @ S @ y.T)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[Any]:
        """Return `count` draws from the Gaussian with covariance 𝓗⁻¹ and mean zero, (q, c, count)."""
        matrix = to_numpy(self.matrix)
        # With 𝓗 = LLᵀ a draw is L⁻ᵀ of a standard one; that is the upper triangle whose product
        # with its transpose is 𝓗⁻¹: a Cholesky factor from the last row to the first.
        upper = np.linalg.cholesky(matrix[::-1, ::-1])[::-1, ::-1]
        drawn: NDArray[Any] = upper @ rng.standard_normal((len(matrix), count))
        return drawn.reshape(self.coordinates.ridge.shape[0], -1, count)


def shrunk(blocks: Float[Array, "n c c"], M: Float[Array, "n c c"]) -> Float[Array, "n c c"]:
    """Return S = (I + ΛM)⁻¹Λ of every row: what is left of its curvature, seen from the labelled ones."""
    xp, c = namespace(M), M.shape[1]
    if c == 1:
        return blocks / (1.0 + blocks * M)
    return xp.linalg.solve(xp.eye(c, dtype=M.dtype, device=M.device) + blocks @ M, blocks)


def _paired(q: int, c: int) -> bool:
    """Return whether pairs z_j z_l are formed: a quarter of the work where contrasts are several."""
    return c > 1 and q <= (64 if c == 2 else MOST_PAIRED)


def rows_at_once(q: int, c: int) -> int:
    """Return the rows whose forms, with all that they make on the way, fit a block."""
    numbers = q * (q + 1) // 2 + 4 * c * c if _paired(q, c) else c * c * q
    return max(1, LARGEST_BLOCK // numbers)


def quadratic(
    matrices: Sequence[Float[Array, "qc qc"]], q: int
) -> Callable[[Float[Array, "n q"]], list[Float[Array, "n c c"]]]:
    """Return the map from Z to Σ_jl z_j A[j, :, l, :] z_l of every row, for symmetric A of q x q blocks.

    Few coordinates and several contrasts: one product of the pairs z_j z_l, j ≤ l, with A folded
    accordingly, a quarter of the work. Otherwise one product with A, then one sum per row.
    """
    c = matrices[0].shape[0] // q
    # A GPU has work to spare, and every call costs it.
    if not (_paired(q, c) and type(matrices[0]) is np.ndarray):
        return lambda Z: [_summed(Z, _product(Z, A)) for A in matrices]
    xp = namespace(matrices[0])
    folded = xp.concat([_folded(A, q) for A in matrices], axis=1)
    a, b = np.triu_indices(c)
    position = np.empty((c, c), dtype=np.int64)
    position[a, b] = position[b, a] = np.arange(len(a))
    place = like(position.reshape(-1), folded)

    def apply(Z: Float[Array, "n q"]) -> list[Float[Array, "n c c"]]:
        packed, size = pairs(Z) @ folded, len(a)
        found = [packed[:, i * size : (i + 1) * size] for i in range(len(matrices))]
        return [xp.reshape(xp.take(part, place, axis=1), (Z.shape[0], c, c)) for part in found]

    return apply


def _folded(A: Float[Array, "qc qc"], q: int) -> Float[Array, "pairs cc"]:
    """Return A for pairs z_j z_l, j ≤ l, a column for each pair of contrasts."""
    xp, c = namespace(A), A.shape[0] // q
    upper, lower = np.triu_indices(q)
    a, b = np.triu_indices(c)
    blocks = xp.permute_dims(xp.reshape(A, (q, c, q, c)), (0, 2, 1, 3))
    flat = xp.take(xp.reshape(blocks, (q * q, c * c)), like(a * c + b, A), axis=1)
    folded = xp.take(flat, like(upper * q + lower, A), axis=0)
    other = xp.take(flat, like(lower * q + upper, A), axis=0)
    return folded + like((upper != lower).astype(float), A, dtype=A.dtype)[:, None] * other


def _summed(Z: Float[Array, "n q"], y: Float[Array, "n c q c"]) -> Float[Array, "n c c"]:
    """Return Σ_l y_l z_l of every row."""
    xp = namespace(Z)
    if y.shape[1] == 1:
        return xp.sum(y[:, 0, :, 0] * Z, axis=1)[:, None, None]
    return xp.sum(y * Z[:, None, :, None], axis=2)


def _product(Z: Float[Array, "n q"], A: Float[Array, "qc qc"]) -> Float[Array, "n c q c"]:
    """Return Σ_j z_j A[j, ...] for every row."""
    xp = namespace(Z)
    n, q = Z.shape
    c = A.shape[0] // q
    return xp.reshape(Z @ xp.reshape(A, (q, -1)), (n, c, q, c))

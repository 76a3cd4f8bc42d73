"""Woodbury in the space of the labelled rows: for few rows and many features.

Write L Lᵀ for the curvature of the rows (block diagonal, in the contrasts), G = X Xᵀ/ρ,
and P = L (I + Lᵀ G L)⁻¹ Lᵀ = (Λ⁻¹ + G)⁻¹. Then with t = X g_w/ρ the weights of 𝓗⁻¹g are

    v_w = (g_w - Xᵀ P (t + v_b)) / ρ,      v_b = (1ᵀP1 + ρ_b)⁻¹ (g_b - 1ᵀ P t)

with v_b the intercepts. The Schur complement 1ᵀP1 = D - BᵀA⁻¹B of a free intercept comes
without the cancellation of that difference, and X is only ever multiplied, so sparse rows
stay sparse.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float

from goalward.core.arrays import Array, cholesky, namespace
from goalward.solvers.solution import Apply, Direct, LinearCurvature, uniform_penalty


@dataclass(frozen=True)
class Dual(Direct):
    """Factor the n(K-1) x n(K-1) matrix I + LᵀGL of the labelled rows.

    Costs n²d for the Gram matrix and (nK)³/3 to factor, whatever the number of features.

    Examples
    --------
    >>> Dual()
    Dual(tol=None)
    """

    def factored(self, hessian: LinearCurvature) -> Apply:
        """Return 𝓗⁻¹ in the effective directions."""
        rho, rho_intercept = uniform_penalty(hessian)
        L = hessian.factors()
        xp = namespace(L)
        n_rows, n_contrasts, _ = L.shape
        X = hessian.labelled.X
        # (LᵀGL) has blocks G_ij LᵢᵀLⱼ: one product of the stacked factors.
        stacked = xp.reshape(xp.permute_dims(L, (0, 2, 1)), (n_rows * n_contrasts, n_contrasts))
        inner = xp.reshape(stacked @ stacked.T, (n_rows, n_contrasts, n_rows, n_contrasts))
        inner = inner * (hessian.labelled.gram / rho)[:, None, :, None]
        size = n_rows * n_contrasts
        inner = xp.reshape(inner, (size, size))
        inner = inner + xp.eye(size, dtype=L.dtype, device=L.device)
        factor = cholesky(inner)

        def apply_P(t: Float[Array, "n c"]) -> Float[Array, "n c"]:
            down = xp.matmul(xp.permute_dims(L, (0, 2, 1)), t[:, :, None])
            solved = xp.reshape(factor(xp.reshape(down, (-1,))), (n_rows, n_contrasts, 1))
            return xp.matmul(L, solved)[:, :, 0]

        if hessian.intercept:
            columns = xp.permute_dims(L, (0, 2, 1))  # Lᵀ(1 ⊗ I), one column per contrast
            columns = xp.reshape(columns, (size, n_contrasts))
            schur = columns.T @ factor(columns)
            schur = schur + rho_intercept * xp.eye(n_contrasts, dtype=L.dtype, device=L.device)
            solve_intercept = cholesky(schur)

        def inverse(g: Float[Array, "p c"]) -> Float[Array, "p c"]:
            if not hessian.intercept:
                return (g - X.T @ apply_P(X @ g / rho)) / rho
            weights, intercept = g[:-1, :], g[-1, :]
            t = X @ weights / rho
            v_b = solve_intercept(intercept - xp.sum(apply_P(t), axis=0))
            v_w = (weights - X.T @ apply_P(t + v_b[None, :])) / rho
            return xp.concat([v_w, v_b[None, :]], axis=0)

        return inverse

"""Cholesky factorisation of the dense Hessian, for few features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import (
    Array,
    Rows,
    cholesky,
    dense,
    is_sparse,
    like,
    namespace,
    pairs,
    rows_at,
    scale_rows,
    with_constant,
)
from goalward.solvers.solution import Apply, Direct, LinearCurvature, uniform_penalty


@dataclass(frozen=True)
class Cholesky(Direct):
    """Factor the p(K-1) x p(K-1) Hessian, best while p(K-1) is at most a few thousand.

    Examples
    --------
    >>> Cholesky()
    Cholesky(tol=None)
    """

    def factored(self, hessian: LinearCurvature) -> Apply:
        X = with_constant(hessian.labelled.X) if hessian.intercept else hessian.labelled.X
        factor = cholesky(dense_curvature(X, hessian.blocks(), hessian.penalty))

        xp = namespace(hessian.penalty)
        return lambda g: xp.reshape(factor(xp.reshape(g, (-1,))), g.shape)


def dense_curvature(
    X: Rows, blocks: Float[Array, "n c c"], penalty: Float[Array, " p"] | None = None
) -> Float[Array, "pc pc"]:
    """Return Σ xxᵀ ⊗ block + diag(ρ), rows and columns ordered (feature, contrast)."""
    xp = namespace(blocks)
    n_params, n_contrasts = X.shape[1], blocks.shape[-1]
    if n_contrasts == 1:
        H = _weighted_gram(X, blocks[:, 0, 0])
    else:
        # One product avoids the loop, but stores all pairs of features: not for up to four classes.
        few = n_contrasts > 3 and n_params <= 64 and not is_sparse(X)
        loop = _class_loop if type(X) is np.ndarray or is_sparse(X) else _class_stack
        grid = _pair_product(X, blocks) if few else loop(X, blocks)
        size = n_params * n_contrasts
        H = xp.reshape(xp.permute_dims(grid, (2, 0, 3, 1)), (size, size))
    if penalty is None:
        return H
    ridge = xp.reshape(xp.broadcast_to(penalty[:, None], (n_params, n_contrasts)), (-1,))
    return H + ridge[:, None] * xp.eye(H.shape[0], dtype=H.dtype, device=H.device)


def _weighted_gram(X: Rows, weights: Float[Array, " n"]) -> Float[Array, "p p"]:
    """Return Xᵀ diag(weights) X; weights ≥ 0 allow a symmetric product at half the work."""
    if type(X) is np.ndarray and np.all(weights >= 0.0):
        root = np.sqrt(weights)[:, None] * X
        return root.T @ root
    return dense(X.T @ scale_rows(X, weights))


def _pair_product(X: Array, blocks: Float[Array, "n c c"]) -> Float[Array, "c c p p"]:
    xp = namespace(X, blocks)
    n_rows, n_params = X.shape
    n_contrasts = blocks.shape[-1]
    upper, lower = np.triu_indices(n_params)
    position = np.empty((n_params, n_params), dtype=np.int64)
    position[upper, lower] = position[lower, upper] = np.arange(len(upper))
    packed = xp.reshape(blocks, (n_rows, n_contrasts**2)).T @ pairs(X)
    full = xp.take(packed, like(position.reshape(-1), X), axis=1)
    return xp.reshape(full, (n_contrasts, n_contrasts, n_params, n_params))


def _class_stack(X: Array, blocks: Float[Array, "n c c"]) -> Float[Array, "c c p p"]:
    """Return the same in fewer calls, for GPUs."""
    xp = namespace(X, blocks)
    (n, p), c = X.shape, blocks.shape[-1]
    grid = xp.zeros((c * c, p, p), dtype=X.dtype, device=X.device)
    step = max(1, 2**24 // (c * c * p))
    for i in range(0, n, step):
        rows, some = rows_at(X, slice(i, i + step)), rows_at(blocks, slice(i, i + step))
        weights = xp.reshape(some, (-1, c * c)).T
        grid = grid + rows.T @ (weights[:, :, None] * rows)
    return xp.reshape(grid, (c, c, p, p))


def _class_loop(X: Array, blocks: Float[Array, "n c c"]) -> Float[Array, "c c p p"]:
    xp = namespace(blocks)
    n_contrasts = blocks.shape[-1]
    rows: list[list[Array]] = []
    for a in range(n_contrasts):
        done = [rows[b][a] for b in range(a)]
        fresh = [_weighted_gram(X, blocks[:, a, b]) for b in range(a, n_contrasts)]
        rows.append(done + fresh)
    return xp.stack([xp.stack(row) for row in rows])


# Woodbury in the space of the labelled rows, for few rows and many features.


@dataclass(frozen=True)
class Dual(Direct):
    """Factor the n(K-1) x n(K-1) matrix I + LᵀGL of the labelled rows, for many features.

    Examples
    --------
    >>> Dual()
    Dual(tol=None)
    """

    def factored(self, hessian: LinearCurvature) -> Apply:
        rho, rho_intercept = uniform_penalty(hessian)
        L = hessian.factors()
        xp = namespace(L)
        n_rows, n_contrasts, _ = L.shape
        X = hessian.labelled.X
        # LᵀGL has blocks G_ij LᵢᵀLⱼ: one product of the stacked factors.
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

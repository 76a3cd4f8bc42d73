"""Cholesky of the dense Hessian: for few features."""

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
from goalward.solvers.solution import Apply, Direct, LinearCurvature


@dataclass(frozen=True)
class Cholesky(Direct):
    """Factor the p(K-1) x p(K-1) Hessian.

    Costs n p²K² to build and (pK)³/3 to factor; then any number of right-hand sides are
    cheap. The best choice while p(K-1) is at most a few thousand.

    Examples
    --------
    >>> Cholesky()
    Cholesky(tol=None)
    """

    def factored(self, hessian: LinearCurvature) -> Apply:
        """Return 𝓗⁻¹ in the effective directions."""
        X = with_constant(hessian.labelled.X) if hessian.intercept else hessian.labelled.X
        factor = cholesky(dense_curvature(X, hessian.blocks(), hessian.penalty))

        def inverse(g: Float[Array, "p c"]) -> Float[Array, "p c"]:
            xp = namespace(g)
            return xp.reshape(factor(xp.reshape(g, (-1,))), g.shape)

        return inverse


def dense_curvature(
    X: Rows, blocks: Float[Array, "n c c"], penalty: Float[Array, " p"] | None = None
) -> Float[Array, "pc pc"]:
    """Return Σ xxᵀ ⊗ block + diag(ρ), rows and columns ordered (feature, contrast)."""
    xp = namespace(blocks)
    n_params, n_contrasts = X.shape[1], blocks.shape[-1]
    if n_contrasts == 1:
        H = _weighted_gram(X, blocks[:, 0, 0])
    else:
        # Feature pairs times class pairs: one product where the pairs are few, else one
        # product of features for each pair of classes. Same flops; the first has no loop, but
        # writes all pairs of every row down, which up to four classes are not worth.
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
    """Return Xᵀ diag(weights) X; of weights with a root half of it, which is all there is to know."""
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
    """Return the same in few calls, which on a GPU take longer than what they compute."""
    xp = namespace(X, blocks)
    (n, p), c = X.shape, blocks.shape[-1]
    grid, step = (
        xp.zeros((c * c, p, p), dtype=X.dtype, device=X.device),
        max(1, 2**24 // (c * c * p)),
    )
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

"""Conjugate gradients for few rows of many features: one product with XXᵀ each.

Started at zero they never leave what Xᵀ and g itself span, so every vector on the way is Xᵀa + g c,
a number c for each class, and intercepts b. With t = Xg the products and lengths that are needed
are

    X(Xᵀa + g c) = XXᵀa + t c,      ‖Xᵀa + g c‖² = ⟨a, XXᵀa + t c⟩ + c(⟨t, a⟩ + c‖g‖²)

n² numbers in place of 2nd for each class. The iterates are those of products with X and Xᵀ.
"""

from __future__ import annotations

import math

from jaxtyping import Float

from goalward.core.arrays import Array, eps, inner, is_sparse, namespace, norm
from goalward.core.threads import one_blas_thread
from goalward.solvers.solution import (
    Apply,
    LinearCurvature,
    Solution,
    Solve,
    certified,
    least_norm,
    uniform_penalty,
)

__all__ = ["by_rows", "few_rows"]

LARGE = 2**22
"""Features times rows times classes from which on XXᵀ is worth its making."""


def few_rows(hessian: LinearCurvature) -> bool:
    """Return whether the rows span so little of the features that solving there pays."""
    X, weights = hessian.labelled.X, hessian.penalty[: hessian.labelled.X.shape[1]]
    if is_sparse(X) or 2 * X.shape[0] > X.shape[1] or math.prod(X.shape) * hessian.shape[1] < LARGE:
        return False
    xp = namespace(weights)
    return float(xp.min(weights)) == float(xp.max(weights)) > 0.0


def by_rows(hessian: LinearCurvature, default: float | None, max_iter: int) -> Solve:
    """Return the map g -> 𝓗⁻¹g, solved for in the rows."""
    X = hessian.labelled.X
    d = X.shape[1]

    def solve(g: Float[Array, "p k"], *, tol: float | None = None) -> Solution:
        limit = default if tol is None else tol
        if limit is None:
            limit = 1e-8 if eps(g) < 1e-10 else 1e-4
        with one_blas_thread():  # small products, each of which would wait for the slowest thread
            xp, weights = namespace(g), g[:d, :]
            t = X @ weights
            squares = xp.sum(weights * weights, axis=0, keepdims=True)

            def lengthened(A: Float[Array, "n1 k"]) -> Float[Array, "n1 k"]:
                a, c = A[:-1, :], A[-1:, :]
                return xp.concat(
                    [
                        hessian.labelled.gram @ a + t * c,
                        xp.sum(t * a, axis=0, keepdims=True) + squares * c,
                    ]
                )

            first = xp.concat([xp.zeros_like(t), xp.ones_like(squares)])
            A, b, taken = _iterate(hessian, lengthened, first, g[d:, :], limit * norm(g), max_iter)
            v = xp.concat([X.T @ A[:-1, :] + weights * A[-1:, :], b])
            v = least_norm(v, hessian.penalty, hessian.unseen)
            # The recursion's residual drifts from the true one by rounding.
            left = g - hessian.matvec(v)
        return certified(g, left, Solution(v, 0.0, taken, "ConjugateGradient"), 2.0 * limit)

    return solve


def _iterate(
    hessian: LinearCurvature,
    lengthened: Apply,
    r: Float[Array, "n1 k"],
    r_b: Float[Array, "_ k"],
    target: float,
    max_iter: int,
) -> tuple[Float[Array, "n1 k"], Float[Array, "_ k"], int]:
    """Return (a, c) and b of 𝓗⁻¹ of (r, r_b), to a residual of `target`, and the products taken.

    `lengthened` gives what the inner product with (a, c) is the plain one with: X(Xᵀa + g c) first.
    """
    xp, (rho, rho_intercept) = namespace(r), uniform_penalty(hessian)
    A, b, p, p_b = xp.zeros_like(r), xp.zeros_like(r_b), r + 0.0, r_b
    along = lengthened(p)
    square = inner(r, along) + inner(r_b, r_b)
    for iteration in range(max_iter):
        if square <= target * target:
            return A, b, iteration
        motion = along[:-1, :]
        bent = hessian.bend(motion + p_b if hessian.intercept else motion)
        q = xp.concat([bent + rho * p[:-1, :], rho * p[-1:, :]])
        q_b = xp.sum(bent, axis=0, keepdims=True)[: b.shape[0], :] + rho_intercept * p_b
        bend = inner(along, q) + inner(p_b, q_b)
        if bend <= 0.0:
            return A, b, iteration
        step = square / bend
        # In place: these arrays are the work of a step beside its product.
        A += step * p
        r -= step * q
        b, r_b = b + step * p_b, r_b - step * q_b
        fresh = lengthened(r)
        square, before = inner(r, fresh) + inner(r_b, r_b), square
        turn = square / before
        p *= turn
        p += r
        along *= turn
        along += fresh
        p_b = r_b + turn * p_b
    return A, b, max_iter

"""Conjugate gradients and their preconditioners: matrix-free, for many unknowns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float

from goalward.core.arrays import Array, inner, is_sparse, namespace, norm
from goalward.core.cores import one_blas_thread
from goalward.solvers.solution import (
    Apply,
    Curvature,
    LinearCurvature,
    Solution,
    Solve,
    certified,
    in_basis,
    least_norm,
    tolerance,
    uniform_penalty,
)

# Conjugate gradients for few rows of many features. Started at zero, every vector is Xᵀa + g c with
# intercepts b, so products take XXᵀ (n² numbers) in place of X and Xᵀ (2nd). With t = Xg:
#
#     X(Xᵀa + g c) = XXᵀa + t c,      ‖Xᵀa + g c‖² = ⟨a, XXᵀa + t c⟩ + c(⟨t, a⟩ + c‖g‖²)


LARGE = 2**22
"""Features times rows times classes from which XXᵀ pays."""


def few_rows(hessian: LinearCurvature) -> bool:
    """Return whether there are so few rows that solving in their span pays."""
    X, weights = hessian.labelled.X, hessian.penalty[: hessian.labelled.X.shape[1]]
    if is_sparse(X) or 2 * X.shape[0] > X.shape[1] or math.prod(X.shape) * hessian.shape[1] < LARGE:
        return False
    xp = namespace(weights)
    return float(xp.min(weights)) == float(xp.max(weights)) > 0.0


def by_rows(hessian: LinearCurvature, default: float | None, max_iter: int) -> Solve:
    """Return the map g -> 𝓗⁻¹g, solved in the span of the rows."""
    X = hessian.labelled.X
    d = X.shape[1]

    def solve(g: Float[Array, "p k"], *, tol: float | None = None) -> Solution:
        limit = tolerance(g, tol, default)
        with one_blas_thread():  # small products, each of which would wait for the slowest thread
            xp, weights = namespace(g), g[:d, :]
            t = X @ weights
            squares = xp.sum(weights * weights, axis=0, keepdims=True)

            def lengthened(A: Float[Array, "n1 k"]) -> Float[Array, "n1 k"]:
                a, c = A[:-1, :], A[-1:, :]
                last = xp.sum(t * a, axis=0, keepdims=True) + squares * c
                return xp.concat([hessian.labelled.gram @ a + t * c, last])

            first = xp.concat([xp.zeros_like(t), xp.ones_like(squares)])
            A, b, taken = _iterate_products(
                hessian, lengthened, first, g[d:, :], limit * norm(g), max_iter
            )
            v = xp.concat([X.T @ A[:-1, :] + weights * A[-1:, :], b])
            v = least_norm(v, hessian.penalty, hessian.unseen)
            # The recursive residual drifts from the true one by rounding.
            left = g - hessian.matvec(v)
        return certified(g, left, Solution(v, 0.0, taken, "ConjugateGradient"), 2.0 * limit)

    return solve


def _iterate_products(
    hessian: LinearCurvature,
    lengthened: Apply,
    r: Float[Array, "n1 k"],
    r_b: Float[Array, "_ k"],
    target: float,
    max_iter: int,
) -> tuple[Float[Array, "n1 k"], Float[Array, "_ k"], int]:
    """Return (a, c) and b of 𝓗⁻¹(r, r_b), and the number of products taken."""
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
        # In place: beside the product, these arrays dominate a step.
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


LARGEST_EIGENPROBLEM = 4096
"""Features or rows up to which XᵀX is decomposed (16 million numbers)."""

SAVED = 40
"""Products that the Kronecker preconditioner saves on large problems."""


@dataclass(frozen=True)
class ConjugateGradient:
    """Solve by products with 𝓗 alone.

    Parameters
    ----------
    tol
        The relative residual above which `NotConverged` is raised.
    max_iter
        Largest number of products with 𝓗.

    Examples
    --------
    >>> ConjugateGradient(tol=1e-6)
    ConjugateGradient(tol=1e-06, max_iter=2000)
    """

    tol: float | None = None
    max_iter: int = 2000

    def prepare(self, hessian: Any) -> Solve:
        linear: LinearCurvature | None = hessian if hessian.is_linear else None
        if linear is not None and few_rows(linear):
            return by_rows(linear, self.tol, self.max_iter)
        one = _OneColumn(linear) if linear is not None and linear.basis.shape[1] == 1 else None
        near = _preconditioner(one or linear)
        return by_products(hessian, near, "ConjugateGradient", self.tol, self.max_iter, one)


def by_products(
    hessian: Any,
    near: Apply,
    name: str,
    default: float | None,
    max_iter: int,
    one: _OneColumn | None = None,
) -> Solve:
    """Return the map g -> 𝓗⁻¹g preconditioned by `near`; two classes are solved in `one` column."""

    def solve(g: Float[Array, "p k"], *, tol: float | None = None) -> Solution:
        limit, taken = tolerance(g, tol, default), 0

        def products(b: Float[Array, "p c"]) -> Float[Array, "p c"]:
            nonlocal taken
            v, taken = _iterate(one or hessian, b, near, limit, max_iter)
            return v

        if one is not None:
            v = in_basis(one.hessian, g, products)
        else:
            v = products(g)
            if hessian.is_linear:
                v = least_norm(v, hessian.penalty, hessian.unseen)
        # The recursive residual drifts from the true one by rounding.
        left = g - hessian.matvec(v)
        return certified(g, left, Solution(v, 0.0, taken, name), 2.0 * limit)

    return solve


def _iterate(
    hessian: Curvature | _OneColumn, g: Float[Array, "p k"], near: Apply, tol: float, max_iter: int
) -> tuple[Float[Array, "p k"], int]:
    """Return 𝓗⁻¹g by preconditioned conjugate gradients from zero, and the products taken."""
    v = g * 0.0
    residual = g
    target = tol * norm(g)
    z = near(residual)
    direction = z
    rz = inner(residual, z)
    for iteration in range(max_iter):
        if norm(residual) <= target:
            return v, iteration
        product = hessian.matvec(direction)
        bend = inner(direction, product)
        if bend <= 0.0:
            return v, iteration
        step = rz / bend
        v = v + step * direction
        residual = residual - step * product
        z = near(residual)
        rz, before = inner(residual, z), rz
        direction = z + (rz / before) * direction
    return v, max_iter


class _OneColumn:
    """The Hessian of two classes in one column, Xᵀ diag(2 w p₀p₁) X + ρ, at half the work."""

    def __init__(self, hessian: LinearCurvature) -> None:
        self.labelled, self.penalty = hessian.labelled, hessian.penalty
        self.intercept = hessian.intercept
        self.shape = (hessian.shape[0], 1)
        self.bend: Float[Array, " n"] = hessian.factors()[:, 0, 0] ** 2
        self.hessian = hessian

    def matvec(self, v: Float[Array, "p 1"]) -> Float[Array, "p 1"]:
        X, column = self.labelled.X, v[:, 0]
        if not self.intercept:
            return (X.T @ (self.bend * (X @ column)) + self.penalty * column)[:, None]
        xp = namespace(v)
        bent = self.bend * (X @ column[:-1] + column[-1])
        pulled = xp.concat([X.T @ bent, xp.sum(bent, keepdims=True)])
        return (pulled + self.penalty * column)[:, None]

    def mean_curvature(self) -> Float[Array, "1 1"]:
        xp = namespace(self.bend)
        return xp.reshape(xp.sum(self.bend) / xp.sum(self.labelled.weights), (1, 1))

    def diagonal(self) -> Float[Array, "p 1"]:
        return self.hessian.diagonal()[:, :1]


def _preconditioner(curvature: LinearCurvature | _OneColumn | None) -> Apply:
    """Return an approximate inverse: (mean Λ) ⊗ XᵀX + ρ where it pays, else the diagonal.

    Without a linear curvature only products are known, and it is the identity.
    """
    if curvature is None:
        return lambda r: r
    n_rows, (n_params, n_columns) = len(curvature.labelled), curvature.shape
    size = min(n_rows, n_params)
    small = size <= LARGEST_EIGENPROBLEM and not is_sparse(curvature.labelled.X)
    # Eigenvectors take about 25 s³ flops for s = min(n, p), a product 4 n p K.
    if small and 25 * size**3 < SAVED * 4 * n_rows * n_params * n_columns:
        return _kronecker(curvature)
    diagonal = curvature.diagonal()
    return lambda r: r / diagonal


def _kronecker(curvature: LinearCurvature | _OneColumn) -> Apply:
    """Return the inverse of (mean Λ) ⊗ XᵀWX + ρ by eigenvectors; intercepts get the weights' ρ."""
    xp = namespace(curvature.penalty)
    class_values, class_vectors = xp.linalg.eigh(curvature.mean_curvature())
    class_values = xp.maximum(class_values, xp.zeros_like(class_values))
    values, vectors = curvature.labelled.spectrum(curvature.intercept)
    ridge = float(xp.max(curvature.penalty))
    scale = values[:, None] * class_values[None, :] + ridge
    if vectors.shape[0] == vectors.shape[1]:
        return lambda r: vectors @ ((vectors.T @ r @ class_vectors) / scale) @ class_vectors.T

    def precondition(r: Float[Array, "p k"]) -> Float[Array, "p k"]:
        seen = vectors.T @ r
        bent = (seen @ class_vectors / scale) @ class_vectors.T
        return vectors @ (bent - seen / ridge) + r / ridge

    return precondition

"""Preconditioned conjugate gradients: matrix-free, for many unknowns."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float

from goalward.core.arrays import Array, eps, inner, norm
from goalward.solvers.binary import Binary
from goalward.solvers.gauge import least_norm, solve_in_contrasts
from goalward.solvers.preconditioners import Precondition, preconditioner
from goalward.solvers.solution import Curvature, Solution, Solve, certified, is_linear

__all__ = ["ConjugateGradient", "iterate"]


@dataclass(frozen=True)
class ConjugateGradient:
    """Solve by products with 𝓗 alone.

    Started at zero, the iterates stay in the range of 𝓗; what a preconditioner adds along
    the flat direction of a free intercept is taken off at the end.

    Parameters
    ----------
    tol
        The relative residual to reach; `NotConverged` is raised where it is not.
    max_iter
        Products with 𝓗 allowed.
    preconditioner
        "kronecker" inverts (mean Λ) ⊗ XᵀX + ρ through two eigendecompositions, "jacobi"
        divides by the diagonal, "none" does nothing. "auto" takes the first for linear models
        where its eigenvectors cost less than the products they save (up to 4096 features or
        rows), the second for others, and none for models that are not linear.

    Examples
    --------
    >>> ConjugateGradient(tol=1e-6)
    ConjugateGradient(tol=1e-06, max_iter=2000, preconditioner='auto')
    """

    tol: float | None = None
    max_iter: int = 2000
    preconditioner: str = "auto"

    def prepare(self, hessian: Curvature) -> Solve:
        """Return the map g -> 𝓗⁻¹g."""
        binary = Binary(hessian) if is_linear(hessian) and hessian.shape[1] == 2 else None
        precondition = preconditioner(self.preconditioner, binary or hessian)

        def solve(g: Float[Array, "p k"], *, tol: float | None = None) -> Solution:
            limit = tol if tol is not None else self.tol
            if limit is None:
                limit = 1e-8 if eps(g) < 1e-10 else 1e-4
            taken = 0

            def products(b: Float[Array, "p c"]) -> Float[Array, "p c"]:
                nonlocal taken
                v, taken = iterate(binary or hessian, b, precondition, limit, self.max_iter)
                return v

            if binary is not None:
                v = solve_in_contrasts(g, hessian.penalty, products)
            else:
                v = products(g)
                v = least_norm(v, hessian.penalty) if is_linear(hessian) else v
            # The recursion's residual drifts from the true one by rounding.
            solution = Solution(v, 0.0, taken, "ConjugateGradient")
            return certified(hessian, g, solution, 2.0 * limit)

        return solve


def iterate(
    hessian: Curvature,
    g: Float[Array, "p k"],
    precondition: Precondition,
    tol: float,
    max_iter: int,
) -> tuple[Float[Array, "p k"], int]:
    """Return 𝓗⁻¹g by preconditioned conjugate gradients from zero, and the products taken."""
    v = g * 0.0
    residual = g
    target = tol * norm(g)
    z = precondition(residual)
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
        z = precondition(residual)
        rz, before = inner(residual, z), rz
        direction = z + (rz / before) * direction
    return v, max_iter

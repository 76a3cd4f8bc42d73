"""Preconditioned conjugate gradients: matrix-free, for many unknowns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float

from goalward.arrays import Array, dense, eps, namespace, norm, scale_rows
from goalward.errors import BadParameter
from goalward.solvers.gauge import least_norm
from goalward.solvers.solution import Curvature, LinearCurvature, Solution, Solve, certified

__all__ = ["ConjugateGradient", "iterate"]

Precondition = Callable[[Float[Array, "p k"]], Float[Array, "p k"]]

LARGEST_EIGENPROBLEM = 2048
"""Features up to which an eigendecomposition of XᵀX is cheaper than what it saves."""


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
        divides by the diagonal, "none" does nothing. "auto" takes the first for linear
        models of up to 2048 features, the second for wider ones, and none for other models.

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
        precondition = self._preconditioner(hessian)

        def solve(g: Float[Array, "p k"], *, tol: float | None = None) -> Solution:
            limit = tol if tol is not None else self.tol
            if limit is None:
                limit = 1e-8 if eps(g) < 1e-10 else 1e-4
            v, iterations = iterate(hessian, g, precondition, limit, self.max_iter)
            if isinstance(hessian, LinearCurvature):
                v = least_norm(v, hessian.penalty)
            solution = Solution(v, 0.0, iterations, "ConjugateGradient")
            # The recursion's residual drifts from the true one by rounding.
            return certified(hessian, g, solution, 2.0 * limit)

        return solve

    def _preconditioner(self, hessian: Curvature) -> Precondition:
        match self.preconditioner:
            case "auto":
                if not isinstance(hessian, LinearCurvature):
                    return lambda r: r
                if hessian.shape[0] <= LARGEST_EIGENPROBLEM:
                    return _kronecker(hessian)
                return _jacobi(hessian)
            case "kronecker":
                return _kronecker(_linear(hessian))
            case "jacobi":
                return _jacobi(_linear(hessian))
            case "none":
                return lambda r: r
            case other:
                raise BadParameter(
                    f"preconditioner={other!r}; 'auto', 'kronecker', 'jacobi' or 'none' was "
                    "expected. Leave it at 'auto'."
                )


def _linear(hessian: Curvature) -> LinearCurvature:
    if isinstance(hessian, LinearCurvature):
        return hessian
    raise BadParameter(
        "This preconditioner reads the rows of a linear model, and another model came. "
        "Use preconditioner='none'."
    )


def iterate(
    hessian: Curvature,
    g: Float[Array, "p k"],
    precondition: Precondition,
    tol: float,
    max_iter: int,
) -> tuple[Float[Array, "p k"], int]:
    """Return 𝓗⁻¹g by preconditioned conjugate gradients from zero, and the products taken."""
    xp = namespace(g)
    v = xp.zeros_like(g)
    residual = g
    target = tol * norm(g)
    z = precondition(residual)
    direction = z
    rz = float(xp.sum(residual * z))
    for iteration in range(max_iter):
        if norm(residual) <= target:
            return v, iteration
        product = hessian.matvec(direction)
        bend = float(xp.sum(direction * product))
        if bend <= 0.0:
            return v, iteration
        step = rz / bend
        v = v + step * direction
        residual = residual - step * product
        z = precondition(residual)
        rz, before = float(xp.sum(residual * z)), rz
        direction = z + (rz / before) * direction
    return v, max_iter


def _jacobi(hessian: LinearCurvature) -> Precondition:
    diagonal = hessian.diagonal()
    return lambda r: r / diagonal


def _kronecker(hessian: LinearCurvature) -> Precondition:
    """Return the inverse of (mean Λ) ⊗ XᵀWX + ρ, by eigenvectors of both factors.

    A free intercept has ρ = 0 in its row only, which would break the product form; it is
    given the penalty of the weights here, which costs a preconditioner nothing.
    """
    xp = namespace(hessian.proba)
    p, w = hessian.proba, hessian.weights
    share = w / xp.sum(w)
    mean = xp.sum(share[:, None] * p, axis=0)
    bend = xp.eye(p.shape[1], dtype=p.dtype, device=p.device) * mean[:, None]
    bend = bend - p.T @ (share[:, None] * p)
    scaled = scale_rows(hessian.X, w)
    spread = dense(hessian.X.T @ scaled)
    if hessian.intercept:
        total = hessian.X.T @ w
        top = xp.concat([spread, total[:, None]], axis=1)
        bottom = xp.concat([total, xp.sum(w, keepdims=True)])
        spread = xp.concat([top, bottom[None, :]], axis=0)
    class_values, class_vectors = xp.linalg.eigh(bend)
    values, vectors = xp.linalg.eigh(spread)
    zero = xp.zeros_like(values[:1])
    values = xp.maximum(values, zero)
    class_values = xp.maximum(class_values, zero)
    ridge = float(xp.max(hessian.penalty))
    scale = values[:, None] * class_values[None, :] + ridge
    return lambda r: vectors @ ((vectors.T @ r @ class_vectors) / scale) @ class_vectors.T

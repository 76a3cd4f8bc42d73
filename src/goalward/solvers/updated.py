"""An inverse that follows the model as rows are added, made exact by a few iterations."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float

from goalward.core.arrays import Array, cholesky, is_sparse, namespace
from goalward.solvers.cholesky import dense_curvature, with_constant
from goalward.solvers.conjugate_gradient import iterate
from goalward.solvers.gauge import least_norm, solve_in_contrasts
from goalward.solvers.solution import LinearCurvature, Solution, Solve, certified

__all__ = ["Updated", "fits"]


@dataclass(frozen=True, eq=False)
class Updated:
    """Conjugate gradients preconditioned by the inverse of a Hessian nearby.

    A row with curvature Λ changes 𝓗⁻¹ by rank K-1 (Woodbury), which costs (pK)²K instead of a
    factorisation. What else has moved since the inverse was made, the iterations take up, so
    that the solution is that of the Hessian given.

    Parameters
    ----------
    inverse
        (pc, pc) inverse in the K-1 contrasts, rows ordered (feature, contrast).

    Examples
    --------
    >>> from goalward.testing import problem
    >>> task = problem()
    >>> solver = Updated.of(task.fitted.hessian)
    >>> solver.prepare(task.fitted.hessian)(task.goal.gradient(task.fitted)).iterations
    1
    """

    inverse: Float[Array, "pc pc"] = field(repr=False)
    tol: float | None = None

    @classmethod
    def of(cls, hessian: LinearCurvature) -> Updated:
        """Return the solver of a Hessian, its inverse made once."""
        X = with_constant(hessian.X, hessian.proba) if hessian.intercept else hessian.X
        H = dense_curvature(X, hessian.blocks(), hessian.penalty)
        xp = namespace(H)
        eye = xp.eye(H.shape[0], dtype=H.dtype, device=H.device)
        return cls(cholesky(H)(eye))

    def added(self, x: Float[Array, "1 p"], block: Float[Array, "c c"]) -> Updated:
        """Return the solver after a row with curvature `block` has been added.

        𝓗⁻¹ - y (I + ΛM)⁻¹ Λ yᵀ with y = 𝓗⁻¹Jᵀ and M = J y.
        """
        xp = namespace(block)
        c = block.shape[0]
        eye = xp.eye(c, dtype=block.dtype, device=block.device)
        J = xp.reshape(eye[:, None, :] * x[0, :][None, :, None], (c, -1))
        y = self.inverse @ J.T
        inner = xp.linalg.solve(eye + block @ (J @ y), block)
        return Updated(self.inverse - y @ inner @ y.T, self.tol)

    def prepare(self, hessian: LinearCurvature) -> Solve:
        """Return the map g -> 𝓗⁻¹g."""
        n_params, n_classes = hessian.shape

        def near(r: Float[Array, "p c"]) -> Float[Array, "p c"]:
            xp = namespace(r)
            flat = self.inverse @ xp.reshape(r, (-1,))
            return xp.reshape(flat, (n_params, n_classes - 1))

        def solve(g: Float[Array, "p k"], *, tol: float | None = None) -> Solution:
            limit = tol if tol is not None else (1e-8 if self.tol is None else self.tol)
            v, iterations = iterate(
                hessian, g, lambda r: solve_in_contrasts(r, hessian.penalty, near), limit, 500
            )
            v = least_norm(v, hessian.penalty)
            return certified(hessian, g, Solution(v, 0.0, iterations, "Updated"), 2.0 * limit)

        return solve


def fits(hessian: LinearCurvature, largest: int = 2500) -> bool:
    """Return whether an inverse by features is worth holding for this Hessian."""
    n_params, n_classes = hessian.shape
    size = n_params * (n_classes - 1)
    rows = hessian.proba.shape[0] * (n_classes - 1)
    return not is_sparse(hessian.X) and 100 <= size <= largest and rows >= size / 2

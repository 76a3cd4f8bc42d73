"""The choice of solver, made from estimated work and said aloud."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float

from goalward.arrays import Array, is_sparse, namespace
from goalward.errors import BadParameter
from goalward.solvers.cholesky import Cholesky
from goalward.solvers.conjugate_gradient import ConjugateGradient
from goalward.solvers.dual import Dual
from goalward.solvers.solution import Curvature, LinearCurvature, Solution, Solve, Solver

__all__ = ["Auto", "named"]


@dataclass(frozen=True)
class Auto:
    """The cheapest of Cholesky, Dual and ConjugateGradient for the problem at hand.

    Direct solvers are compared by their flops; above `largest` unknowns neither fits and
    conjugate gradients take over. `Solution.reason` says what was picked and why.

    Parameters
    ----------
    tol
        The relative residual above which `NotConverged` is raised.
    largest
        Unknowns up to which a dense matrix is factored (8 n² bytes; 5000 is 200 MB).

    Examples
    --------
    >>> Auto()
    Auto(tol=None, largest=5000)
    """

    tol: float | None = None
    largest: int = 5000

    def prepare(self, hessian: Curvature) -> Solve:
        """Return the map g -> 𝓗⁻¹g of the solver picked."""
        solver, reason = self.pick(hessian)
        inner = solver.prepare(hessian)

        def solve(g: Float[Array, "p k"], *, tol: float | None = None) -> Solution:
            return replace(inner(g, tol=tol), reason=reason)

        return solve

    def pick(self, hessian: Curvature) -> tuple[Solver, str]:
        """Return the solver for `hessian`, and why."""
        if not isinstance(hessian, LinearCurvature):
            return ConjugateGradient(tol=self.tol), "the model is known by its products only"
        n_params, n_classes = hessian.shape
        n_rows = hessian.proba.shape[0]
        contrasts = n_classes - 1
        primal, dual = n_params * contrasts, n_rows * contrasts
        stored = hessian.X.nnz / n_rows if is_sparse(hessian.X) else n_params
        cost = {
            "Cholesky": n_rows * stored * n_params * contrasts**2 + primal**3 / 3,
            "Dual": n_rows**2 * (stored + contrasts**3) + dual**3 / 3,
        }
        uniform = _uniform_weights(hessian)
        if dual <= self.largest and uniform and cost["Dual"] < cost["Cholesky"]:
            return Dual(self.tol), f"{dual} unknowns by rows against {primal} by features"
        if primal <= self.largest:
            return Cholesky(self.tol), f"{primal} unknowns by features against {dual} by rows"
        if dual <= self.largest and uniform:
            return Dual(self.tol), f"{dual} unknowns by rows against {primal} by features"
        return ConjugateGradient(tol=self.tol), (
            f"{min(primal, dual)} unknowns are more than the {self.largest} to be factored"
        )


def _uniform_weights(hessian: LinearCurvature) -> bool:
    xp = namespace(hessian.penalty)
    penalty = hessian.penalty[:-1] if hessian.intercept else hessian.penalty
    return bool(xp.all(penalty == penalty[0]))


def named(solver: str | Solver) -> Solver:
    """Return the solver a name stands for: "auto", "cholesky", "dual" or "cg"."""
    if not isinstance(solver, str):
        return solver
    known: dict[str, Solver] = {
        "auto": Auto(),
        "cholesky": Cholesky(),
        "dual": Dual(),
        "cg": ConjugateGradient(),
    }
    if solver not in known:
        raise BadParameter(
            f"solver={solver!r}; one of {', '.join(map(repr, known))} or a solver object "
            "was expected. Leave it at 'auto'."
        )
    return known[solver]

"""Choice of the solver by estimated time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float

from goalward.core.arguments import in_place
from goalward.core.arrays import Array, is_sparse, namespace, norm
from goalward.errors import BadParameter, NotConverged
from goalward.solvers.cholesky import Cholesky, Dual
from goalward.solvers.conjugate_gradient import ConjugateGradient
from goalward.solvers.solution import Curvature, LinearCurvature, Solution, Solve, Solver, tolerance


@dataclass(frozen=True)
class GradientStep:
    """One step of gradient descent, rate · g, in place of 𝓗⁻¹g.

    `FirstOrder(solver=GradientStep())` is the utility of GLISTER (Killamsetty et al. 2021); `rate`
    scales all utilities and changes no ranking.

    Examples
    --------
    >>> import goalward as gw
    >>> gw.utility.FirstOrder(solver=GradientStep(rate=0.1))
    FirstOrder(solver=GradientStep(rate=0.1), per_row_penalty=False)
    """

    rate: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.rate < float("inf"):
            raise BadParameter(
                f"rate must be above 0, got {self.rate!r}. Leave it at 1: it changes no ranking."
            )

    def prepare(self, hessian: Curvature) -> Solve:
        """Return the map g -> rate · g, with its residual under 𝓗."""

        def solve(g: Float[Array, "p k"], *, tol: float | None = None) -> Solution:
            v, size = self.rate * g, norm(g)
            residual = norm(hessian.matvec(v) - g) / size if size > 0.0 else 0.0
            return Solution(v, residual, 0, "GradientStep", "no curvature was asked for")

        return solve


GAVE_UP = "conjugate gradients gave up"

PER_DIGIT = 4.0
"""Products of conjugate gradients per decimal of the residual."""


@dataclass(frozen=True)
class Auto:
    """The cheapest of Cholesky, Dual and ConjugateGradient for the problem at hand.

    Conjugate gradients are tried up to the cost of a factorisation, then 𝓗 is factored.

    Parameters
    ----------
    tol
        The relative residual above which `NotConverged` is raised.
    largest
        Unknowns up to which a dense matrix is factored (8 n² bytes; 5000 is 200 MB).
    iterate
        Whether conjugate gradients may be tried where a factorisation is possible.

    Examples
    --------
    >>> Auto()
    Auto(tol=None, largest=5000, iterate=True)
    """

    tol: float | None = None
    largest: int = 5000
    iterate: bool = True

    def prepare(self, hessian: Any) -> Solve:
        """Return the map g -> 𝓗⁻¹g; the solver is chosen at the first call."""
        linear = hessian if hessian.is_linear else None
        direct, seconds, product, reason = self._direct(linear)
        made: dict[str, Solve] = {}

        def solve(g: Float[Array, "p k"], *, tol: float | None = None) -> Solution:
            if direct is None:
                if "cg" not in made:
                    made["cg"] = ConjugateGradient(tol=self.tol).prepare(hessian)
                return replace(made["cg"](g, tol=tol), reason=reason)
            limit = tolerance(g, tol, self.tol)
            guess = PER_DIGIT * -math.log10(min(max(limit, 1e-16), 0.5))
            gave_up = ""
            if self.iterate and "direct" not in made and guess * product < seconds:
                patience = int(seconds / product)
                if "cg" not in made:
                    made["cg"] = ConjugateGradient(max_iter=patience).prepare(hessian)
                try:
                    why = f"about {guess:.0f} products against a factorisation, {reason}"
                    return replace(made["cg"](g, tol=limit), reason=why)
                except NotConverged:
                    gave_up = f"{GAVE_UP} after {patience} products; "
            if "direct" not in made:
                made["direct"] = direct.prepare(hessian)
            return replace(made["direct"](g, tol=tol), reason=gave_up + reason)

        return solve

    def _direct(self, hessian: LinearCurvature | None) -> tuple[Solver | None, float, float, str]:
        """Return the cheaper factorisation, its seconds, those of a product, and the reason."""
        if hessian is None:
            return None, 0.0, 0.0, "the model is known by its products only"
        n_params, (n_rows, n_classes) = hessian.penalty.shape[0], hessian.proba.shape
        c = max(1, n_classes - 1)
        primal, dual = n_params * c, n_rows * c
        stored = hessian.labelled.X.nnz / n_rows if is_sparse(hessian.labelled.X) else n_params
        # Measured on one core in double precision: matrix products 3e10 and Cholesky 1.5e10 flops/s,
        # elementwise passes 1e9 numbers/s, and the overhead of a call.
        product = 3e-5 + 4 * n_rows * stored * n_classes / 3e10 + 5e-9 * n_rows * n_classes
        by_features = 1e-4 + n_rows * stored * n_params * c**2 / 2e10
        by_features += primal**3 / 4.5e10 + 2e-8 * primal**2
        by_rows = 3e-4 + n_rows**2 * (stored + c**3) / 1.5e10 + dual**3 / 4.5e10 + 1e-8 * dual**2
        weights = hessian.penalty[:-1] if hessian.intercept else hessian.penalty
        uniform = bool(namespace(weights).all(weights == weights[0]))
        fits_primal, fits_dual = primal <= self.largest, dual <= self.largest and uniform
        if fits_dual and (by_rows < by_features or not fits_primal):
            reason = f"{dual} unknowns by rows against {primal} by features"
            return Dual(self.tol), by_rows, product, reason
        if fits_primal:
            reason = f"{primal} unknowns by features against {dual} by rows"
            return Cholesky(self.tol), by_features, product, reason
        reason = f"{min(primal, dual)} unknowns are more than the {self.largest} to be factored"
        return None, 0.0, product, reason


def named(solver: str | Solver) -> Solver:
    """Return the solver named "auto", "cholesky", "dual" or "cg"."""
    if not isinstance(solver, str):
        in_place(solver, "solver", "'auto' or gw.solvers.Cholesky()", "prepare", lacks="bound")
        return solver
    known: dict[str, Solver] = {
        "auto": Auto(),
        "cholesky": Cholesky(),
        "dual": Dual(),
        "cg": ConjugateGradient(),
    }
    if solver not in known:
        raise BadParameter(
            f"solver must be one of {', '.join(map(repr, known))} or a solver object, got {solver!r}. "
            "Leave it at 'auto'."
        )
    return known[solver]

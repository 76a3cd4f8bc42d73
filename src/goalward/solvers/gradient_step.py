"""No curvature: a step down the slope in place of a solution."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float

from goalward.core.arrays import Array, norm
from goalward.errors import BadParameter
from goalward.solvers.solution import Curvature, Solution, Solve

__all__ = ["GradientStep"]


@dataclass(frozen=True)
class GradientStep:
    """rate · g in place of 𝓗⁻¹g: rows move the model by one step of gradient descent.

    `FirstOrder(solver=GradientStep())` is the utility of GLISTER (Killamsetty et al. 2021). It is
    cheap and needs no definite curvature; against retraining it ranks worse than 𝓗⁻¹g.

    Parameters
    ----------
    rate
        Length of the step. It scales all utilities and changes no ranking.

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
                f"rate={self.rate!r}; a number above 0 was expected. Leave it at 1: it changes no "
                "ranking."
            )

    def prepare(self, hessian: Curvature) -> Solve:
        """Return the map g -> rate · g, with the residual that 𝓗 would find."""

        def solve(g: Float[Array, "p k"], *, tol: float | None = None) -> Solution:
            v, size = self.rate * g, norm(g)
            residual = norm(hessian.matvec(v) - g) / size if size > 0.0 else 0.0
            return Solution(v, residual, 0, "GradientStep", "no curvature was asked for")

        return solve

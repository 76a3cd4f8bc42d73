"""𝓗⁻¹ against a vector: prepare once, solve often, each solution with its residual."""

from goalward.solvers.auto import Auto, named
from goalward.solvers.cholesky import Cholesky
from goalward.solvers.conjugate_gradient import ConjugateGradient
from goalward.solvers.dual import Dual
from goalward.solvers.gradient_step import GradientStep
from goalward.solvers.inverse import Inverse
from goalward.solvers.solution import (
    Curvature,
    LinearCurvature,
    Solution,
    Solve,
    Solver,
    least_norm,
)
from goalward.solvers.updated import Updated, fits

__all__ = [
    "Auto",
    "Cholesky",
    "ConjugateGradient",
    "Curvature",
    "Dual",
    "GradientStep",
    "Inverse",
    "LinearCurvature",
    "Solution",
    "Solve",
    "Solver",
    "Updated",
    "fits",
    "least_norm",
    "named",
]

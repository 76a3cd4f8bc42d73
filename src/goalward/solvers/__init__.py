"""Solvers of 𝓗v = g, each solution with its residual."""

from goalward.solvers.auto import Auto, GradientStep, named
from goalward.solvers.cholesky import Cholesky, Dual
from goalward.solvers.conjugate_gradient import ConjugateGradient
from goalward.solvers.inverse import Inverse, Updated, fits
from goalward.solvers.solution import (
    Curvature,
    LinearCurvature,
    Solution,
    Solve,
    Solver,
    least_norm,
)

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

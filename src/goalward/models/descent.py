"""A minimum of a network's objective: Newton's method in a trust region, by products alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import minimize

from goalward.core.arrays import Array, like, norm, to_numpy
from goalward.errors import NotConverged
from goalward.models.gauss_newton import GaussNewton
from goalward.models.newton import Optimum, gradient_scale
from goalward.models.objective import Objective

__all__ = ["descend"]

STALLED = 1e-4
"""Relative gradient up to which a search that cannot go on is taken for finished."""


def descend(
    objective: Objective, start: Float[Array, "p 1"], *, tol: float = 1e-8, max_iter: int = 200
) -> Optimum:
    """Return the minimum that Newton's method reaches from `start`, to ‖∇F‖ ≤ tol · scale.

    A network has many minima; the one nearest to the trained weights is what fine-tuning
    finds. Steps are those of the Hessian itself, whose negative curvature a trust region
    turns into descent; Gauss-Newton steps would converge too, only slowly.
    """
    X, model = objective.labelled.X, objective.model
    scale = gradient_scale(objective, start)
    seen: dict[bytes, tuple[Array, Array]] = {}

    def column(theta: NDArray[Any]) -> tuple[Array, Array]:
        key = theta.tobytes()
        if key not in seen:
            seen.clear()
            params = like(theta.reshape(-1, 1), start, dtype=start.dtype)
            seen[key] = params, model.logits(params, X)
        return seen[key]

    def value(theta: NDArray[Any]) -> float:
        return objective.value(*column(theta))

    def slope(theta: NDArray[Any]) -> NDArray[Any]:
        return to_numpy(objective.gradient(*column(theta))).ravel().astype(np.float64)

    def bent(theta: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
        hessian = GaussNewton(objective, *column(theta), exact=True)
        product = hessian.matvec(like(v.reshape(-1, 1), start, dtype=start.dtype))
        return to_numpy(product).ravel().astype(np.float64)

    origin = to_numpy(start).ravel().astype(np.float64)
    options = {"gtol": tol * scale, "maxiter": max_iter, "initial_trust_radius": 1.0}
    found = minimize(value, origin, jac=slope, hessp=bent, method="trust-ncg", options=options)
    params, logits = column(found.x)
    flatness = norm(objective.gradient(params, logits)) / scale
    # The region shrinks to nothing where rounding of F, or a kink of a ReLU, hides what a step gains.
    if flatness > max(tol, STALLED):
        raise NotConverged(
            f"The network stopped at a relative gradient of {flatness:.1e} after {found.nit} steps; "
            f"{tol:.0e} was asked for. Train it longer first, raise its weight decay, or raise tol."
        )
    return Optimum(params, flatness, int(found.nit), "trust-ncg")

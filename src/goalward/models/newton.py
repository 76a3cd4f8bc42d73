"""Newton's method with backtracking for the objective of a linear model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jaxtyping import Float

from goalward.core.arrays import Array, inner, namespace, norm
from goalward.errors import NotConverged
from goalward.models.objective import Objective
from goalward.solvers import Auto, Solver
from goalward.solvers.auto import GAVE_UP

NOISE = 1e-14
"""Relative rounding of F allowed in tests of descent."""


class Optimum(NamedTuple):
    """The result of a search, with ‖∇F‖ relative to the model's scale."""

    params: Float[Array, "p k"]
    gradient: float
    iterations: int


def minimise(
    objective: Objective,
    start: Float[Array, "p k"],
    *,
    tol: float = 1e-8,
    max_iter: int = 100,
    solver: Solver | None = None,
) -> Optimum:
    """Return the minimiser of `objective`, to ‖∇F‖ ≤ tol ‖∇F(0)‖ and a bounded error.

    The error is at most ‖∇F‖/ρ; under weak penalties the last Newton step must be ≤ √tol/10 ‖θ‖.
    """
    method: Any = solver or Auto()
    scale = objective.model.gradient_scale(objective, start)
    weights = objective.penalty[: objective.model.n_features(start)]
    certain = 2.0 * tol * float(namespace(weights).min(weights))
    small, exact = max(1e-5, 0.1 * tol**0.5), max(1e-6, 0.01 * tol)
    here = _Point.of(objective, start, scale)
    for iteration in range(1, max_iter + 1):
        if here.flatness <= 1e-14:
            return Optimum(here.params, here.flatness, iteration - 1)
        # Eisenstat and Walker's forcing. Once the gradient is small, an exact step measures the
        # distance to the optimum.
        forcing = exact if here.flatness <= tol else min(0.1, here.flatness**0.5)
        try:
            hessian = objective.model.curvature(objective, here.params, here.logits)
            solution = method.prepare(hessian)(here.gradient, tol=forcing)
        except NotConverged:
            if here.flatness > tol:
                raise
            # The gradient is small and no better step is available.
            return Optimum(here.params, here.flatness, iteration)
        if GAVE_UP in solution.reason:  # which only Auto says
            method = replace(method, iterate=False)  # nor would they do better at the next step
        step = -solution.value
        slope = inner(here.gradient, step)
        if here.flatness <= tol and -slope <= NOISE * abs(here.value):
            # Rounding of F hides the gain of the step; compare gradients.
            there = _Point.of(objective, here.params + step, scale, here.value)
            best = there if there.flatness < here.flatness else here
            return Optimum(best.params, best.flatness, iteration)
        size, value = here.backtracked(objective, step, slope)
        if size == 0.0:
            break
        # Recompute logits, so that rounding does not add up.
        here = _Point.of(objective, here.params + size * step, scale, value)
        width = norm(here.params)
        if here.flatness <= tol and (
            norm(here.gradient) <= certain * width
            or (solution.residual <= exact and size * norm(step) <= small * width)
        ):
            return Optimum(here.params, here.flatness, iteration)
    if here.flatness <= 1e-3 * tol:
        # No step helps and the gradient is rounding: this is the optimum.
        return Optimum(here.params, here.flatness, iteration)
    raise NotConverged(
        f"The fit stopped at a relative gradient of {here.flatness:.1e}; {tol:.0e} was asked "
        "for. Rescale the features (StandardScaler), lower C, or raise max_iter or tol."
    )


@dataclass(frozen=True)
class _Point:
    """F at some parameters, and ‖∇F‖ there relative to ‖∇F(0)‖."""

    params: Float[Array, "p k"]
    logits: Float[Array, "n k"]
    value: float
    gradient: Float[Array, "p k"]
    flatness: float

    @classmethod
    def of(
        cls,
        objective: Objective,
        params: Float[Array, "p k"],
        scale: float,
        value: float | None = None,
    ) -> _Point:
        logits = objective.model.logits(params, objective.labelled.X)
        value = objective.value(params, logits) if value is None else value
        gradient = objective.gradient(params, logits)
        return cls(params, logits, value, gradient, norm(gradient) / scale)

    def backtracked(
        self, objective: Objective, step: Float[Array, "p k"], slope: float
    ) -> tuple[float, float]:
        """Return the first size of 1, ½, ¼, ... with enough descent, and F there; 0 if none."""
        motion = objective.model.at(self.params).jvp(objective.labelled.X, step)
        size, noise = 1.0, NOISE * abs(self.value)
        for _ in range(40):
            value = objective.value(self.params + size * step, self.logits + size * motion)
            if value <= self.value + 1e-4 * size * slope + noise:
                return size, value
            size *= 0.5
        return 0.0, self.value

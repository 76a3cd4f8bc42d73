"""Newton's method with backtracking: the optimum of a linear model's objective, certified."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jaxtyping import Float

from goalward.core.arrays import Array, namespace, norm
from goalward.errors import NotConverged
from goalward.models.objective import Objective
from goalward.solvers import Auto, Solver
from goalward.solvers.auto import GAVE_UP


class Optimum(NamedTuple):
    """Where a search ended, and ‖∇F‖ there relative to the model's scale of it."""

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
    """Return the minimiser of `objective`, to ‖∇F‖ ≤ tol ‖∇F(0)‖ and an error that is known.

    F is ρ-strongly convex, so the error is at most ‖∇F‖/ρ: 2 tol ‖θ‖ is enough. That says little
    along directions that a weak penalty hardly holds. There the last step must be Newton's own
    and small, √tol/10 ‖θ‖: after a step of relative size ε the error is of order ε².

    Each step solves 𝓗 δ = -∇F with the solvers that serve the utilities, inexactly
    while far from the optimum, and is halved until F falls enough. F is strictly
    convex up to the gauge, so this converges from anywhere.
    """
    method: Any = solver or Auto()
    scale = objective.model.gradient_scale(objective, start)
    weights = objective.penalty[: objective.model.n_features(start)]
    certain = 2.0 * tol * float(namespace(weights).min(weights))
    small, exact = max(1e-5, 0.1 * tol**0.5), max(1e-6, 0.01 * tol)
    here = _Point.of(objective, start, scale)
    for iteration in range(1, max_iter + 1):
        if here.flatness <= 1e-14:
            return here.optimum(iteration - 1)
        # Eisenstat and Walker's forcing: a rough step is enough while far away. Where only the
        # size of the last step is wanting, it must be Newton's own to say how far the optimum is.
        forcing = exact if here.flatness <= tol else min(0.1, here.flatness**0.5)
        try:
            hessian = objective.model.curvature(objective, here.params, here.logits)
            solution = method.prepare(hessian)(here.gradient, tol=forcing)
        except NotConverged:
            if here.flatness > tol:
                raise
            # The gradient is as small as was asked for, and no better step is to be had.
            return here.optimum(iteration)
        if GAVE_UP in solution.reason:  # which only Auto says
            method = replace(method, iterate=False)  # nor would they do better at the next step
        step = -solution.value
        if here.flatness <= tol and -here.slope(step) <= here.noise:
            # Rounding of F hides what the step gains; the gradient tells whether it does.
            there = _Point.of(objective, here.params + step, scale, here.value)
            return min(here, there, key=lambda point: point.flatness).optimum(iteration)
        size, value = _backtracked(objective, here, step)
        if size == 0.0:
            break
        # Logits are taken afresh, so that rounding does not add up over the steps.
        here = _Point.of(objective, here.params + size * step, scale, value)
        width = norm(here.params)
        if here.flatness <= tol and (
            norm(here.gradient) <= certain * width
            or (solution.residual <= exact and size * norm(step) <= small * width)
        ):
            return here.optimum(iteration)
    if here.flatness <= 1e-3 * tol:
        # No step helps any more and the gradient is rounding: this is the optimum.
        return here.optimum(iteration)
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

    @property
    def noise(self) -> float:
        """Near the optimum F is flat to rounding, so tests allow for this much."""
        return 1e-14 * abs(self.value)

    def slope(self, step: Float[Array, "p k"]) -> float:
        return float(namespace(step).sum(self.gradient * step))

    def optimum(self, iterations: int) -> Optimum:
        return Optimum(self.params, self.flatness, iterations)


def _backtracked(
    objective: Objective, here: _Point, step: Float[Array, "p k"]
) -> tuple[float, float]:
    """Return the first size of 1, ½, ¼, ... that lets F fall enough, and F there; 0 if none does."""
    motion = objective.model.at(here.params).jvp(objective.labelled.X, step)
    slope, size = here.slope(step), 1.0
    for _ in range(40):
        value = objective.value(here.params + size * step, here.logits + size * motion)
        if value <= here.value + 1e-4 * size * slope + here.noise:
            return size, value
        size *= 0.5
    return 0.0, here.value

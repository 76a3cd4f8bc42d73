"""Newton's method with backtracking: the optimum of a convex objective, certified."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, is_sparse, like, namespace, norm
from goalward.errors import NotConverged
from goalward.models.linear import Linear
from goalward.models.objective import Objective
from goalward.solvers import Auto, Solver
from goalward.solvers.auto import GAVE_UP

__all__ = ["Optimum", "gradient_scale", "minimise"]


@dataclass(frozen=True)
class Optimum:
    """Where the search ended, and how flat it is there.

    Parameters
    ----------
    gradient
        ‖∇F‖ relative to ‖∇F(0)‖.
    """

    params: Float[Array, "p k"]
    gradient: float
    iterations: int
    solver: str


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
    solver = solver or Auto()
    X, model = objective.labelled.X, objective.model
    xp = namespace(start)
    origin = xp.zeros_like(start)
    scale = gradient_scale(objective, origin)
    held = objective.penalty[:-1] if model.intercept else objective.penalty
    certain = 2.0 * tol * float(xp.min(held))
    small = max(1e-5, 0.1 * tol**0.5)
    params = start
    logits = model.logits(params, X)
    value = objective.value(params, logits)
    gradient = objective.gradient(params, logits)
    flatness = norm(gradient) / scale
    for iteration in range(1, max_iter + 1):
        if flatness <= 1e-14:
            return Optimum(params, flatness, iteration - 1, "")
        # Eisenstat and Walker's forcing: a rough step is enough while far away. Where only the
        # size of the last step is wanting, it must be Newton's own to say how far the optimum is.
        forcing = max(1e-6, 0.01 * tol) if flatness <= tol else min(0.1, flatness**0.5)
        try:
            solution = solver.prepare(objective.hessian(params, logits))(gradient, tol=forcing)
        except NotConverged:
            if flatness > tol:
                raise
            # The gradient is as small as was asked for, and no better step is to be had.
            return Optimum(params, flatness, iteration, "")
        if GAVE_UP in solution.reason and isinstance(solver, Auto):
            solver = replace(solver, iterate=False)  # nor would they do better at the next step
        step = -solution.value
        motion = model.jvp(X, step)
        slope = float(xp.sum(gradient * step))
        # Near the optimum F is flat to rounding, so the test allows for its noise.
        noise = 1e-14 * abs(value)
        if flatness <= tol and -slope <= noise:
            # Rounding of F hides what the step gains; the gradient tells whether it does.
            moved = params + step
            after = norm(objective.gradient(moved, model.logits(moved, X))) / scale
            if after < flatness:
                params, flatness = moved, after
            return Optimum(params, flatness, iteration, solution.solver)
        size = 1.0
        for _ in range(40):
            trial = params + size * step
            trial_logits = logits + size * motion
            trial_value = objective.value(trial, trial_logits)
            if trial_value <= value + 1e-4 * size * slope + noise:
                break
            size *= 0.5
        else:
            break
        params, value = trial, trial_value
        # Taken afresh, so that rounding does not add up over the steps.
        logits = model.logits(params, X)
        gradient = objective.gradient(params, logits)
        flatness = norm(gradient) / scale
        if flatness <= tol and (
            norm(gradient) <= certain * norm(params)
            or (
                solution.residual <= max(1e-6, 0.01 * tol)
                and size * norm(step) <= small * norm(params)
            )
        ):
            return Optimum(params, flatness, iteration, solution.solver)
    if flatness <= 1e-3 * tol:
        # No step helps any more and the gradient is rounding: this is the optimum.
        return Optimum(params, flatness, iteration, solution.solver)
    raise NotConverged(
        f"The fit stopped at a relative gradient of {flatness:.1e}; {tol:.0e} was asked "
        "for. Rescale the features (StandardScaler), lower C, or raise max_iter or tol."
    )


def gradient_scale(objective: Objective, origin: Float[Array, "p k"]) -> float:
    """Return ‖∇F(0)‖, or where that is nothing a scale below which ∇F is rounding.

    Nothing can be learned from a network at 0. There it is √Σ‖∇ℓᵢ‖² at `origin` with labels
    drawn at random, the size of what rows push with; random signs add squares without a
    gradient per row being made.
    """
    X = objective.labelled.X
    if not isinstance(objective.model, Linear):
        return _push(objective, origin)
    first = norm(objective.gradient(origin, objective.model.logits(origin, X)))
    weights = objective.labelled.weights
    values = X.data if is_sparse(X) else X
    # Cauchy and Schwarz bound what follows; as a rule that is enough to see that it is small.
    if first > 1e-7 * norm(weights) * (norm(values) + len(objective.labelled) ** 0.5):
        return first
    reach = objective.model.vjp(abs(X), weights[:, None])
    return max(first, 1e-7 * norm(reach))


def _push(objective: Objective, params: Float[Array, "p k"]) -> float:
    X, weights = objective.labelled.X, objective.labelled.weights
    proba = objective.loss.proba(objective.model.logits(params, X))
    rng = np.random.default_rng(0)
    drawn = np.eye(proba.shape[1])[rng.integers(proba.shape[1], size=proba.shape[0])]
    signs = rng.choice([-1.0, 1.0], size=(proba.shape[0], 1))
    slope = proba - like(drawn, proba, dtype=proba.dtype)
    signed = like(signs, proba, dtype=proba.dtype) * weights[:, None] * slope
    return norm(objective.model.at(params).vjp(X, signed))

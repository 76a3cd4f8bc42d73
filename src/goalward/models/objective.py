"""The objective F(θ) = Σᵢ wᵢ ℓ(xᵢ, yᵢ) + ½ Σⱼ ρⱼ θⱼ², ρ = 1/C, and its minimum by Newton's method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from jaxtyping import Float

from goalward.core.arrays import Array, inner, namespace, norm
from goalward.core.rows import Labelled
from goalward.errors import NotConverged
from goalward.models.loss import Loss
from goalward.models.model import Model
from goalward.solvers import Auto, Solver
from goalward.solvers.auto import GAVE_UP

if TYPE_CHECKING:
    from goalward.models.linear import LinearModel


@dataclass(frozen=True)
class Objective:
    """Penalised loss of a model on labelled rows; `penalty` is ρ for each row of the parameters."""

    labelled: Labelled
    penalty: Float[Array, " p"]
    model: Model
    loss: Loss

    def value(self, params: Float[Array, "p c"], logits: Float[Array, "n k"]) -> float:
        """Return F, given the logits of the labelled rows."""
        xp = namespace(params)
        rows = self.loss.rows(logits, self.labelled.targets)
        fit = xp.sum(self.labelled.weights * rows)
        return float(fit + 0.5 * xp.sum(self.penalty[:, None] * params * params))

    def gradient(
        self, params: Float[Array, "p c"], logits: Float[Array, "n k"]
    ) -> Float[Array, "p c"]:
        slope = self.loss.slope(logits, self.labelled.targets)
        weighted = self.labelled.weights[:, None] * slope
        pulled = self.model.at(params).vjp(self.labelled.X, weighted)
        if self.model.is_linear:
            # Slopes have no unseen part; a weak penalty would magnify its rounding.
            pulled = pulled - self.loss.unseen(pulled)
        return pulled + self.penalty[:, None] * params


@dataclass(frozen=True)
class Hessian:
    """𝓗 = Jᵀ Λ J + diag(ρ) of a linear model; outside the basis (`unseen`) it is the penalty."""

    labelled: Labelled
    penalty: Float[Array, " p"]
    model: LinearModel
    loss: Loss
    proba: Float[Array, "n k"]
    intercept: bool
    unseen: Callable[[Float[Array, "p k"]], Array]
    is_linear: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.penalty.shape[0]), int(self.proba.shape[1])

    @cached_property
    def basis(self) -> Float[Array, "k c"]:
        """Q, the effective directions of the outcomes, orthonormal."""
        return self.loss.basis(self.proba.shape[1], self.proba)

    @cached_property
    def bend(self) -> Callable[[Float[Array, "n k"]], Float[Array, "n k"]]:
        """The map s -> wΛs of the labelled rows."""
        return self.loss.weighted(self.proba, self.labelled.weights)

    def matvec(self, v: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """Return 𝓗 v by one product with X and one with Xᵀ."""
        X = self.labelled.X
        return self.model.vjp(X, self.bend(self.model.jvp(X, v))) + self.penalty[:, None] * v

    def blocks(self) -> Float[Array, "n c c"]:
        """Return the weighted curvature of each row in its effective directions."""
        return self.labelled.weights[:, None, None] * self.loss.blocks(self.proba)

    def factors(self) -> Float[Array, "n c c"]:
        """Return L with LLᵀ = `blocks()`."""
        root = namespace(self.proba).sqrt(self.labelled.weights)[:, None, None]
        return root * self.loss.factors(self.proba)

    def mean_curvature(self) -> Float[Array, "k k"]:
        return self.loss.mean_curvature(self.proba, self.labelled.weights)

    def diagonal(self) -> Float[Array, "p k"]:
        bent = self.labelled.weights[:, None] * self.loss.diagonal(self.proba)
        return self.model.vjp(self.labelled.squares, bent) + self.penalty[:, None]


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

"""The objective F(θ) = Σᵢ wᵢ ℓ(xᵢ, yᵢ) + ½ Σⱼ ρⱼ θⱼ², with ρ = 1/C as in scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from jaxtyping import Float

from goalward.core.arrays import Array, namespace
from goalward.core.rows import Labelled
from goalward.models.loss import Loss
from goalward.models.model import Model

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

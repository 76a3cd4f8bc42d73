"""Interface of models: logits, their derivatives, and the fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from jaxtyping import Float

from goalward.core.arrays import Array, Rows
from goalward.errors import Unsupported
from goalward.solvers import Curvature, Solver

if TYPE_CHECKING:
    from goalward.models.fitted import Fitted
    from goalward.models.linear import LinearModel
    from goalward.models.objective import Objective


@runtime_checkable
class Jacobian(Protocol):
    """J, the derivative of the logits by the parameters, as products."""

    def jvp(self, X: Rows, v: Float[Array, "p c"]) -> Float[Array, "n k"]:
        """Return J v, the change of the logits along v."""
        ...

    def vjp(self, X: Rows, cotangent: Float[Array, "n k"]) -> Float[Array, "p c"]:
        """Return Jᵀ c."""
        ...


class Model(ABC):
    """Logits as a function of parameters (p, c) and rows (n, d)."""

    is_linear: ClassVar[bool] = False
    """Whether logits are XΘ (+ b)."""
    has_derivatives: ClassVar[bool] = True
    """Whether `at` is supported."""
    predict_only: bool = False
    """Whether the training rows are unknown."""

    @abstractmethod
    def n_features(self, params: Float[Array, "p c"]) -> int:
        """Return the number of features of a row."""

    @abstractmethod
    def logits(self, params: Float[Array, "p c"], X: Rows) -> Float[Array, "n k"]:
        """Return the logits of rows."""

    @abstractmethod
    def at(self, params: Float[Array, "p c"]) -> Jacobian:
        """Return the model linearised at `params`."""

    @abstractmethod
    def curvature(
        self, objective: Objective, params: Float[Array, "p c"], logits: Float[Array, "n k"]
    ) -> Curvature:
        """Return ∇²F or its Gauss-Newton part, given the logits of the labelled rows."""

    @abstractmethod
    def gradient_scale(self, objective: Objective, params: Float[Array, "p c"]) -> float:
        """Return the scale to which ‖∇F‖ is compared."""

    @abstractmethod
    def polished(
        self, fitted: Fitted, *, tol: float, max_iter: int | None, solver: Solver | None
    ) -> Fitted:
        """Return the model at its optimum, started from `fitted`."""

    def moving(
        self, params: Float[Array, "p c"], v: Float[Array, "p c"]
    ) -> Callable[[Rows], tuple[Array, Array]]:
        """Return the map from rows to logits and their derivative along v."""
        here = self.at(params)
        return lambda X: (self.logits(params, X), here.jvp(X, v))

    def squared_norms(self, X: Rows, reference: Array) -> Float[Array, " n"]:
        raise Unsupported(
            "The trace of the Fisher information needs a linear model, got a network. Use DevLoss or "
            "Entropy, or take the head of the network alone: from_torch(..., layers='last')."
        )

    def linear(self, asker: str) -> LinearModel:
        """Return the model if it is linear, else raise on behalf of `asker`."""
        raise Unsupported(
            f"{asker} needs a linear model, got a {type(self).__name__}. Use Retrain(), for a network "
            "FirstOrder(), or take the head of the network alone: from_torch(..., layers='last')."
        )

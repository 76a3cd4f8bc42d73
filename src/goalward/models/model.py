"""What a model can do: give logits, say how they move, and be moved to its optimum."""

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
    """J, the derivative of the logits by the parameters, known by its products."""

    def jvp(self, X: Rows, v: Float[Array, "p c"]) -> Float[Array, "n k"]:
        """Return J v: how the logits of the rows move when the parameters move by v."""
        ...

    def vjp(self, X: Rows, cotangent: Float[Array, "n k"]) -> Float[Array, "p c"]:
        """Return Jᵀ c: logit-space slopes pulled back to the parameters."""
        ...


class Model(ABC):
    """Logits as a function of parameters (p, c) and rows (n, d).

    What a model cannot do it refuses, and says what to use instead.
    """

    is_linear: ClassVar[bool] = False
    """Whether logits are XΘ (+ b): parameters have a column per outcome, J is the same everywhere."""
    has_derivatives: ClassVar[bool] = True
    """Whether `at` answers."""
    predict_only: bool = False
    """Whether it was fitted to rows that are not known here."""

    @abstractmethod
    def n_features(self, params: Float[Array, "p c"]) -> int:
        """Return the numbers in one row."""

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
        """Return a size of ∇F to measure against: what the rows push with."""

    @abstractmethod
    def polished(
        self, fitted: Fitted, *, tol: float, max_iter: int | None, solver: Solver | None
    ) -> Fitted:
        """Return the fitted model moved to its optimum, from where it is."""

    def moving(
        self, params: Float[Array, "p c"], v: Float[Array, "p c"]
    ) -> Callable[[Rows], tuple[Array, Array]]:
        """Return the map from rows to their logits, and to how these move along v."""
        here = self.at(params)
        return lambda X: (self.logits(params, X), here.jvp(X, v))

    def squared_norms(self, X: Rows, reference: Array) -> Float[Array, " n"]:
        """Return ‖x‖² of every row, of which the Fisher information of a linear model is made."""
        raise Unsupported(
            "The trace of the Fisher information was asked of a network, where it is no sum over "
            "features; a linear model was expected. Use DevLoss or Entropy, or take the "
            "network's last layer: from_torch(..., layers='last')."
        )

    def linear(self, asker: str) -> LinearModel:
        """Return the model if it is linear; refuse in the name of what needs it to be."""
        raise Unsupported(
            f"{asker} came with a {type(self).__name__} model; a linear one was expected. Use "
            "FirstOrder() (networks only), Retrain(), or the head of a network alone: "
            "from_torch(..., layers='last')."
        )

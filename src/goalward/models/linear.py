"""The linear model: logits = X W + b.

Parameters are one (p, K) array: the weights, then the intercepts as a last row if
there is one. The model is linear, so its logits and its Jacobian are the same map.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, Rows, is_sparse, like, namespace, norm
from goalward.core.kernels import gpu
from goalward.core.kernels.compiled import two_lines
from goalward.models.model import Model
from goalward.models.newton import minimise
from goalward.models.objective import Hessian, Objective
from goalward.solvers import Solver

if TYPE_CHECKING:
    from goalward.models.fitted import Fitted


LARGE = 2**20
"""Numbers from which on two columns are multiplied with care."""


@dataclass(frozen=True)
class LinearModel(Model):
    """Logits that are linear in the features.

    Parameters
    ----------
    intercept
        Whether the last row of the parameters is a constant added to the logits.

    Examples
    --------
    >>> import numpy as np
    >>> LinearModel(intercept=True).jvp(np.ones((1, 2)), np.ones((3, 2)))
    array([[3., 3.]])
    """

    intercept: bool = True

    is_linear: ClassVar[bool] = True

    def at(self, params: Float[Array, "p k"]) -> LinearModel:
        """Return itself: J is the same at all parameters."""
        return self

    def n_features(self, params: Float[Array, "p k"]) -> int:
        """Return the number of features."""
        return int(params.shape[0]) - self.intercept

    def n_params(self, n_features: int) -> int:
        """Return the number of parameters of each outcome."""
        return n_features + self.intercept

    def jvp(self, X: Rows, v: Float[Array, "p k"]) -> Float[Array, "n k"]:
        """Return J v: how the logits of the rows move when the parameters move by v."""
        weights = v[:-1, :] if self.intercept else v
        if type(X) is np.ndarray and type(v) is np.ndarray:
            # Outcomes along the first axis in memory: sums over the few outcomes of many rows,
            # which every kernel takes, then run in vector registers.
            thin = weights.shape[1] == 2 and X.size >= LARGE and X.flags.c_contiguous
            if thin and X.dtype == v.dtype:
                moved = two_lines(np.ascontiguousarray(weights.T), X)
            else:
                moved = weights.T @ X.T
            if self.intercept:
                moved += v[-1, :, None]
            return moved.T
        if weights.shape[1] == 2 and gpu.usable(X) and X.dtype == v.dtype:
            moved = gpu.two_lines(weights.T, X).T
        else:
            moved = X @ weights
        return moved + v[-1:, :] if self.intercept else moved

    def logits(self, params: Float[Array, "p k"], X: Rows) -> Float[Array, "n k"]:
        """Return the logits; for a linear model, the Jacobian at the parameters."""
        return self.jvp(X, params)

    def vjp(self, X: Rows, cotangent: Float[Array, "n k"]) -> Float[Array, "p k"]:
        """Return Jᵀ c: logit-space slopes pulled back to the parameters."""
        weights = X.T @ cotangent
        if not self.intercept:
            return weights
        xp = namespace(cotangent)
        return xp.concat([weights, xp.sum(cotangent, axis=0, keepdims=True)], axis=0)

    def curvature(
        self, objective: Objective, params: Float[Array, "p k"], logits: Float[Array, "n k"]
    ) -> Hessian:
        """Return ∇²F."""
        F = objective
        proba = F.loss.seen(F.loss.proba(logits), F.labelled.targets)
        return Hessian(F.labelled, F.penalty, self, F.loss, proba)

    def gradient_scale(self, objective: Objective, params: Float[Array, "p k"]) -> float:
        """Return ‖∇F(0)‖, or where that is nothing a scale below which ∇F is rounding."""
        X, weights = objective.labelled.X, objective.labelled.weights
        origin = namespace(params).zeros_like(params)
        first = norm(objective.gradient(origin, self.logits(origin, X)))
        values = X.data if is_sparse(X) else X
        # Cauchy and Schwarz bound what follows; as a rule that is enough to see that it is small.
        if first > 1e-7 * norm(weights) * (norm(values) + len(objective.labelled) ** 0.5):
            return first
        # Rows of zeros without an intercept give no scale.
        return max(first, 1e-7 * norm(self.vjp(abs(X), weights[:, None]))) or 1.0

    def polished(
        self, fitted: Fitted, *, tol: float, max_iter: int | None, solver: Solver | None
    ) -> Fitted:
        """Return the fitted model at its optimum, by Newton's method."""
        best = minimise(
            fitted.objective, fitted.params, tol=tol, max_iter=max_iter or 100, solver=solver
        )
        return replace(fitted, **best._asdict())

    def linear(self, asker: str) -> LinearModel:
        """Return itself."""
        return self

    def squared_norms(self, X: Rows, reference: Array) -> Float[Array, " n"]:
        """Return ‖x‖² of every row, its constant column included."""
        if is_sparse(X):
            norms = like(X.multiply(X).sum(axis=1), reference)
            norms = norms.reshape(-1)
        else:
            norms = namespace(X).sum(X * X, axis=-1)
        return norms + 1.0 if self.intercept else norms

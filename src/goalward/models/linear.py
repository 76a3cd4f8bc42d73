"""The linear model: logits = X W + b, with parameters (p, K) and intercepts as the last row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, Rows, is_sparse, like, namespace, norm
from goalward.core.kernels import gpu
from goalward.core.kernels.compiled import two_lines
from goalward.models.model import Model
from goalward.models.objective import Hessian, Objective, minimise
from goalward.solvers import Solver

if TYPE_CHECKING:
    from goalward.models.fitted import Fitted


LARGE = 2**20
"""Size from which a memory layout is chosen for two columns."""


@dataclass(frozen=True)
class LinearModel(Model):
    """Logits that are linear in the features; with `intercept`, the last parameters are constants.

    Examples
    --------
    >>> import numpy as np
    >>> LinearModel(intercept=True).jvp(np.ones((1, 2)), np.ones((3, 2)))
    array([[3., 3.]])
    """

    intercept: bool = True

    is_linear: ClassVar[bool] = True

    def at(self, params: Float[Array, "p k"]) -> LinearModel:
        return self

    def n_features(self, params: Float[Array, "p k"]) -> int:
        return int(params.shape[0]) - self.intercept

    def n_params(self, n_features: int) -> int:
        return n_features + self.intercept

    def jvp(self, X: Rows, v: Float[Array, "p k"]) -> Float[Array, "n k"]:
        weights = v[:-1, :] if self.intercept else v
        if type(X) is np.ndarray and type(v) is np.ndarray:
            # Outcomes along the first axis in memory, so that sums over outcomes are vectorised.
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
        return self.jvp(X, params)

    def vjp(self, X: Rows, cotangent: Float[Array, "n k"]) -> Float[Array, "p k"]:
        weights = X.T @ cotangent
        if not self.intercept:
            return weights
        xp = namespace(cotangent)
        return xp.concat([weights, xp.sum(cotangent, axis=0, keepdims=True)], axis=0)

    def curvature(
        self, objective: Objective, params: Float[Array, "p k"], logits: Float[Array, "n k"]
    ) -> Hessian:
        F = objective
        proba = F.loss.seen(F.loss.proba(logits), F.labelled.targets)
        return Hessian(F.labelled, F.penalty, self, F.loss, proba, self.intercept, F.loss.unseen)

    def gradient_scale(self, objective: Objective, params: Float[Array, "p k"]) -> float:
        X, weights = objective.labelled.X, objective.labelled.weights
        origin = namespace(params).zeros_like(params)
        first = norm(objective.gradient(origin, self.logits(origin, X)))
        values = X.data if is_sparse(X) else X
        # The Cauchy-Schwarz bound of the second term is usually enough.
        if first > 1e-7 * norm(weights) * (norm(values) + len(objective.labelled) ** 0.5):
            return first
        # Rows of zeros without an intercept give no scale.
        return max(first, 1e-7 * norm(self.vjp(abs(X), weights[:, None]))) or 1.0

    def polished(
        self, fitted: Fitted, *, tol: float, max_iter: int | None, solver: Solver | None
    ) -> Fitted:
        best = minimise(
            fitted.objective, fitted.params, tol=tol, max_iter=max_iter or 100, solver=solver
        )
        return replace(fitted, **best._asdict())

    def linear(self, asker: str) -> LinearModel:
        return self

    def squared_norms(self, X: Rows, reference: Array) -> Float[Array, " n"]:
        if is_sparse(X):
            norms = like(X.multiply(X).sum(axis=1), reference)
            norms = norms.reshape(-1)
        else:
            norms = namespace(X).sum(X * X, axis=-1)
        return norms + 1.0 if self.intercept else norms

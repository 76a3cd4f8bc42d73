"""The linear model: logits = X W + b.

Parameters are one (p, K) array: the weights, then the intercepts as a last row if
there is one. The model is linear, so its logits and its Jacobian are the same map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, Rows, is_sparse, like, namespace

__all__ = ["Linear"]


@dataclass(frozen=True)
class Linear:
    """Logits that are linear in the features.

    Parameters
    ----------
    intercept
        Whether the last row of the parameters is a constant added to the logits.

    Examples
    --------
    >>> import numpy as np
    >>> Linear(intercept=True).jvp(np.ones((1, 2)), np.ones((3, 2)))
    array([[3., 3.]])
    """

    intercept: bool = True

    per_class: ClassVar[bool] = True
    """Parameters have a column per class; a constant added to a row of them changes nothing."""

    def at(self, params: Float[Array, "p k"]) -> Linear:
        """Return itself: J is the same at all parameters."""
        return self

    def n_features(self, params: Float[Array, "p k"]) -> int:
        """Return the number of features."""
        return int(params.shape[0]) - self.intercept

    def n_params(self, n_features: int) -> int:
        """Return the number of parameters of each class."""
        return n_features + self.intercept

    def jvp(self, X: Rows, v: Float[Array, "p k"]) -> Float[Array, "n k"]:
        """Return J v: how the logits of the rows move when the parameters move by v."""
        weights = v[:-1, :] if self.intercept else v
        if type(X) is np.ndarray and type(v) is np.ndarray:
            # Classes along the first axis in memory: sums over the few classes of many rows,
            # which every kernel takes, then run in vector registers.
            moved = weights.T @ X.T
            if self.intercept:
                moved += v[-1, :, None]
            return moved.T
        return X @ weights + v[-1:, :] if self.intercept else X @ weights

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

    def squared_norms(self, X: Rows, reference: Array) -> Float[Array, " n"]:
        """Return ‖x‖² of every row, its constant column included."""
        if is_sparse(X):
            norms = like(X.multiply(X).sum(axis=1), reference)
            norms = norms.reshape(-1)
        else:
            norms = namespace(X).sum(X * X, axis=-1)
        return norms + 1.0 if self.intercept else norms

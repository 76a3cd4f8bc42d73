"""Goals that need no labels: how much is lost on some rows because θ is not known well.

They see the model through the logits of their rows and the covariance of those logits,
M = J𝓗⁻¹Jᵀ in the K-1 contrasts of the classes. A label helps them by adding curvature, whichever
label it is: they have a utility of their own, `gw.utility.Information`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NoReturn

import numpy as np
import scipy.linalg
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.errors import Unsupported
from goalward.goals.goal import Goal

__all__ = ["PosteriorGoal", "class_basis", "curvature_blocks"]


class PosteriorGoal(Goal):
    """Minus the mean of a risk over reference rows X; the risk is a function of logits and M."""

    utility = "information"
    X: Any

    @abstractmethod
    def risk(
        self, logits: Float[NDArray[Any], "m k"], M: Float[NDArray[Any], "m c c"]
    ) -> Float[NDArray[Any], " m"]:
        """Return what is lost on each row."""

    @abstractmethod
    def slope(
        self, logits: Float[NDArray[Any], "m k"], M: Float[NDArray[Any], "m c c"]
    ) -> Float[NDArray[Any], "m c c"]:
        """Return ∂risk/∂M for each row, symmetric and positive."""

    def value(self, fitted: Any) -> float:
        """Return minus the mean risk at the model's parameters and covariance."""
        rows = fitted.features(self.X, f"X of {type(self).__name__}")
        posterior = fitted.posterior(rows, type(self).__name__)
        M = posterior.leverage(rows, posterior.coordinates(rows))
        logits = np.asarray(to_numpy(fitted.logits_of(rows)), dtype=np.float64)
        return -float(np.mean(self.risk(logits, M)))

    def terms(self, fitted: Any) -> NoReturn:
        """Refuse: the goal is no function of the logits alone."""
        raise Unsupported(
            f"{type(self).__name__} depends on the model's curvature, not on its logits alone; a goal of "
            "logits was expected here. Use it alone, or in a sum of its kind, with "
            "gw.utility.Information()."
        )


def class_basis(n_classes: int) -> Float[NDArray[Any], "k c"]:
    """Return the contrasts that M is written in: orthonormal, each column sums to zero."""
    basis: NDArray[Any] = scipy.linalg.helmert(n_classes).T
    return basis


def curvature_blocks(logits: Float[NDArray[Any], "m k"]) -> Float[NDArray[Any], "m c c"]:
    """Return QᵀΛQ, the curvature of each row's loss in contrasts."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    Q = class_basis(logits.shape[1])
    mean = p @ Q
    pairs = (Q[:, :, None] * Q[:, None, :]).reshape(len(Q), -1)
    second = (p @ pairs).reshape(len(p), Q.shape[1], Q.shape[1])
    return np.asarray(second - mean[:, :, None] * mean[:, None, :])

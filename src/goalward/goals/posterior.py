"""Goals that need no labels: how much is lost on some rows because θ is not known well.

They see the model through the logits of their rows and the covariance of those logits,
M = J𝓗⁻¹Jᵀ in the K-1 contrasts of the classes. A label helps them by adding curvature, whichever
label it is: they have a utility of their own, `gw.utility.Information`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, softmax, to_numpy
from goalward.errors import Unsupported
from goalward.goals.goal import Goal
from goalward.models import Fitted, Softmax

__all__ = ["Epig", "FisherRatio", "PosteriorGoal"]

Logits = Float[Array, "m k"]
Blocks = Float[Array, "m c c"]
Risks = Float[Array, " m"]


class PosteriorGoal(Goal):
    """Minus the mean of a risk over reference rows X; the risk is a function of logits and M."""

    utility = "information"
    X: Any

    @abstractmethod
    def risk(self, logits: Logits, M: Blocks) -> Risks:
        """Return what is lost on each row."""

    @abstractmethod
    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        """Return ∂risk/∂M for each row, symmetric and positive."""

    def value(self, fitted: Fitted) -> float:
        """Return minus the mean risk at the model's parameters and covariance."""
        self.check_loss(fitted)
        rows = fitted.features(self.X, f"X of {type(self).__name__}")
        posterior = fitted.posterior(rows, type(self).__name__)
        M = posterior.leverage(rows, posterior.coordinates(rows))
        logits = np.asarray(to_numpy(fitted.logits_of(rows)), dtype=np.float64)
        return -float(np.mean(self.risk(logits, M)))

    def terms(self, fitted: Fitted) -> NoReturn:
        """Refuse: the goal is no function of the logits alone."""
        raise Unsupported(
            f"{type(self).__name__} depends on the model's curvature, not on its logits alone; a goal of "
            "logits was expected here. Use it alone, or in a sum of its kind, with "
            "gw.utility.Information()."
        )


@dataclass(frozen=True, eq=False)
class FisherRatio(PosteriorGoal):
    """τ = -mean tr(ΛM) = -tr(𝓗⁻¹F)/m: the variance left in predictions on reference rows.

    F is the Fisher information of the rows, so the goal is the ratio of what they ask to what is
    known (Zhang and Oles 2000; V-optimality). BAIT follows it with the pool as reference.

    Parameters
    ----------
    X
        Rows the model will be used on: a sample of the pool, or of where it is going. No labels.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> near, far = gw.goals.FisherRatio([[0.5]]), gw.goals.FisherRatio([[3.0]])
    >>> near.value(fitted) > far.value(fitted)
    True
    """

    X: Any = field(repr=False)

    def risk(self, logits: Logits, M: Blocks) -> Risks:
        """Return tr(ΛM)."""
        return np.asarray(np.einsum("mab,mba->m", _curvature(logits), M))

    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        """Return Λ."""
        return _curvature(logits)


@dataclass(frozen=True, eq=False)
class Epig(PosteriorGoal):
    """τ = -mean ½ log det(I + ΛM): what a label of a reference row would still tell about θ.

    A label of another row lowers it by the information the two labels share, which is what EPIG
    asks for (Bickford Smith et al. 2023), here in the Gaussian approximation of Kirsch and Gal
    (2022) rather than by sampling: it is EPIG-like, not theirs.

    Parameters
    ----------
    X
        Rows the model will be used on. No labels.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.Epig([[0.5]]).value(fitted) < 0
    True
    """

    X: Any = field(repr=False)

    def risk(self, logits: Logits, M: Blocks) -> Risks:
        """Return ½ log det(I + ΛM)."""
        _, logdet = np.linalg.slogdet(np.eye(M.shape[1]) + _curvature(logits) @ M)
        return np.asarray(0.5 * logdet)

    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        """Return ½ (I + ΛM)⁻¹Λ."""
        blocks = _curvature(logits)
        slope = np.linalg.solve(np.eye(M.shape[1]) + blocks @ M, blocks)
        # Symmetric but for rounding.
        return 0.25 * (slope + slope.transpose(0, 2, 1))


def _curvature(logits: Logits) -> Blocks:
    """Return QᵀΛQ, the curvature of each row's loss in contrasts."""
    return np.asarray(Softmax().blocks(softmax(logits)))

"""The variance of predictions on reference rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.goals.posterior import PosteriorGoal, curvature_blocks

__all__ = ["FisherRatio"]


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

    def risk(
        self, logits: Float[NDArray[Any], "m k"], M: Float[NDArray[Any], "m c c"]
    ) -> Float[NDArray[Any], " m"]:
        """Return tr(ΛM)."""
        return np.asarray(np.einsum("mab,mba->m", curvature_blocks(logits), M))

    def slope(
        self, logits: Float[NDArray[Any], "m k"], M: Float[NDArray[Any], "m c c"]
    ) -> Float[NDArray[Any], "m c c"]:
        """Return Λ."""
        return curvature_blocks(logits)

"""What labels of reference rows would still tell: an information goal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.goals.posterior import PosteriorGoal, curvature_blocks

__all__ = ["Epig"]


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

    def risk(
        self, logits: Float[NDArray[Any], "m k"], M: Float[NDArray[Any], "m c c"]
    ) -> Float[NDArray[Any], " m"]:
        """Return ½ log det(I + ΛM)."""
        _, logdet = np.linalg.slogdet(np.eye(M.shape[1]) + curvature_blocks(logits) @ M)
        return np.asarray(0.5 * logdet)

    def slope(
        self, logits: Float[NDArray[Any], "m k"], M: Float[NDArray[Any], "m c c"]
    ) -> Float[NDArray[Any], "m c c"]:
        """Return ½ (I + ΛM)⁻¹Λ."""
        blocks = curvature_blocks(logits)
        slope = np.linalg.solve(np.eye(M.shape[1]) + blocks @ M, blocks)
        # Symmetric but for rounding.
        return 0.25 * (slope + slope.transpose(0, 2, 1))

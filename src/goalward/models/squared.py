"""Numbers: half the squared error, the loss of ridge regression.

f is what is predicted, the slope f - t, the curvature the identity. A label's law is a Gaussian
around f whose variance, the noise, is estimated where a model is fitted. It scales the law and no
optimum, so F is written without it. Everything is quadratic: the implicit step is retraining.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, like, namespace, to_numpy
from goalward.errors import BadInput, NotFinite, ShapeMismatch
from goalward.models.loss import Separate, on_diagonal

NEAR, FAR = (3.0 - 6.0**0.5) ** 0.5, (3.0 + 6.0**0.5) ** 0.5
"""Gauss and Hermite's four nodes: exact for the mean and the variance of quadratic utilities. Three
would do, but what is expected already, the middle one, changes nothing: its gain is rounding."""


@dataclass(frozen=True)
class Squared(Separate):
    """Half the squared difference from one number, or from several.

    Parameters
    ----------
    noise
        The variance of a label around what is predicted, one for each number.

    Examples
    --------
    >>> import numpy as np
    >>> Squared().rows(np.array([[1.0]]), np.array([[3.0]]))
    array([2.])
    """

    noise: tuple[float, ...] = (1.0,)

    nodes: ClassVar[tuple[float, ...]] = (-FAR, -NEAR, NEAR, FAR)
    shares: ClassVar[tuple[float, ...]] = tuple(0.25 / node**2 for node in nodes)
    steepest: ClassVar[float] = 1.0

    def targets(self, y: object, classes: NDArray[Any], n_rows: int, name: str) -> NDArray[Any]:
        """Return a finite number for each row and column."""
        table, K = np.asarray(y if isinstance(y, list) else to_numpy(y)), len(classes)
        table = table.reshape(-1, K) if table.size == 0 or (table.ndim == 1 and K == 1) else table
        if table.shape != (n_rows, K):
            raise ShapeMismatch(
                f"{name} has shape {table.shape}; ({n_rows}, {K}) was expected. Pass {K} number"
                f"{'s' * (K > 1)} for each row."
            )
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"{name} holds other things than numbers ({error}); numbers were expected. For classes use "
                "gw.Logistic()."
            ) from error
        if not np.isfinite(table).all():
            row = int(np.argwhere(~np.isfinite(table))[0][0])
            raise NotFinite(
                f"Row {row} of {name} is {table[row].tolist()}; finite numbers were expected. Leave rows "
                "without a number out."
            )
        return table

    def proba(self, logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        """Return f: the number that is expected."""
        return logits

    def rows(
        self, logits: Float[Array, "*n k"], targets: Float[Array, "n k"]
    ) -> Float[Array, "*n"]:
        """Return ½ ‖f - t‖²."""
        return 0.5 * namespace(logits).sum((logits - targets) ** 2, axis=-1)

    def diagonal(self, proba: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        """Return ones."""
        return namespace(proba).ones_like(proba)

    def third(
        self, proba: Float[Array, "n k"], motion: Float[Array, "n k"]
    ) -> Float[Array, "n k k"]:
        """Return 0."""
        return on_diagonal(0.0 * motion)

    def deviation(self, proba: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return the square root of the noise."""
        noise = like(np.sqrt(self.noise), proba, dtype=proba.dtype)
        return namespace(proba).broadcast_to(noise, proba.shape)

    def own_slope(
        self,
        f: Float[Array, "n c 1"],
        M: Float[Array, "n c 1"],
        t: Float[Array, "_ c l"],
        w: Float[Array, "_ c l"],
    ) -> Float[Array, "n c l"]:
        """Return w (f - t) / (1 + wM)."""
        return w * (f - t) / (1.0 + w * M)

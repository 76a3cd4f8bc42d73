"""Ridge regression with estimated noise."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, like, namespace, to_numpy
from goalward.errors import BadInput, NotFinite, ShapeMismatch
from goalward.models.fitted import Fitted
from goalward.models.linear_fit import Learner, names_of
from goalward.models.loss import Blocks, Loss, Own, Table, Tables, diagonal_of, on_diagonal
from goalward.solvers.inverse import own_leverages

NEAR, FAR = (3.0 - 6.0**0.5) ** 0.5, (3.0 + 6.0**0.5) ** 0.5
"""Gauss-Hermite nodes; four, since the middle one of three has zero gain up to rounding."""


@dataclass(frozen=True)
class Squared(Loss):
    """Half the squared difference from one or several numbers.

    Parameters
    ----------
    noise
        Variance of a label around the prediction, for each number.

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
        table, K = np.asarray(y if isinstance(y, list) else to_numpy(y)), len(classes)
        table = table.reshape(-1, K) if table.size == 0 or (table.ndim == 1 and K == 1) else table
        if table.shape != (n_rows, K):
            raise ShapeMismatch(
                f"{name} must have shape ({n_rows}, {K}), got {table.shape}. Pass {K} number"
                f"{'s' * (K > 1)} for each row."
            )
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"{name} must hold numbers ({error}). For classes use gw.Logistic()."
            ) from error
        if not np.isfinite(table).all():
            row = int(np.argwhere(~np.isfinite(table))[0][0])
            raise NotFinite(
                f"Row {row} of {name} must be finite, got {table[row].tolist()}. Leave rows "
                "without a number out."
            )
        return table

    def proba(self, logits: Tables) -> Tables:
        return logits

    def rows(self, logits: Tables, targets: Table) -> Float[Array, "*n"]:
        return 0.5 * namespace(logits).sum((logits - targets) ** 2, axis=-1)

    def diagonal(self, proba: Tables) -> Tables:
        return namespace(proba).ones_like(proba)

    def third(self, proba: Table, motion: Table) -> Blocks:
        return on_diagonal(0.0 * motion)

    def deviation(self, proba: Table) -> Table:
        noise = like(np.sqrt(self.noise), proba, dtype=proba.dtype)
        return namespace(proba).broadcast_to(noise, proba.shape)

    def own_slopes(self, f: Float[Array, "n c"], M: Blocks, targets: Own, weights: Own) -> Own:
        return weights * (f[:, :, None] - targets) / (1.0 + weights * diagonal_of(M))


@dataclass(eq=False, repr=False)
class Ridge(Learner):
    """Least squares with a squared penalty, for one or several numbers per row.

    It is scikit-learn's `Ridge(alpha=alpha)`; the noise is estimated from the residuals.

    Parameters
    ----------
    alpha
        Strength of the penalty; "loo" chooses it by leave-one-out, which is exact.
    outputs
        Column names, by default from a frame or 0, 1, ...; needed to fit without labelled rows.
    fit_intercept
        Whether there is a constant; it is not penalised.
    tol, solver, features
        As for `Logistic`.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Ridge(alpha=0.1).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> fitted.predict([[3.0]]).round(1)
    array([6.8])
    """

    strength: ClassVar[str] = "alpha"
    names: ClassVar[str] = "outputs"

    alpha: float | str = 1.0
    _: KW_ONLY
    outputs: Sequence[Hashable] | None = None
    fit_intercept: bool = True
    tol: float = 1e-10
    solver: Any = "auto"
    features: Any = "linear"

    def _columns(self, y: Any) -> tuple[NDArray[Any], Loss]:
        names = names_of(y, self.outputs)
        return names, Squared((1.0,) * len(names))

    def _penalty(self, *known: Any) -> tuple[float, bool]:
        return 1.0 / float(self.alpha), True

    def _finished(self, fitted: Fitted) -> Fitted:
        """Return the model with noise Σ w r² / (n - tr hat matrix), at least 1e-6 of the variance."""
        known = fitted.labelled
        if len(known) == 0:
            return fitted
        weights, targets = to_numpy(known.weights), to_numpy(known.targets)
        residuals = targets - to_numpy(fitted.proba_of(known.X))
        M = to_numpy(own_leverages(fitted.hessian, known.X))[:, 0, 0]
        left = max(float(np.sum(weights > 0.0) - weights @ M), 1.0)
        noise = (weights @ residuals**2) / left
        least = 1e-6 * np.var(targets, axis=0) + 1e-12
        return replace(fitted, loss=Squared(tuple(np.maximum(noise, least).tolist())))

"""Numbers: ridge regression, with the noise that it leaves."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from goalward.core.arrays import to_numpy
from goalward.models.fitted import Fitted
from goalward.models.linear_fit import Learner, check_positive, fitted_to, names_of, polished
from goalward.models.squared import Squared


class Ridge(Learner):
    """Least squares with a squared penalty, for one number a row or several.

    It is scikit-learn's `Ridge(alpha=alpha)`: Σ wᵢ ‖yᵢ - f(xᵢ)‖² + α ‖Θ‖², the intercept free. The
    noise of each number is estimated from the residuals, with the degrees of freedom that the
    penalty leaves (`fitted.loss.noise`).

    Parameters
    ----------
    alpha
        Strength of the penalty.
    outputs
        Names of the numbers, in the order of the columns; by default those of a frame, or 0, 1, ...
        With them there is a model before the first number: `fit(X[:0], [])`.
    fit_intercept
        Whether there is a constant.
    tol, solver
        As for `Logistic`.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Ridge(alpha=0.1).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> fitted.predict([[3.0]]).round(1)
    array([6.8])
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        outputs: Sequence[Hashable] | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-10,
        solver: Any = "auto",
    ) -> None:
        self.alpha = alpha
        self.outputs = outputs
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.solver = solver

    @property
    def inverse_penalty(self) -> float:
        """1/α."""
        return 1.0 / float(self.alpha)

    def fit(
        self, X: object, y: object, *, sample_weight: object = None, start: Fitted | None = None
    ) -> Fitted:
        """Return the model fitted to labelled rows.

        Parameters
        ----------
        X
            (n, d) array of any library, sparse matrix, frame or list of rows.
        y
            n numbers, or (n, K) of them.
        """
        check_positive("alpha", self.alpha)
        names = names_of(y, self.outputs)
        given: Any = {"least": int(self.outputs is None), "weights": sample_weight, "start": start}
        first, _ = fitted_to(self, X, y, Squared((1.0,) * len(names)), names, **given)
        return with_noise(polished(self, first)) if len(first.labelled) else first


def with_noise(fitted: Fitted) -> Fitted:
    """Return a model with the noise of its residuals: Σ w r² / (n - tr hat matrix).

    While there are hardly more rows than degrees of freedom one is taken to be left; and noise is
    at least a millionth of the labels' variance, so that answers differ.
    """
    known = fitted.labelled
    weights, targets = to_numpy(known.weights), to_numpy(known.targets)
    residuals = targets - to_numpy(fitted.proba_of(known.X))
    inverse = fitted.posterior(known.X)
    M = to_numpy(inverse.leverage(known.X, inverse.coordinates(known.X)))[:, 0, 0]
    left = max(float(np.sum(weights > 0.0) - weights @ M), 1.0)
    noise = (weights @ residuals**2) / left
    least = 1e-6 * np.var(targets, axis=0) + 1e-12
    return replace(fitted, loss=Squared(tuple(np.maximum(noise, least).tolist())))

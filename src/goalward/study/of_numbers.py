"""How good a model of numbers is, with an honest interval: over all rows, not those asked.

A strategy asks for rows far from the others, where errors are larger. So it is learned how large
squared errors are where a row's leverage is so high, from answers that the model did not know, and
averaged over the leverages in the whole pool.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.models import Fitted
from goalward.study.accuracy import DRAWS, Estimate, counted
from goalward.study.answers import LeftOut

__all__ = ["ErrorSize", "NumbersMeasured", "leverages", "measured_numbers"]

SLOPE, CHOSEN, LEVEL = 0.5, 0.5, 3.0
"""Deviations, before any answer, of β, δ and α below."""
KURTOSIS, FEW = 2.0, 10
"""Variance of squared errors over their mean squared, of Gaussian errors, and the answers that it
counts for: tails are learned."""
WIDER = 2.0
"""What the variance of α, β and δ is multiplied with: tails are known from few answers. With it nine in
ten intervals held the truth in studies played beside it (docs/labels-and-numbers.md)."""
SHRUNK = 0.2
"""Deviation of how much too flat or too steep predictions are."""


@dataclass(frozen=True, eq=False)
class ErrorSize:
    """How large squared errors are: log E[e² / (1 + v)] = α + β (log v - centre) + δ·chosen.

    Parameters
    ----------
    theta, covariance
        α, β and δ at the mode of a quasi-likelihood, and how well they are known.
    centre
        The mean of log v in the pool.
    """

    theta: NDArray[Any] = field(repr=False)
    covariance: NDArray[Any] = field(repr=False)
    centre: float

    @classmethod
    def of(
        cls, errors: NDArray[Any], v: NDArray[Any], chosen: NDArray[Any], pool: NDArray[Any]
    ) -> ErrorSize:
        """Return what errors say, of answers with leverages v, chosen or not, about a pool."""
        weights, centre = counted(chosen), float(np.mean(np.log(pool)))
        squares = errors**2 / (1.0 + v)
        design = np.column_stack([np.ones(len(v)), np.log(v) - centre, chosen])
        level = np.log(max(float(np.average(squares, weights=weights)), 1e-300))
        mean = np.array([level, 0.0, 0.0])
        precision = np.diag(np.array([LEVEL, SLOPE, CHOSEN]) ** -2.0)
        theta, kurtosis = mean, KURTOSIS
        for _ in range(100):
            ratio = squares / np.exp(design @ theta)
            slope = design.T @ (weights * (ratio - 1.0)) / kurtosis - precision @ (theta - mean)
            curvature = (design * weights[:, None]).T @ design / kurtosis + precision
            step = np.linalg.solve(curvature, slope)
            largest = float(np.abs(step).max())
            theta = theta + step * min(1.0, 1.0 / max(largest, 1e-300))
            tails = float(np.sum(weights * (ratio - 1.0) ** 2))
            kurtosis = (KURTOSIS * FEW + tails) / (FEW + float(weights.sum()))
            if largest < 1e-9:
                break
        return cls(theta, WIDER * np.linalg.inv(curvature), centre)

    def variance(self, v: NDArray[Any], chosen: NDArray[Any]) -> NDArray[Any]:
        """Return E[e²] of rows."""
        alpha, beta, delta = self.theta
        logs = alpha + beta * (np.log(v) - self.centre) + delta * chosen
        return np.asarray(np.exp(logs) * (1.0 + v))

    def draws(self, v: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Return what the mean squared error over rows, none of them chosen, may be."""
        noise = rng.standard_normal((3, DRAWS))
        alpha, beta, _ = self.theta[:, None] + np.linalg.cholesky(self.covariance) @ noise
        logs = np.log(v)[:, None] - self.centre
        errors = np.exp(alpha + np.clip(beta, -0.5, 2.0) * logs) * (1.0 + v)[:, None]
        return np.asarray(errors.mean(axis=0))


@dataclass(frozen=True)
class NumbersMeasured:
    """R² over a pool, the typical error (root mean square), and the variance of the numbers."""

    r2: Estimate
    error: Estimate
    scale: float


def measured_numbers(
    answers: LeftOut, v: NDArray[Any], pool: NDArray[Any], pool_v: NDArray[Any]
) -> NumbersMeasured:
    """Return how good a model is over a pool.

    The numbers' own variance is that of what is predicted, of the errors, and twice what these have
    in common: how much too steep or too flat predictions are.

    Parameters
    ----------
    answers, v
        Answers beside what a model without each says, and their leverages in it (`leverages`).
    pool, pool_v
        What the model says of rows of the pool, and their leverages.
    """
    said, truth = answers.proba[:, 0], answers.truth[:, 0]
    errors, rng = truth - said, np.random.default_rng(0)
    spread = ErrorSize.of(errors, v, answers.chosen, pool_v)
    squares = spread.draws(pool_v, rng)
    weights = counted(answers.chosen) / np.maximum(spread.variance(v, answers.chosen), 1e-300)
    middle = said - np.average(said, weights=weights)
    known = float(np.sum(weights * middle**2)) + SHRUNK**-2.0
    steeper = float(np.sum(weights * middle * errors)) / known
    slopes = steeper + known**-0.5 * rng.standard_normal(DRAWS)
    varied = np.var(pool) * (1.0 + 2.0 * slopes) + squares
    # Worse than the mean by as much as the mean is wrong: more is not told.
    varied = np.maximum(varied, 0.5 * squares)
    r2 = 1.0 - squares / np.maximum(varied, 1e-300)
    on = len(truth)
    return NumbersMeasured(
        Estimate.of(r2, on), Estimate.of(np.sqrt(squares), on), float(varied.mean())
    )


def leverages(fitted: Fitted, X: Any = None) -> NDArray[Any]:
    """Return the variance of what a model says of rows, over that of the noise.

    Of the rows that it was fitted to (None): of a model without each.
    """
    known = fitted.labelled.X
    rows = known if X is None else fitted.features(X.astype(np.float64))
    inverse = fitted.posterior(known, "How good it is")
    h = to_numpy(inverse.leverage(rows, inverse.coordinates(rows)))[:, 0, 0]
    if X is None:
        h = h / np.maximum(1.0 - h, 1e-6)
    return np.asarray(np.maximum(h, 1e-9))

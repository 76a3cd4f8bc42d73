"""How many rows the model gets right, with an honest interval, though a strategy chose the answers.

The rows that a strategy asks for are the hard ones: counted as they are, they say 61 % where 96 %
is true. So it is learned how often the model is right at a given confidence, from answers that it
did not know: those kept to measure, which are random, and the others, each left out. That is then
averaged over the confidences of the whole pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from goalward.study.answers import LeftOut

__all__ = ["Estimate", "estimated", "measured"]

PRIOR = np.array([1.0, 1.0, 0.0]), np.array([1.5, 0.7, 0.5])
"""Mean and deviation, before any answer, of: the log-odds of being right at the mean confidence; how
they rise with a deviation of confidence; how much they differ for rows that a strategy chose."""
LEVEL = 0.95
DRAWS = 2000


@dataclass(frozen=True)
class Estimate:
    """The share of rows predicted right, the ends of its interval, and on how many answers it rests."""

    value: float
    low: float
    high: float
    on: int


def measured(answers: LeftOut, pool: NDArray[Any]) -> Estimate:
    """Return the accuracy over a pool, of whose rows `pool` are (n, k) probabilities."""
    return estimated(answers.proba.max(axis=1), answers.right, answers.chosen, pool.max(axis=1))


def estimated(
    confidence: NDArray[Any], right: NDArray[Any], chosen: NDArray[Any], pool: NDArray[Any]
) -> Estimate:
    """Return the accuracy that answers speak for, over the confidences of a pool.

    log-odds(right) = α + βz + δ·chosen with z the log-odds of the confidence, scaled as in the pool.
    The posterior is a Gaussian at its mode (Laplace); accuracy is σ(α + βz) averaged over the pool.
    """
    everywhere = _log_odds(pool)
    mean, scale = everywhere.mean(), max(float(everywhere.std()), 1e-6)
    z = np.clip((_log_odds(confidence) - mean) / scale, -4.0, 4.0)
    design = np.column_stack([np.ones_like(z), z, chosen])
    before, deviation = PRIOR
    theta, precision = before.copy(), np.diag(deviation**-2.0)
    for _ in range(50):
        p = expit(design @ theta)
        slope = design.T @ (right - p) - precision @ (theta - before)
        curvature = (design * (p * (1.0 - p))[:, None]).T @ design + precision
        step = np.linalg.solve(curvature, slope)
        theta = theta + step
        if np.abs(step).max() < 1e-9:
            break
    noise = np.random.default_rng(0).standard_normal((DRAWS, 3))
    draws = theta + np.linalg.solve(np.linalg.cholesky(curvature).T, noise.T).T
    places = np.quantile((everywhere - mean) / scale, (np.arange(50) + 0.5) / 50)
    shares = expit(draws[:, :1] + draws[:, 1:2] * np.clip(places, -4.0, 4.0)).mean(axis=1)
    low, high = np.quantile(shares, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(shares.mean()), float(low), float(high), len(right))


def _log_odds(confidence: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(logit(np.clip(confidence.astype(np.float64), 1e-6, 1.0 - 1e-6)))

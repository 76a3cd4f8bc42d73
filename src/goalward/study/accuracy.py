"""How many rows the model gets right, with an honest interval, though a strategy chose the answers.

The rows that a strategy asks for are the hard ones: counted as they are, they say far too little.
So it is learned how often the model is right where its likeliest class leads by so much, from
answers that it did not know: those kept to measure, which are random, and the others, each left
out. That is then averaged over the leads of the rows that nobody answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from goalward.study.answers import LeftOut
from goalward.study.rounds import DEV_MINIMUM

__all__ = ["PRECISION", "Estimate", "commonest", "counted", "drawn", "estimated", "measured"]

MEAN = np.array([-0.5, 3.1, -0.25])
DEVIATION = np.array([1.0, 1.55, 1.0])
CORRELATION = np.array([[1.0, -0.2, -0.1], [-0.2, 1.0, -0.3], [-0.1, -0.3, 1.0]])
"""Of α, β and δ below, before any answer: as the models of simulated studies on 25 datasets had them. How
far chosen rows differ (δ) is another thing on every table: on tic-tac-toe they are easier than the
rest, on digits far harder."""
PRECISION = np.linalg.inv(CORRELATION * np.outer(DEVIATION, DEVIATION))
MOST = 100
"""Chosen rows count as so many at most: that they differ from others by δ alone is not quite true."""
LEVEL = 0.93
DRAWS, PLACES = 2000, 50


@dataclass(frozen=True)
class Estimate:
    """The share of rows predicted right, the ends of its interval, and on how many answers it rests."""

    value: float
    low: float
    high: float
    on: int

    @classmethod
    def of(cls, draws: NDArray[Any], on: int) -> Estimate:
        """Return the mean of draws, and the ends between which most of them lie."""
        low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return cls(float(draws.mean()), float(low), float(high), on)


def measured(answers: LeftOut, pool: NDArray[Any], left: int) -> Estimate | None:
    """Return the accuracy over rows that nobody answered; None where it is not known to be any good.

    `pool` are (n, k) probabilities of some of these rows, and `left` is how many there are. Where the
    value is no higher than the share of the commonest class, it says nothing of the model.
    """
    said = estimated(_lead(answers.proba), answers.right, answers.chosen, _lead(pool), left)
    return said if said.value > commonest(answers)[1] else None


def commonest(answers: LeftOut) -> tuple[int, float]:
    """Return the place of the commonest class, and its share as if each class had one answer more."""
    random = answers.truth[~answers.chosen]
    counts = np.bincount(
        random if len(random) >= DEV_MINIMUM else answers.truth, minlength=answers.proba.shape[1]
    )
    return int(counts.argmax()), float((counts.max() + 1) / (counts.sum() + len(counts)))


def estimated(
    lead: NDArray[Any],
    right: NDArray[Any],
    chosen: NDArray[Any],
    pool: NDArray[Any],
    left: int,
) -> Estimate:
    """Return the accuracy that answers speak for, over `left` rows like those of a pool.

    log-odds(right) = α + β log(1 + l) + δ·chosen with l = log p₁ - log p₂, how far the likeliest class
    leads the next. The posterior of the three is a Gaussian at its mode (Laplace), and accuracy the
    mean over the pool of σ(α + β log(1 + l)), β not below 0. Few rows are right more or less often
    than that by chance.

    Parameters
    ----------
    lead, pool
        l of every answer, by a model that did not know it, and of rows of the pool.
    right, chosen
        Whether the likeliest class is the answer, and whether a strategy chose the row.

    Examples
    --------
    >>> import numpy as np
    >>> few, half = np.array([0.1, 0.3, 0.8, 2.0]), np.array([0, 1, 1, 1], dtype=bool)
    >>> said = estimated(few, half, ~half, pool=few, left=100)
    >>> said.low < said.value < said.high
    True
    """
    design = np.column_stack([np.ones(len(lead)), np.log1p(lead), chosen])
    alpha, beta, _ = drawn(design, right, counted(chosen), MEAN, PRECISION)
    places = np.quantile(np.log1p(pool), (np.arange(PLACES) + 0.5) / PLACES)
    shares = expit(alpha + np.maximum(beta, 0.0) * places[:, None]).mean(axis=0)
    return Estimate.of(np.random.default_rng(1).binomial(left, shares) / left, len(right))


def counted(chosen: NDArray[Any]) -> NDArray[Any]:
    """Return what each answer counts for: all that were chosen, together, as `MOST` at most."""
    return np.where(chosen, min(1.0, MOST / max(chosen.sum(), 1)), 1.0)


def drawn(
    design: NDArray[Any],
    right: NDArray[Any],
    weights: NDArray[Any],
    mean: NDArray[Any],
    precision: NDArray[Any],
) -> NDArray[Any]:
    """Return (p, draws) of what a logistic regression of `right` may be: a Gaussian at its mode."""
    theta = mean
    for _ in range(100):
        p = expit(design @ theta)
        slope = design.T @ (weights * (right - p)) - precision @ (theta - mean)
        curvature = (design * (weights * p * (1.0 - p))[:, None]).T @ design + precision
        step = np.linalg.solve(curvature, slope)
        largest = float(np.abs(step).max())
        theta = theta + step * min(1.0, 2.0 / max(largest, 1e-300))
        if largest < 1e-9:
            break
    noise = np.random.default_rng(0).standard_normal((len(mean), DRAWS))
    return np.asarray(theta[:, None] + np.linalg.solve(np.linalg.cholesky(curvature).T, noise))


def _lead(proba: NDArray[Any]) -> NDArray[Any]:
    second, first = np.sort(np.maximum(proba.astype(np.float64), 1e-12), axis=1)[:, -2:].T
    return np.asarray(np.log(first) - np.log(second))

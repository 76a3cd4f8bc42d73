"""How many rows the model gets right, with an honest interval, though a strategy chose the answers.

The rows that a strategy asks for are the hard ones: counted as they are, they say far too little.
So it is learned how often the model is right where its likeliest class leads by so much, from
answers that it did not know: those kept to measure, which are random, and the others, each left
out. That is then averaged over the leads of the rows that nobody answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from goalward.core.arrays import to_numpy
from goalward.models.fitted import Fitted
from goalward.studio.study.answers import LeftOut
from goalward.studio.study.rounds import DEV_MINIMUM

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


# How good a model of several labels is, with an honest interval: over all rows, not those asked.
#
# It is learned how often a yes or a no is right where its logit is so far from 0, as `accuracy.py`
# learns it for classes, with terms for saying yes and for each label. Averaged over the pool that says
# how many yes are right and how many rows with a label are missed, so F1 follows.


OWN, YES = 0.5, 1.0
"""How far labels differ, and how far a yes from a no, in log-odds of being right."""
ROWS = 300
"""Rows of the pool that are averaged over."""


def measured_labels(answers: LeftOut, pool: NDArray[Any]) -> tuple[Estimate, Estimate]:
    """Return macro-F1 over a pool, and the share of its yes and no that are right.

    Answers of a row err together: its K labels count as √K answers.

    Parameters
    ----------
    answers
        (n, K): NaN where a label was not answered.
    pool
        (m, K) probabilities of rows of the pool.

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.array([[0.9, 0.2], [0.3, 0.6], [0.8, 0.1], [0.2, 0.4]])
    >>> known = LeftOut(np.arange(4), (proba > 0.5).astype(float), proba, np.array([True] * 4))
    >>> f1, right = measured_labels(known, proba)
    >>> right.low < right.value < right.high, f1.value < right.value
    (True, True)
    """
    n, K = answers.proba.shape
    told = ~np.isnan(answers.truth)
    right = (answers.proba > 0.5) == (answers.truth > 0.5)
    design = _design(answers.proba, answers.chosen)
    weights = np.broadcast_to(counted(answers.chosen)[:, None] / K**0.5, (n, K))
    mean = np.concatenate([MEAN, np.zeros(1 + 2 * K)])
    precision = np.diag(np.concatenate([np.zeros(3), [YES**-2.0], np.full(2 * K, OWN**-2.0)]))
    precision[:3, :3] = PRECISION
    theta = drawn(design[told], right[told], weights[told], mean, precision)
    theta[1] = np.maximum(theta[1], 0.0)
    shown = pool[np.linspace(0, len(pool) - 1, min(len(pool), ROWS)).astype(int)]
    f1, share = np.zeros(theta.shape[1]), np.zeros(theta.shape[1])
    for k, lines in enumerate(_design(shown, np.zeros(len(shown))).swapaxes(0, 1)):
        good, yes = expit(lines @ theta), shown[:, k] > 0.5
        hits, missed = good[yes].sum(axis=0), (1.0 - good[~yes]).sum(axis=0)
        f1 += 2.0 * hits / (hits + missed + yes.sum()) / K
        share += good.mean(axis=0) / K
    return Estimate.of(f1, n), Estimate.of(share, n)


def _design(proba: NDArray[Any], chosen: NDArray[Any]) -> NDArray[Any]:
    """Return (n, K, 4 + 2K): 1, log(1 + |logit|), chosen, yes; and for each label 1 and yes."""
    n, K = proba.shape
    lead = np.log1p(np.abs(logit(np.clip(proba.astype(np.float64), 1e-12, 1.0 - 1e-12))))
    yes = (proba > 0.5) - 0.5
    picked = np.broadcast_to(np.asarray(chosen, dtype=np.float64)[:, None], (n, K))
    shared = np.stack([np.ones((n, K)), lead, picked, yes], axis=-1)
    own = np.broadcast_to(np.eye(K), (n, K, K))
    return np.concatenate([shared, own, own * yes[:, :, None]], axis=-1)


# How good a model of numbers is, with an honest interval: over all rows, not those asked.
#
# A strategy asks for rows far from the others, where errors are larger. So it is learned how large
# squared errors are where a row's leverage is so high, from answers that the model did not know, and
# averaged over the leverages in the whole pool.


SLOPE, CHOSEN, OFFSET = 0.5, 0.5, 3.0
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
        precision = np.diag(np.array([OFFSET, SLOPE, CHOSEN]) ** -2.0)
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

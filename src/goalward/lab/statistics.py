"""Statistics over seeds and datasets: heights, intervals, ranks, differences."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata, t, wilcoxon

LOWER_IS_BETTER = {"log_loss"}


def upwards(values: NDArray[Any], metric: str) -> NDArray[Any]:
    """Return the values with a sign that makes higher better."""
    return -values if metric in LOWER_IS_BETTER else values


def height(values: NDArray[Any], x: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return the mean height of curves, their last axis, by trapezes over x or equal steps."""
    if values.shape[-1] == 1:
        return values[..., 0]
    width = values.shape[-1] - 1 if x is None else x[-1] - x[0]
    return np.asarray(np.trapezoid(values, x, axis=-1) / width)


def bootstrap(
    values: NDArray[Any], *, draws: int = 10_000, seed: int = 0
) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval over seeds: Student's below ten values, else a bootstrap."""
    n, mean = len(values), float(values.mean())
    if n < 2:
        return mean, float("nan"), float("nan")
    if n < 10:
        half = float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))
        return mean, mean - half, mean + half
    rng = np.random.default_rng(seed)
    means = values[rng.integers(n, size=(draws, n))].mean(axis=1)
    tail = float(norm.cdf(-np.sqrt(n / (n - 1)) * t.ppf(0.975, n - 1)))
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return mean, float(low), float(high)


def ranked(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ranks along the first axis, 1 the highest, and in how many columns each is the best."""
    ranks = np.asarray(rankdata(-values, axis=0))
    return ranks, (ranks == ranks.min(axis=0)).sum(axis=1)


def signed_rank(differences: NDArray[Any]) -> float:
    """Return Wilcoxon's two-sided p-value of differences; zeros are ranked, then dropped (Pratt)."""
    if not np.any(differences):
        return 1.0
    return float(wilcoxon(differences, zero_method="pratt").pvalue)


def holm(p: NDArray[Any]) -> NDArray[Any]:
    """Return p-values for several questions at once: the i-th smallest of m times m - i + 1, in order."""
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


class Beliefs(NamedTuple):
    """How probable it is that one is worse, as good for all practical purposes, or better."""

    worse: float
    same: float
    better: float


def bayesian_signed_rank(
    differences: NDArray[Any], *, same: float = 0.005, draws: int = 5_000, seed: int = 0
) -> Beliefs:
    """Return P(below, within, above ± `same`) by Bayesian signed ranks (Benavoli et al. 2017, 4.2)."""
    z = np.append(0.0, differences)
    middle = (z[:, None] + z[None, :]) / 2
    weights = np.random.default_rng(seed).dirichlet(np.r_[0.5, np.ones(len(z) - 1)], draws)
    regions = np.array([middle < -same, np.abs(middle) <= same, middle > same], dtype=float)
    theta = np.einsum("di,rij,dj->dr", weights, regions, weights, optimize=True)
    shares = np.bincount(theta.argmax(axis=1), minlength=3) / draws
    return Beliefs(*map(float, shares))


def regret(values: NDArray[Any]) -> NDArray[Any]:
    """Return how far each strategy is behind the best of the others, chosen on the other half of seeds."""
    halves = [values[..., 0::2].mean(axis=2), values[..., 1::2].mean(axis=2)]
    behind = np.zeros(halves[0].shape)
    for chosen_on, measured_on in (halves, halves[::-1]):
        for mine in range(len(values)):
            others = np.delete(np.arange(len(values)), mine)
            best = others[chosen_on[others].argmax(axis=0)]
            gap = np.take_along_axis(measured_on, best[None, :], axis=0)[0] - measured_on[mine]
            behind[mine] += gap / 2
    return behind

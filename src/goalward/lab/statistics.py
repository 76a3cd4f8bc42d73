"""What can be said of numbers over seeds and datasets: heights, intervals, ranks, differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import friedmanchisquare, norm, rankdata, studentized_range, t

__all__ = ["bootstrap", "critical_difference", "friedman", "height", "ranked", "upwards"]

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
    """Return the mean and its 95 % bootstrap interval over seeds; NaN ends for a single one.

    Percentiles are expanded for few values (Hesterberg 2015), since plain ones are too narrow;
    below ten values resamples are too alike even for that, and Student's interval is returned.
    """
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


def friedman(values: NDArray[Any]) -> float:
    """Return the p-value of Friedman's test that all lines (strategies, datasets) do equally well."""
    if len(values) < 3 or values.shape[1] < 2:
        return float("nan")
    return float(friedmanchisquare(*values).pvalue)


def critical_difference(n_strategies: int, n_datasets: int) -> float:
    """Return Nemenyi's critical difference of mean ranks at 5 % (Demšar 2006, eq. 4)."""
    q = float(studentized_range.ppf(0.95, n_strategies, np.inf)) / np.sqrt(2.0)
    return float(q * np.sqrt(n_strategies * (n_strategies + 1) / (6.0 * n_datasets)))

"""Intervals and estimates of all kinds, averaged over the pool: strategies ask for harder rows."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from goalward.studio.store.events import Label

MEAN = np.array([-0.5, 3.1, -0.25])
DEVIATION = np.array([1.0, 1.55, 1.0])
CORRELATION = np.array([[1.0, -0.2, -0.1], [-0.2, 1.0, -0.3], [-0.1, -0.3, 1.0]])
"""The prior of α, β and δ in `kind.estimated`, from simulated studies on 25 datasets."""
PRECISION = np.linalg.inv(CORRELATION * np.outer(DEVIATION, DEVIATION))
MOST = 100
"""Rows that chosen ones count as at most, since they differ from others by more than δ."""
LEVEL, DRAWS = 0.93, 2000


class Interval(NamedTuple):
    """A value and the ends of its interval; an empty share is None within 0 and 1."""

    value: float | None
    low: float
    high: float

    @classmethod
    def of(cls, draws: NDArray[Any]) -> Interval:
        """Return the mean of draws, and the ends between which most of them lie."""
        low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return cls(float(draws.mean()), float(low), float(high))


def wilson(hits: float, of: float, level: float = 0.95) -> Interval:
    """Return a share and Wilson's interval; for counts that are weighted, their effective number."""
    if not of:
        return Interval(None, 0.0, 1.0)
    z, share = float(ndtri(0.5 + level / 2)), hits / of
    middle = share + z * z / (2 * of)
    half = z * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5
    scale = 1 + z * z / of
    # Rounding must not put the share outside.
    low, high = (middle - half) / scale, (middle + half) / scale
    return Interval(share, max(0.0, min(share, low)), min(1.0, max(share, high)))


@dataclass(frozen=True)
class ClassScores:
    """Precision, recall and F1 of one class, and how many answers name it."""

    label: Label
    answers: int
    precision: Interval
    recall: Interval
    f1: Interval

    @classmethod
    def of(cls, label: Label, hit: Any, named: Any, predicted: Any) -> ClassScores:
        """Return the scores of a class with `named` answers and `predicted` rows, `hit` of them right."""
        hit, named, predicted = int(hit), int(named), int(predicted)
        # F1 = 2J / (1 + J) with J = hits / (hits + misses of both kinds), a share.
        shared = wilson(hit, named + predicted - hit)
        f1 = Interval(*(None if x is None else 2 * x / (1 + x) for x in shared))  # type: ignore[arg-type]
        return cls(label, named, wilson(hit, predicted), wilson(hit, named), f1)


class Scored:
    """Scores that can be written as plain values."""

    def record(self) -> dict[str, Any]:
        values: dict[str, Any] = asdict(  # type: ignore[call-overload]
            self, dict_factory=lambda pairs: {name: _plain(value) for name, value in pairs}
        )
        return values


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return value._asdict()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def in_hundredths(value: float, low: float, high: float) -> str:
    """Return a value and its interval, rounded outwards so that it holds no less."""
    return f"{value:.2f} ({math.floor(100 * low) / 100:.2f} to {math.ceil(100 * high) / 100:.2f})"


def weights_of(chosen: NDArray[Any]) -> NDArray[Any]:
    """Return the weights of answers: chosen ones count as at most `MOST` together."""
    return np.where(chosen, min(1.0, MOST / max(chosen.sum(), 1)), 1.0)


def drawn(
    design: NDArray[Any],
    right: NDArray[Any],
    weights: NDArray[Any],
    mean: NDArray[Any],
    precision: NDArray[Any],
) -> NDArray[Any]:
    """Return (p, draws) of the parameters of a logistic regression of `right`: a Gaussian at its mode."""
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

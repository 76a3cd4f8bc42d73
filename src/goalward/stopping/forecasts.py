"""How many labels until accuracy hardly rises: told by runs of the benchmark that went alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter

__all__ = ["Forecast", "Run", "end_of_rise", "forecast", "kin"]

STEP = 10
"""Labels between the points of a run."""
AHEAD, POINT = 50, 0.01
"""Accuracy has stopped rising when the next 50 labels bring less than a point."""
LEAST = 20
TAILS = (0.1, 0.5, 0.9)


class Run(NamedTuple):
    """A run of the benchmark: its dataset, and its accuracy after 0, 10, 20, ... labels."""

    dataset: str
    curve: NDArray[Any]


@dataclass(frozen=True)
class Forecast:
    """How many more labels it takes until the next 50 bring less than one point of accuracy.

    Parameters
    ----------
    labels, low, high
        The median over runs that went alike, and the ends of an interval that holds 80 % of them;
        None for more than those runs can tell.
    runs
        How many runs have a say, by their weights.
    """

    labels: int | None
    low: int | None
    high: int | None
    runs: float

    @property
    def says(self) -> str:
        """The same in a sentence."""
        if self.high == 0:
            return f"The next {AHEAD} labels are expected to bring less than a point of accuracy."
        ends = ["more than is known" if end is None else str(end) for end in (self.low, self.high)]
        middle = "many" if self.labels is None else f"about {self.labels}"
        return (
            f"Accuracy is expected to go on rising for {middle} more labels (80 % interval {ends[0]} to "
            f"{ends[1]}), until {AHEAD} labels bring less than a point."
        )


def forecast(
    labels: Sequence[int],
    accuracy: Sequence[float],
    *,
    spread: float = 0.0,
    runs: Sequence[Run] | None = None,
) -> Forecast | None:
    """Return when accuracy will stop rising; None where nothing can be said.

    Runs of `goalward benchmark` with the recommended strategy are compared at the same number of
    labels: those with a like accuracy and a like rise over the last 50 labels weigh most.

    Parameters
    ----------
    labels, accuracy
        Labels of the model after each round, rising, and the accuracy measured then.
    spread
        Standard error of one accuracy: sqrt(a (1 - a) / m) on m held-out rows.
    runs
        To compare with; by default those of the benchmark.

    Examples
    --------
    >>> from goalward.stopping import forecast
    >>> forecast([10, 20, 30], [0.5, 0.6, 0.7]).labels > 0
    True
    """
    x, y = np.asarray(labels, dtype=float), np.asarray(accuracy, dtype=float)
    if x.shape != y.shape or x.ndim != 1 or any(b <= a for a, b in pairwise(labels)):
        raise BadParameter(
            f"labels of shape {x.shape} and accuracy of shape {y.shape} came; a rising number of labels, "
            "and an accuracy for each, were expected."
        )
    if len(x) < 2 or x[-1] < LEAST:
        return None
    now = int(x[-1] // STEP)
    mine = np.interp(STEP * np.arange(now + 1), x, y)
    first = max(int(np.ceil(x[0] / STEP)), now - AHEAD // STEP)
    alike = [run.curve for run in (kin() if runs is None else runs)]
    alike = [curve for curve in alike if len(curve) > now + AHEAD // STEP]
    if not alike or first >= now:
        return None
    level = np.array([curve[now] for curve in alike])
    rise = level - np.array([curve[first] for curve in alike])
    gap = (rise - (mine[now] - mine[first])) / max(0.02, 1.4 * spread)
    weights = np.exp(-0.5 * (gap**2 + ((level - mine[now]) / max(0.1, spread)) ** 2))
    weights /= weights.sum()
    ends = np.array([end_of_rise(curve, now) - now for curve in alike])
    order = np.argsort(ends)
    places = np.searchsorted(np.cumsum(weights[order]), TAILS)
    low, middle, high = (
        int(STEP * end) if np.isfinite(end) else None
        for end in ends[order][np.minimum(places, len(ends) - 1)]
    )
    return Forecast(middle, low, high, float(1.0 / np.sum(weights**2)))


def end_of_rise(curve: NDArray[Any], now: int) -> float:
    """Return the first point from `now` on whose next 50 labels bring less than a point.

    Of a curve smoothed over three points; infinite where it rises to its end.
    """
    ahead = AHEAD // STEP
    padded = np.concatenate([curve[:1], curve, curve[-1:]])
    smooth = (padded[:-2] + padded[1:-1] + padded[2:]) / 3.0
    flat = np.flatnonzero(smooth[now + ahead :] - smooth[now:-ahead] < POINT)
    return float(now + flat[0]) if len(flat) else float("inf")


@cache
def kin() -> tuple[Run, ...]:
    """Return the runs of the benchmark that come with the package."""
    text = files("goalward.stopping").joinpath("kin.csv").read_text()
    lines = (line.split(",") for line in text.splitlines())
    return tuple(Run(name, np.array(curve, dtype=float)) for name, *curve in lines)

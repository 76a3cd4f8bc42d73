"""How the cost of a query grows with rows, features, classes and labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, ScalarFormatter
from threadpoolctl import threadpool_limits

from goalward.goals import DevLoss
from goalward.lab.speed.race import timed
from goalward.learners import Logistic
from goalward.plots import figure
from goalward.utility import FirstOrder
from goalward.utility.first_order import Direction

__all__ = ["Growth", "growth", "growth_figure"]

SIZES = {
    "N": (12_500, 25_000, 50_000, 100_000, 200_000),
    "d": (32, 64, 128, 256, 512),
    "K": (5, 10, 20, 40, 80),
    "n": (200, 400, 800, 1600, 3200),
}
NAMES = {"N": "rows of the pool, N", "d": "features, d", "K": "classes, K", "n": "labels, n"}


@dataclass(frozen=True)
class Growth:
    """Seconds against one size, the others held."""

    size: str
    work: str
    at: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def slope(self) -> float:
        """The power of the size that time grows with: 1 is proportional."""
        return float(np.polyfit(np.log(self.at), np.log(self.seconds), 1)[0])


def growth(quick: bool) -> list[Growth]:
    """Return the measured growth with N, d and K (scoring) and with n (fit and solve)."""
    base = {"N": 5_000 if quick else 50_000, "d": 64, "K": 10, "n": 400}
    results = []
    with threadpool_limits(limits=1):
        for size, values in SIZES.items():
            at = values[:3] if quick else values
            calls = [_work(size, **{**base, size: value}) for value in at]
            seconds = tuple(min(timed(call)[0] for _ in range(2 if quick else 4)) for call in calls)
            results.append(Growth(size, "fit and solve" if size == "n" else "score", at, seconds))
    return results


def _work(size: str, N: int, d: int, K: int, n: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)), np.arange(n) % K
    goal = DevLoss(X[:200], y[:200])
    learner = Logistic(C=0.01)
    if size == "n":
        return lambda: FirstOrder().prepare(learner.fit(X, y), goal)
    pool = rng.random((N, d), dtype=np.float32)
    direction = cast(Direction, FirstOrder().prepare(learner.fit(X, y), goal))
    return partial(direction.reduced, pool, "spread")


def growth_figure(results: list[Growth]) -> Figure:
    """Draw the growth on logarithmic axes, with the slopes."""
    fig = figure(11, 3.2)
    for axes, result in zip(fig.subplots(1, len(results)), results, strict=True):
        axes.loglog(result.at, [1e3 * s for s in result.seconds], "o-")
        axes.set_xlabel(NAMES[result.size])
        axes.set_title(f"{result.work}: slope {result.slope:.2f}", fontsize=10)
        axes.set_xticks(result.at, [f"{v:,}" for v in result.at], fontsize=7, rotation=30)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.minorticks_off()
    fig.axes[0].set_ylabel("milliseconds")
    return fig

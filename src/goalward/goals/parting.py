"""Whether a goal still means what it should: its curve beside a measure that nothing steers by.

A goal that is pushed for long stops being a measure. The alarm goes off at the first round where,
over a window of the last rounds, the goal has risen and a held-out measure has fallen by more than
chance.

Both are means over the seeds. A window is cut into up to 12 blocks. The steps of the measure from
block mean to block mean have a mean and a standard error; t is their ratio. What a measure would do
without a trend is a random walk: the smallest t over all windows of a walk depends only on the
number of rounds and on the window. It is drawn 10,000 times, and its quantile is the threshold. So
a share `level` of curves without a trend raise an alarm, all rounds together. A measure that keeps
its level but for noise has steps that cancel, and raises fewer.

Steps of single seeds are not counted apart: seeds share data, and what is common to them is no
evidence five times over. The mean of walks is a walk, whether or not they have a part in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadInput, BadParameter, NotFinite, ShapeMismatch

__all__ = ["Alarm", "parting"]

SHORTEST = 5
"""Rounds in a window: with fewer steps a t says little."""
BLOCKS = 12
DRAWS = 10_000


@dataclass(frozen=True)
class Alarm:
    """Whether a goal and a measure parted, and where.

    Parameters
    ----------
    round
        At the end of the first window in which they did; None if they did not.
    best
        The round where the measure, smoothed over five rounds, was best: up to the alarm, or at all.
    t
        The smallest t of the measure over the windows in which the goal rose, up to the alarm.
    threshold
        What it is compared with.
    window
        Rounds in a window.

    Examples
    --------
    >>> Alarm(round=None, best=8, t=-1.2, threshold=-3.1, window=5).fired
    False
    """

    round: int | None
    best: int
    t: float
    threshold: float
    window: int

    @property
    def fired(self) -> bool:
        """Whether they parted."""
        return self.round is not None


def parting(goal: Any, measure: Any, *, window: int | None = None, level: float = 0.05) -> Alarm:
    """Return whether the measure falls while the goal rises.

    Parameters
    ----------
    goal, measure
        (seeds, rounds) or (rounds,) values; of both, higher is better. Seeds need not be
        independent of one another.
    window
        Rounds to look back; half of the curve by default, and 5 at least.
    level
        The share of curves without a trend that raise an alarm.
    """
    goal, measure = _curves(goal, "goal"), _curves(measure, "measure")
    if goal.shape != measure.shape:
        raise ShapeMismatch(
            f"goal has shape {goal.shape} and measure {measure.shape}; the same were expected, a "
            "value of each for every seed and round."
        )
    rounds = goal.shape[1]
    window = max(SHORTEST, rounds // 2) if window is None else window
    if window < SHORTEST:
        raise BadParameter(
            f"window={window!r}; at least {SHORTEST} rounds were expected. Leave it out."
        )
    if not 0.0 < level < 1.0:
        raise BadParameter(f"level={level!r}; a share between 0 and 1 was expected. Use 0.05.")
    if rounds <= window:
        raise BadInput(
            f"The curves have {rounds} rounds for a window of {window}; more were expected. Play more "
            "rounds, or look back over fewer."
        )
    goal, measure = goal.mean(axis=0), measure.mean(axis=0)
    t = _slopes(measure, window)
    rises = goal[window:] > goal[:-window]
    threshold = _threshold(rounds, window, level)
    hit = rises & (t < threshold)
    at = int(hit.argmax()) + window if hit.any() else None
    last = rounds if at is None else at + 1
    risen = t[: last - window][rises[: last - window]]
    best = _best(measure[:last])
    return Alarm(at, best, float(risen.min(initial=0.0)), threshold, window)


def _slopes(curves: NDArray[Any], window: int) -> NDArray[Any]:
    """Return t of the window that ends at each round from `window` on: (..., rounds) curves."""
    block = max(1, window // BLOCKS)
    rounds, count = curves.shape[-1], (window + 1) // block - 1
    running = np.cumsum(curves, axis=-1)
    before = np.concatenate([np.zeros_like(running[..., :1]), running[..., :-block]], axis=-1)
    means = (running[..., block - 1 :] - before) / block
    steps = means[..., block:] - means[..., :-block]
    # steps[r - 2 block + 1] leads to the block that ends at round r.
    last = np.arange(window, rounds) - 2 * block + 1
    picked = last[:, None] - block * np.arange(count)
    total, squares = (values[..., picked].sum(axis=-1) for values in (steps, steps**2))
    scatter = squares - total**2 / count
    # Without noise a line has any t one likes, and one that stands still has none.
    straight = scatter <= 1e-20 * squares
    sure = np.where(squares <= 1e-24, 0.0, np.where(total > 0.0, np.inf, -np.inf))
    t = total / np.sqrt(np.where(straight, 1.0, scatter) * count / (count - 1))
    return np.where(straight, sure, t)


@lru_cache(maxsize=256)
def _threshold(rounds: int, window: int, level: float) -> float:
    """Return what the smallest t of a random walk is below in a share `level` of them."""
    rng = np.random.default_rng([rounds, window])
    size = max(1, 2**22 // rounds)
    smallest: list[float] = []
    while len(smallest) < DRAWS:
        walks = np.cumsum(rng.normal(size=(size, rounds)), axis=-1)
        smallest += _slopes(walks, window).min(axis=-1).tolist()
    return float(np.quantile(smallest[:DRAWS], level))


def _best(curve: NDArray[Any]) -> int:
    """Return where a curve, smoothed over five rounds, is highest."""
    if len(curve) <= 10:
        return int(curve.argmax())
    return int(np.convolve(curve, np.ones(5) / 5, mode="valid").argmax()) + 2


def _curves(values: Any, name: str) -> NDArray[Any]:
    curves = np.atleast_2d(np.asarray(values, dtype=float))
    if not np.all(np.isfinite(curves)):
        raise NotFinite(
            f"The curve of the {name} holds NaN or infinite numbers; finite ones were expected. "
            "Leave strategies without a goal out, or audit them by goal='goal_dev'."
        )
    return curves

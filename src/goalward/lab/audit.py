"""Curves audited: the goal that steers beside measures on rows that nothing steers by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.goals.parting import Alarm, parting
from goalward.lab.curves import LOWER_IS_BETTER, Curves, bootstrap

__all__ = ["audit", "audited", "fall"]


def audit(
    curves: Curves,
    *,
    goal: str = "goal_dev",
    measures: Sequence[str] = ("log_loss", "accuracy"),
    window: int | None = None,
    level: float = 0.05,
) -> pl.DataFrame:
    """Return one line per strategy and measure: best, end, what was lost, and the alarm.

    What was lost is NaN for a single seed: see `fall`.

    Parameters
    ----------
    goal
        The column that is watched: "goal_dev" for all strategies, "goal" for a strategy's own.
        Strategies without one, or without a measure, have no line.
    measures
        Columns on held-out rows; "witness" for strategies whose goal keeps dev rows back.
    window, level
        See `goalward.goals.parting`.

    Examples
    --------
    >>> import goalward as gw
    >>> from goalward.lab.datasets import wine
    >>> curves = gw.bench.simulate(
    ...     wine(), ["dev/spread"], batch=4, budget=40, seeds=2, n_jobs=1, progress=False
    ... )
    >>> gw.bench.audit(curves)["alarm_at"].to_list()
    [None, None]
    """
    lines = []
    for name in curves.strategies:
        for measure in measures:
            x, values = curves.curve(name, measure)
            _, steered = curves.curve(name, goal)
            if np.isnan(values).any() or np.isnan(steered).any():
                continue
            alarm = audited(curves, name, goal=goal, measure=measure, window=window, level=level)
            sign = -1.0 if measure in LOWER_IS_BETTER else 1.0
            lost, low, high = bootstrap(fall(sign * values))
            mean = values.mean(axis=0)
            rise = steered.mean(axis=0)
            lines.append(
                {
                    "strategy": name,
                    "measure": measure,
                    "best": float(mean[alarm.best]),
                    "best_at": int(x[alarm.best]),
                    "end": float(mean[-1]),
                    "lost": lost,
                    "low": low,
                    "high": high,
                    "goal_rise_since": float(rise[-1] - rise[alarm.best]),
                    "alarm_at": None if alarm.round is None else int(x[alarm.round]),
                    "t": alarm.t,
                    "threshold": alarm.threshold,
                    "seeds": len(values),
                }
            )
    return pl.DataFrame(lines, infer_schema_length=None)


def audited(
    curves: Curves, strategy: str, *, goal: str = "goal_dev", measure: str, **options: Any
) -> Alarm:
    """Return the alarm of one strategy by one measure."""
    sign = -1.0 if measure in LOWER_IS_BETTER else 1.0
    steered, held_out = (curves.curve(strategy, column)[1] for column in (goal, measure))
    return parting(steered, sign * held_out, **options)


def fall(values: NDArray[Any]) -> NDArray[Any]:
    """Return by how much each seed's curve (higher is better) ends below its best, (seeds,).

    The best round of a seed is that of the other seeds' mean, five rounds of it and of the end:
    its own noise does not choose the place, which would make every curve fall. A single seed has no
    others, and its fall is NaN: not known.
    """
    if len(values) < 2:
        return np.full(len(values), np.nan)
    found = []
    for seed, curve in enumerate(values):
        others = np.delete(values, seed, axis=0)
        smooth = _smoothed(others.mean(axis=0))
        found.append(_smoothed(curve)[smooth.argmax()] - _smoothed(curve)[-1])
    return np.array(found)


def _smoothed(curve: NDArray[Any]) -> NDArray[Any]:
    """Return means of five neighbours; short curves as they are."""
    if len(curve) <= 10:
        return curve
    smooth: NDArray[Any] = np.convolve(curve, np.ones(5) / 5, mode="valid")
    return smooth

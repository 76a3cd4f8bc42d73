"""Panels that several figures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from goalward.plots import colour, figure, quiet

if TYPE_CHECKING:
    from goalward.lab.curves import Curves

__all__ = ["approximation_panel", "curve_figure", "curve_panel"]


def approximation_panel(
    axes: Any,
    exact: NDArray[Any],
    approximate: NDArray[Any],
    *,
    shade: NDArray[Any] | None = None,
    title: str = "",
) -> None:
    """Draw retrained against approximate utilities, with the line where they agree."""
    quiet(axes)
    both = np.concatenate([exact.ravel(), approximate.ravel()])
    low, high = float(both.min()), float(both.max())
    pad = 0.04 * (high - low or 1.0)
    ends = [low - pad, high + pad]
    axes.plot(ends, ends, color="0.6", linewidth=1.0, linestyle="--", label="y = x", zorder=1)
    style = {"c": shade, "cmap": "coolwarm"} if shade is not None else {"color": "#1f6fb4"}
    axes.scatter(approximate, exact, s=9, alpha=0.55, linewidths=0, zorder=2, **style)
    axes.set(xlabel="approximate utility", ylabel="retrained utility", title=title)


def curve_panel(
    axes: Any,
    curves: dict[str, tuple[NDArray[Any], NDArray[Any]]],
    *,
    xlabel: str = "labels bought",
    ylabel: str = "test accuracy",
    title: str = "",
) -> None:
    """Draw means with 95 % bands over seeds: name -> (x, (seeds, x) values)."""
    quiet(axes)
    for name, (x, values) in curves.items():
        mean = values.mean(axis=0)
        axes.plot(x, mean, color=colour(name), linewidth=1.8, label=name)
        if len(values) > 1:
            half = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
            axes.fill_between(x, mean - half, mean + half, color=colour(name), alpha=0.15, lw=0)
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axes.legend(frameon=False)


def curve_figure(curves: Curves, title: str) -> Figure:
    """Draw accuracy and log-loss of every strategy over labels."""
    fig = figure(11, 4.4)
    left, right = fig.subplots(1, 2)
    curve_panel(left, {n: curves.curve(n) for n in curves.strategies}, title=title)
    losses = {n: curves.curve(n, "log_loss") for n in curves.strategies}
    curve_panel(right, losses, ylabel="test log-loss")
    return fig

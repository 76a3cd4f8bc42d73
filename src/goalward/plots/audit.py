"""The goal above, what it should mean below, and where they part."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from goalward.plots.style import figure, quiet

__all__ = ["Watched", "audit_figure"]

PALETTE = ["#222222", "#1f6fb4", "#d1495b", "#e08e2b", "#8e5ea2", "#2a9d4e", "#17889b"]
UNSTEERED = "0.65"


class Watched(NamedTuple):
    """A strategy's curves over seeds, (seeds, rounds), and the queries at its alarm."""

    queries: NDArray[Any]
    goal: NDArray[Any]
    measure: NDArray[Any]
    alarm: float | None = None


def audit_figure(
    panels: dict[str, dict[str, Watched]],
    *,
    goal: str = "dev goal: log-likelihood per dev row",
    measure: str = "test log-loss",
    reference: str = "random",
) -> Figure:
    """Draw a column per panel: goal curves above, the held-out measure below, alarms marked.

    Parameters
    ----------
    panels
        Title -> strategy -> curves. A strategy has one colour in all panels.
    reference
        A strategy that no goal steers, drawn in grey.
    """
    names = list(dict.fromkeys(n for group in panels.values() for n in group if n != reference))
    colours = {n: PALETTE[i % len(PALETTE)] for i, n in enumerate(names)} | {reference: UNSTEERED}
    fig = figure(4.4 * len(panels) + 0.6, 6.6)
    grid = fig.subplots(2, len(panels), squeeze=False, sharex="col", sharey="row")
    for column, (title, group) in enumerate(panels.items()):
        upper, lower = grid[:, column]
        for axes in (upper, lower):
            quiet(axes)
        for name, watched in group.items():
            for axes, values in ((upper, watched.goal), (lower, watched.measure)):
                _line(axes, watched.queries, values, colours[name], name)
            if watched.alarm is not None:
                at = int(np.searchsorted(watched.queries, watched.alarm))
                for axes, values in ((upper, watched.goal), (lower, watched.measure)):
                    place = (watched.alarm, float(values.mean(axis=0)[at]))
                    axes.scatter(*place, s=70, color=colours[name], edgecolors="white", zorder=5)
        upper.set_title(title, fontsize=11)
        lower.set_xlabel("labels bought")
    grid[0][0].set_ylabel(goal)
    grid[1][0].set_ylabel(measure)
    _clip(grid[1], [w.measure for group in panels.values() for w in group.values()])
    found: dict[str, Any] = {}
    for axes in grid[0]:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    found["alarm: the goal rises, the measure gets worse"] = grid[0][0].scatter(
        [], [], s=70, color="0.3", edgecolors="white"
    )
    fig.legend(list(found.values()), list(found), loc="outside lower center", ncol=4, frameon=False)
    return fig


def _line(axes: Any, x: NDArray[Any], values: NDArray[Any], shade: str, name: str) -> None:
    mean = values.mean(axis=0)
    axes.plot(x, mean, color=shade, linewidth=1.7, label=name)
    if len(values) > 1:
        half = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
        axes.fill_between(x, mean - half, mean + half, color=shade, alpha=0.12, lw=0)


def _clip(row: Any, measures: list[NDArray[Any]]) -> None:
    """Show the part of the measure where curves are close: the start would flatten the rest."""
    later = np.concatenate([m.mean(axis=0)[m.shape[1] // 10 :] for m in measures])
    pad = 0.08 * (float(np.ptp(later)) or 1.0)
    row[0].set_ylim(float(later.min()) - pad, float(later.max()) + pad)

"""Mean ranks on a line, with what cannot be told apart joined; differences by dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from goalward.plots import figure, quiet

__all__ = ["critical_difference_figure", "differences_figure"]

OURS = "#1f6fb4"
OTHER = "#333333"


def critical_difference_figure(
    ranks: Mapping[str, float], distance: float, *, ours: Sequence[str] = (), title: str = ""
) -> Figure:
    """Return the critical-difference diagram of mean ranks (Demšar 2006).

    Names hang from an axis of ranks, the best at the left. A bar joins those whose ranks are less
    than `distance` apart: the data do not tell them apart.
    """
    order = sorted(ranks, key=lambda name: ranks[name])
    values = [ranks[name] for name in order]
    half = (len(order) + 1) // 2
    bars = _groups(values, distance)
    first = 0.9 + 0.28 * len(bars)
    depth = first + 0.42 * half
    fig = figure(9, 0.9 + 0.62 * depth)
    axes = fig.subplots()
    low, high = 1.0, float(len(order))
    axes.set_xlim(low - 2.2, high + 2.2)
    axes.set_ylim(-depth - 0.2, 1.3)
    axes.axis("off")
    axes.plot([low, high], [0, 0], color="0.3", linewidth=1.2)
    for tick in range(1, len(order) + 1):
        axes.plot([tick, tick], [0, 0.14], color="0.3", linewidth=1.2)
        axes.text(tick, 0.25, str(tick), ha="center", va="bottom", fontsize=9, color="0.3")
    axes.plot([low, low + distance], [0.95, 0.95], color="0.3", linewidth=2)
    axes.text(
        low + distance + 0.1, 0.95, f"critical difference {distance:.2f}", va="center", fontsize=9
    )
    for level, (i, j) in enumerate(bars):
        y = -0.3 - 0.28 * level
        axes.plot(
            [values[i] - 0.06, values[j] + 0.06], [y, y], color="0.55", linewidth=4,
            solid_capstyle="round",
        )  # fmt: skip
    for i, (name, value) in enumerate(zip(order, values, strict=True)):
        left = i < half
        y = -first - 0.42 * (i if left else len(order) - 1 - i)
        end = low - 0.15 if left else high + 0.15
        shade = OURS if name in ours else OTHER
        axes.plot([value, value, end], [0, y, y], color=shade, linewidth=1.1)
        axes.text(
            end + (-0.08 if left else 0.08), y, f"{name}  {value:.2f}",
            ha="right" if left else "left", va="center", fontsize=10, color=shade,
            fontweight="bold" if name in ours else "normal",
        )  # fmt: skip
    if title:
        axes.set_title(title, fontsize=11, loc="left")
    return fig


def _groups(values: list[float], distance: float) -> list[tuple[int, int]]:
    """Return the longest runs of ranks that lie within the distance."""
    runs: list[tuple[int, int]] = []
    for i in range(len(values)):
        j = max(k for k in range(i, len(values)) if values[k] - values[i] <= distance)
        if j > i and not any(a <= i and j <= b for a, b in runs):
            runs.append((i, j))
    return runs


def differences_figure(
    gaps: Mapping[str, Sequence[tuple[float, float, float]]],
    datasets: Sequence[str],
    *,
    title: str,
) -> Figure:
    """Return one panel per baseline: mean difference and interval for each dataset."""
    fig = figure(2.0 + 1.75 * len(gaps), 1.2 + 0.28 * len(datasets))
    panels = np.atleast_1d(fig.subplots(1, len(gaps), sharey=True, sharex=True))
    place = np.arange(len(datasets))[::-1]
    for axes, (name, found) in zip(panels, gaps.items(), strict=True):
        quiet(axes)
        axes.axvline(0.0, color="0.4", linewidth=1)
        for y, (mean, low, high) in zip(place, found, strict=True):
            shade = OURS if low > 0 else "#d1495b" if high < 0 else "0.55"
            axes.plot([low, high], [y, y], color=shade, linewidth=2)
            axes.plot([mean], [y], "o", color=shade, markersize=4)
        axes.set_title(f"against {name}", fontsize=9)
        axes.tick_params(labelsize=8)
    panels[0].set_yticks(place, list(datasets))
    fig.supxlabel("difference of the area under the accuracy curve (right: better)", fontsize=9)
    fig.suptitle(title, fontsize=11)
    return fig

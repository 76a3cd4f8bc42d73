"""Figures of a labelling page: small, light or dark, without a background of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from goalward.plots.style import figure, quiet

__all__ = ["THEMES", "Theme", "goal_figure", "learning_figure", "svg", "utilities_figure"]

SIZE = (3.0, 1.65)


@dataclass(frozen=True)
class Theme:
    """Colours of a figure: words, lines behind, and the one that carries data."""

    ink: str
    grid: str
    accent: str


THEMES = {
    "light": Theme("#5b6472", "#e4e7ec", "#2f5fd0"),
    "dark": Theme("#a3adbd", "#2c3442", "#8fb0ff"),
}


def learning_figure(curve: Sequence[dict[str, Any]], theme: Theme) -> Figure:
    """Draw accuracy against labels; what was measured differently is a line of its own."""
    fig, axes = _axes(theme)
    for metric, style in (("cross-validated", "--"), ("dev", "-")):
        points = [
            (r["labels"] + r["dev_labels"], r["accuracy"]) for r in curve if r["metric"] == metric
        ]
        if points:
            _line(axes, points, theme, style)
    axes.set(xlabel="labels bought", ylabel="accuracy")
    low = min((r["accuracy"] for r in curve if r["accuracy"] is not None), default=0.0)
    axes.set_ylim(max(0.0, min(low, 0.9) - 0.05), 1.02)
    return fig


def goal_figure(curve: Sequence[dict[str, Any]], theme: Theme) -> Figure:
    """Draw the goal per row against labels; it has another scale once there are dev labels."""
    fig, axes = _axes(theme)
    on_dev = bool(curve) and curve[-1]["metric"] == "dev"
    points = [
        (r["labels"] + r["dev_labels"], r["goal"])
        for r in curve
        if r["goal"] is not None and (r["metric"] == "dev") == on_dev
    ]
    if points:
        _line(axes, points, theme, "-")
    axes.set(xlabel="labels bought", ylabel="goal per row")
    return fig


def utilities_figure(
    quantiles: Sequence[float], asked: Sequence[float], theme: Theme, bins: int = 24
) -> Figure:
    """Draw how the scores of the open rows are spread, and where the next rows lie."""
    fig, axes = _axes(theme)
    if quantiles:
        # Quantiles at equal steps are a small sample of all scores.
        places = np.linspace(0.0, 1.0, len(quantiles))
        sample = np.interp(np.linspace(0.0, 1.0, 4001), places, quantiles)
        counts, edges = np.histogram(sample, bins=bins)
        axes.bar(
            edges[:-1],
            100 * counts / len(sample),
            width=np.diff(edges),
            align="edge",
            color=theme.accent,
            alpha=0.55,
            linewidth=0,
        )
        for value in asked:
            axes.axvline(value, ymax=0.12, color=theme.ink, linewidth=1.1)
    axes.set(xlabel="score of open rows", ylabel="% of rows")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    return fig


def svg(fig: Figure) -> bytes:
    """Return a figure as SVG whose words stay words, in the reader's own type."""
    out = BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "goalward"}):
        fig.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return out.getvalue()


def _axes(theme: Theme) -> tuple[Figure, Any]:
    fig = figure(*SIZE)
    axes = fig.subplots()
    quiet(axes)
    axes.grid(color=theme.grid, linewidth=0.8)
    for spine in axes.spines.values():
        spine.set_color(theme.grid)
    axes.tick_params(colors=theme.ink, labelsize=8, length=0)
    axes.xaxis.label.set(color=theme.ink, fontsize=8)
    axes.yaxis.label.set(color=theme.ink, fontsize=8)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return fig, axes


def _line(axes: Any, points: list[tuple[float, float]], theme: Theme, style: str) -> None:
    x, y = zip(*points, strict=True)
    axes.plot(x, y, style, color=theme.accent, linewidth=1.8, solid_capstyle="round")
    axes.plot(x[-1:], y[-1:], "o", color=theme.accent, markersize=4.5)

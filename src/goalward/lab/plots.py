"""Figures of experiments: one colour per strategy, plain axes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arguments import needing

if TYPE_CHECKING:
    import polars as pl

    from goalward.lab.curves import Curves

with needing("A figure"):
    from matplotlib.figure import Figure


COLOURS = {
    "random": "#7f7f7f",
    "uncertainty": "#222222",
    "margin": "#222222",
    "oracle": "#2a9d4e",
    "average": "#1f6fb4",
    "min": "#d1495b",
    "max": "#e08e2b",
    "predicted": "#8e5ea2",
    "spread": "#17889b",
}
SPARE = ["#b15928", "#6a3d9a", "#5f7c2f", "#c2568f", "#3c5a99", "#8c6d31"]


class NotebookFigure(Figure):
    """A matplotlib figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.savefig(drawn, format="png", dpi=96)  # as wide as its inches in a browser
        return drawn.getvalue()


def colour(name: str) -> str:
    """Return the colour of a strategy: by its operator, or by its name."""
    words = re.findall(r"[^\s/:-]+", name.lower())
    for word in [*words[1:2], *words]:
        if word in COLOURS:
            return COLOURS[word]
    return SPARE[sum(map(ord, name)) % len(SPARE)]


def figure(width: float, height: float) -> NotebookFigure:
    """Return an empty figure that needs no display."""
    return NotebookFigure(figsize=(width, height), layout="constrained", dpi=150)


def progress(study: Any) -> NotebookFigure:
    """Draw how many rows the model of a study gets right, by the answers it had, with its interval."""
    known = [each for each in study.curve() if each["low"] is not None]
    x, right, low, high = ([e[k] for e in known] for k in ("bought", "accuracy", "low", "high"))
    fig = figure(6, 3.2)
    axes = fig.subplots()
    quiet(axes)
    axes.plot(x, right, color=COLOURS["average"], marker="o", ms=4, label="right")
    axes.fill_between(x, low, high, color=COLOURS["average"], alpha=0.15, lw=0)
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel="answers", ylabel="share of rows that are right")
    return fig


def quiet(axes: Any) -> None:
    """Remove the upper and right spines, and draw a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)


def save(fig: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and SVG, and return the paths."""
    path.parent.mkdir(parents=True, exist_ok=True)
    paths = [path.with_suffix(".png"), path.with_suffix(".svg")]
    for file in paths:
        # No date inside: the same numbers give the same file.
        fig.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    return paths


OURS = "#1f6fb4"
MARKED: dict[str, dict[str, Any]] = {  # fixed styles
    "margin": {"color": "#d1495b"},
    "coverage": {"color": "#2e8b57"},
    "random": {"color": "0.35", "marker": "x"},
}


def approximation_panel(
    axes: Any,
    exact: NDArray[Any],
    approximate: NDArray[Any],
    *,
    shade: NDArray[Any] | None = None,
    title: str = "",
) -> Any:
    """Draw retrained against approximate utilities, and return the points for a colour bar."""
    quiet(axes)
    style = {"color": OURS} if shade is None else {"c": shade, "cmap": "coolwarm"}
    points = axes.scatter(approximate, exact, s=14, alpha=0.8, linewidths=0, zorder=2, **style)
    # The points set the limits of the axes, not the line.
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())
    axes.axline((0, 0), slope=1, color="0.55", linewidth=1, linestyle="--", zorder=1)
    axes.set(xlabel="approximate utility", ylabel="retrained utility", title=title)
    return points


def curve_panel(
    axes: Any,
    curves: Mapping[str, tuple[NDArray[Any], NDArray[Any]]],
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


def curve_figure(curves: Curves, title: str) -> NotebookFigure:
    """Draw accuracy and log-loss of every strategy over labels."""
    fig = figure(11, 4.4)
    left, right = fig.subplots(1, 2)
    curve_panel(left, {n: curves.curve(n) for n in curves.strategies}, title=title)
    losses = {n: curves.curve(n, "log_loss") for n in curves.strategies}
    curve_panel(right, losses, ylabel="test log-loss")
    return fig


def distances_figure(
    panels: Mapping[str, pl.DataFrame], *, ours: str, oracles: Sequence[str] = ()
) -> NotebookFigure:
    """Return one panel per group of datasets (title -> means): distances from the mean without oracles."""
    tallest = max(len(means) for means in panels.values())
    fig = figure(1.0 + 5.2 * len(panels), 1.6 + 0.24 * tallest)
    places = np.atleast_1d(fig.subplots(1, len(panels)))
    for axes, (title, means) in zip(places, panels.items(), strict=True):
        quiet(axes)
        axes.grid(visible=False, axis="x")
        peers = [name for name in means.columns[1:] if name not in oracles]
        centre = means.select(peers).to_numpy().mean(axis=1)
        away = {name: means[name].to_numpy() - centre for name in means.columns[1:]}
        # Single disasters and oracles would squeeze the rest: they stand at the edge.
        reach = np.concatenate([away[name] for name in peers])
        low, high = np.quantile(reach, [0.01, 0.99]) * 1.4
        order = np.argsort(away[ours])
        y = np.arange(len(order))
        axes.axvline(0.0, color="0.6", linewidth=0.8, zorder=1)
        for name in [*oracles, *peers]:
            style: dict[str, Any] = {"marker": "o", "s": 16, "color": "0.75", "zorder": 2}
            if name == ours:
                style |= {"s": 42, "color": OURS, "zorder": 4, "label": name}
            elif name in MARKED:
                style |= {"s": 26, "zorder": 3, "label": name} | MARKED[name]
            elif name in oracles:
                style |= {"marker": "|", "s": 60, "color": "0.2", "label": f"{name}, an oracle"}
            at = np.clip(away[name][order], low, high)
            axes.scatter(at, y, linewidths=1.2, clip_on=False, **style)
        axes.set_xlim(low, high)
        axes.set_yticks(y, [means["dataset"][int(i)] for i in order], fontsize=8)
        axes.set_ylim(len(order) - tallest - 0.7, len(order) - 0.3)
        axes.set_title(title, fontsize=10)
    fig.legend(
        *places[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=3 * len(panels),
        frameon=False,
    )
    fig.supxlabel("area under the accuracy curve, less the mean of all (right: better)", fontsize=9)
    return fig

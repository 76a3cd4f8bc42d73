"""Figures of experiments, in the look of all figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from goalward.plots import NotebookFigure, colour, figure, quiet

if TYPE_CHECKING:
    import polars as pl

    from goalward.lab.curves import Curves

__all__ = [
    "approximation_panel",
    "critical_difference_figure",
    "curve_figure",
    "curve_panel",
    "distances_figure",
    "fidelity_figure",
]

OURS = "#1f6fb4"
OTHER = "#333333"
MARKED: dict[str, dict[str, Any]] = {
    "margin": {"color": "#d1495b"},
    "coverage": {"color": "#2e8b57"},
    "random": {"color": "0.35", "marker": "x"},
}
"""Strategies that are known by sight."""


def approximation_panel(
    axes: Any,
    exact: NDArray[Any],
    approximate: NDArray[Any],
    *,
    shade: NDArray[Any] | None = None,
    title: str = "",
) -> Any:
    """Draw retrained against approximate utilities, with the line where they agree.

    Returns the points, for a colour bar of their `shade`.
    """
    quiet(axes)
    style = {"color": OURS} if shade is None else {"c": shade, "cmap": "coolwarm"}
    points = axes.scatter(approximate, exact, s=14, alpha=0.8, linewidths=0, zorder=2, **style)
    # The points say what is shown; the line does not make room for itself.
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


def critical_difference_figure(
    ranks: Mapping[str, float], distance: float, *, ours: Sequence[str] = (), title: str = ""
) -> NotebookFigure:
    """Return the critical-difference diagram of mean ranks (Demšar 2006).

    Names hang from an axis of ranks, the best at the left. A bar joins those whose ranks are less
    than `distance` apart: the data do not tell them apart.
    """
    order = sorted(ranks.items(), key=lambda item: item[1])
    values = [value for _, value in order]
    count, half = len(order), (len(order) + 1) // 2
    bars = _groups(values, distance)
    first = 0.9 + 0.28 * len(bars)
    depth = first + 0.42 * half
    fig = figure(9, 0.9 + 0.62 * depth)
    axes: Any = fig.subplots()
    axes.set(xlim=(-1.2, count + 2.2), ylim=(-depth - 0.2, 1.3))
    axes.set_title(title, fontsize=11, loc="left")
    axes.axis("off")
    axes.plot([1, count], [0, 0], color="0.3", linewidth=1.2)
    for tick in range(1, count + 1):
        axes.plot([tick, tick], [0, 0.14], color="0.3", linewidth=1.2)
        axes.text(tick, 0.25, str(tick), ha="center", va="bottom", fontsize=9, color="0.3")
    axes.plot([1, 1 + distance], [0.95, 0.95], color="0.3", linewidth=2)
    axes.text(1.1 + distance, 0.95, f"critical difference {distance:.2f}", va="center", fontsize=9)
    for level, (i, j) in enumerate(bars):
        ends, y = [values[i] - 0.06, values[j] + 0.06], -0.3 - 0.28 * level
        axes.plot(ends, [y, y], color="0.55", linewidth=4, solid_capstyle="round")
    for i, (name, value) in enumerate(order):
        left = i < half
        y = -first - 0.42 * (i if left else count - 1 - i)
        end, side = (0.85, "right") if left else (count + 0.15, "left")
        shade, weight = (OURS, "bold") if name in ours else (OTHER, "normal")
        axes.plot([value, value, end], [0, y, y], color=shade, linewidth=1.1)
        text = {"ha": side, "va": "center", "fontsize": 10, "color": shade, "fontweight": weight}
        axes.text(end + (-0.08 if left else 0.08), y, f"{name}  {value:.2f}", **text)
    return fig


def _groups(values: list[float], distance: float) -> list[tuple[int, int]]:
    """Return the longest runs of ranks that lie within the distance."""
    runs: list[tuple[int, int]] = []
    for i in range(len(values)):
        j = max(k for k in range(i, len(values)) if values[k] - values[i] <= distance)
        if j > i and not any(a <= i and j <= b for a, b in runs):
            runs.append((i, j))
    return runs


def distances_figure(
    panels: Mapping[str, pl.DataFrame], *, ours: str, oracles: Sequence[str] = ()
) -> NotebookFigure:
    """Return one panel per group of datasets: every strategy's distance from the mean of all.

    Parameters
    ----------
    panels
        Title -> means: a line per dataset, a column per strategy.
    ours
        The strategy that is shown in colour; others are drawn in grey, some marked.
    oracles
        Drawn as a ceiling; they do not count in the mean.
    """
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


def fidelity_figure(table: pl.DataFrame) -> NotebookFigure:
    """Draw the share of cells that are true, by place and utility: a heat map with its numbers."""
    import polars as pl

    place = pl.format("{}, C = {}", "dataset", "C")
    if table["n"].n_unique() > 1:
        place = pl.format("{}, n = {}", place, "n")
    grid = (
        table.with_columns(place.alias("place"))
        .group_by("place", "utility", maintain_order=True)
        .agg((pl.col("rank") >= 0.95).mean().alias("true"))
        .pivot("utility", index="place", values="true")
    )
    names, values = grid.columns[1:], grid.drop("place").to_numpy()
    fig = figure(1.8 + 1.05 * len(names), 0.9 + 0.27 * len(grid))
    axes = fig.subplots()
    axes.imshow(values, cmap="RdYlGn", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set_yticks(range(len(grid)), grid["place"].to_list())
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    for (i, j), value in np.ndenumerate(values):
        ink = "white" if not 0.08 < value < 0.92 else "black"
        axes.text(j, i, f"{value:.0%}", ha="center", va="center", fontsize=7, color=ink)
    axes.set_title("Cells with a rank correlation of .95 or more with retraining", fontsize=9)
    return fig

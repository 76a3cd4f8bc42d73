"""The paper's figures, drawn from data alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import gaussian_kde

from goalward.lab.plots.panels import curve_panel
from goalward.plots import colour, figure, quiet

__all__ = [
    "approximation_figure",
    "density_figure",
    "goal_figure",
    "group_figure",
    "snapshot_figure",
    "synth2_figure",
    "utility_figure",
]

CLASS_COLOURS = np.array(["#c2571a", "#2b6ca3"])
TITLES = {"oracle": "Oracle", "average": "Average", "min": "Minimum", "max": "Maximum"}
GOAL_LABELS = {
    "dev": "dev goal: log-likelihood per dev row",
    "entropy": "entropy goal: per pool row",
    "fisher": "Fisher goal",
}


def approximation_figure(
    exact: dict[str, NDArray[Any]], cheap: dict[str, NDArray[Any]], *, what: str
) -> Figure:
    """Draw retrained against approximate utilities under the four operators.

    Points keep the colour of their retrained oracle utility in every panel; five of them, spread
    over its range, are numbered.
    """
    fig = figure(10.5, 9.2)
    shade = np.argsort(np.argsort(exact["oracle"])) / (len(exact["oracle"]) - 1)
    order = np.argsort(exact["oracle"])
    marked = order[np.linspace(0, len(order) - 1, 5).astype(int)]
    for axes, name in zip(fig.subplots(2, 2).flat, TITLES, strict=True):
        x, y = cheap[name], exact[name]
        quiet(axes)
        low, high = min(x.min(), y.min()), max(x.max(), y.max())
        axes.axline((0, 0), slope=1, color="0.55", linewidth=1, linestyle="--", zorder=1)
        points = axes.scatter(x, y, c=shade, cmap="coolwarm", s=14, linewidths=0, alpha=0.8)
        for number, i in enumerate(marked, start=1):
            axes.scatter(x[i], y[i], s=90, facecolors="none", edgecolors="black", linewidths=1.2)
            axes.annotate(
                str(number), (x[i], y[i]), xytext=(7, 6), textcoords="offset points", fontsize=10
            )
        pad = 0.06 * (high - low)
        pad_y = 0.12 * (y.max() - y.min())
        axes.set(
            xlim=(x.min() - pad, x.max() + pad),
            ylim=(y.min() - pad_y, y.max() + pad_y),
            title=f"{TITLES[name]}: correlation {np.corrcoef(x, y)[0, 1]:.2f}",
            xlabel="first-order utility",
            ylabel="retrained utility",
        )
    bar = fig.colorbar(points, ax=fig.axes, shrink=0.5, aspect=30, pad=0.01)
    bar.set_label("rank of the retrained oracle utility")
    bar.set_ticks([0, 1], labels=["lowest", "highest"])
    fig.suptitle(f"{what}; dashed: where both agree", fontsize=12)
    return fig


def density_figure(panels: dict[str, dict[str, NDArray[Any]]]) -> Figure:
    """Draw histograms with densities of retrained utilities under each operator."""
    fig = figure(11, 7.6)
    for axes, (title, series) in zip(fig.subplots(2, 2).flat, panels.items(), strict=True):
        quiet(axes)
        low = min(np.quantile(v, 0.005) for v in series.values())
        high = max(np.quantile(v, 0.995) for v in series.values())
        bins = np.linspace(low, high, 60)
        grid = np.linspace(low, high, 400)
        peak = 0.0
        for name, values in series.items():
            label = "expected under the prediction" if name == "predicted" else TITLES[name]
            axes.hist(values, bins=bins, density=True, color=colour(name), alpha=0.22)
            if np.ptp(values) > 0:
                height = gaussian_kde(values)(grid)
                axes.plot(grid, height, color=colour(name), linewidth=1.7, label=label)
                if name != "predicted":
                    peak = max(peak, float(height.max()))
        top = max(2.2 * peak, 1e-12)
        axes.set(title=title, xlabel="retrained utility", ylabel="density", ylim=(0, top))
    fig.axes[0].legend(frameon=False, fontsize=9)
    return fig


def synth2_figure(
    X: NDArray[Any], y: NDArray[Any], groups: NDArray[Any], init: NDArray[Any], line: Any
) -> Figure:
    """Draw all of synth2, and its initial rows with the initial boundary.

    Parameters
    ----------
    line
        (a, b, c) with a x + b y + c = 0.
    """
    fig = figure(9.5, 4.8)
    left, right = fig.subplots(1, 2, sharex=True, sharey=True)
    for axes in (left, right):
        quiet(axes)
        axes.set(xlim=(-9, 9), ylim=(-14, 14), xlabel="x₁", aspect="auto")
    markers = {"central": "o", "distracting": "^", "definitive": "s"}
    for group, marker in markers.items():
        for k in (0, 1):
            mine = (groups == group) & (y == k)
            label = f"{group}, class {k}"
            left.scatter(
                *X[mine].T, s=12, marker=marker, c=CLASS_COLOURS[k], alpha=0.7, label=label
            )
    left.set(title="all 600 points", ylabel="x₂")
    right.scatter(*X.T, s=6, c="0.85")
    right.scatter(*X[init].T, s=34, c=CLASS_COLOURS[y[init]], edgecolors="black", linewidths=0.6)
    _boundary(right, line)
    right.set(title="the 10 initial labels and their boundary")
    handles, labels = left.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncol=6, frameon=False, fontsize=8.5)
    return fig


def _boundary(axes: Any, line: Any) -> None:
    a, b, c = line
    x = np.array([-9.0, 9.0])
    if abs(b) > 1e-9 * abs(a):
        axes.plot(x, -(a * x + c) / b, color="black", linewidth=1.4)
    else:
        axes.axvline(-c / a, color="black", linewidth=1.4)


def snapshot_figure(
    X: NDArray[Any],
    y: NDArray[Any],
    snapshots: dict[str, list[dict[str, Any]]],
) -> Figure:
    """Draw strategies (rows of panels) after some queries (columns).

    Parameters
    ----------
    snapshots
        Strategy -> snapshots with asked rows in order, line, accuracy and queries.
    """
    columns = len(next(iter(snapshots.values())))
    fig = figure(2.9 * columns + 1.0, 2.75 * len(snapshots))
    grid = fig.subplots(len(snapshots), columns, sharex=True, sharey=True, squeeze=False)
    most = max(len(s["asked"]) for shots in snapshots.values() for s in shots)
    points = None
    for row, (name, shots) in zip(grid, snapshots.items(), strict=True):
        for axes, shot in zip(row, shots, strict=True):
            axes.scatter(*X.T, s=3, c="0.86", linewidths=0)
            asked = shot["asked"]
            if len(asked):
                points = axes.scatter(
                    *X[asked].T,
                    s=11,
                    c=np.arange(len(asked)),
                    cmap="viridis_r",
                    vmin=0,
                    vmax=most,
                    linewidths=0,
                )
            _boundary(axes, shot["line"])
            axes.set(xlim=(-9, 9), ylim=(-14, 14), xticks=[], yticks=[])
            axes.set_title(
                f"{shot['queries']} queries, accuracy {shot['accuracy']:.3f}", fontsize=9
            )
            axes.spines[:].set_color("0.7")
        row[0].set_ylabel(name, fontsize=11)
    if points is not None:
        bar = fig.colorbar(points, ax=grid, shrink=0.4, aspect=30, pad=0.01)
        bar.set_label("order in which rows were asked")
    return fig


def group_figure(counts: dict[str, dict[str, NDArray[Any]]]) -> Figure:
    """Draw how many queries went to each group of clusters, strategy by strategy."""
    fig = figure(3.0 * len(counts), 3.2)
    shades = {"central": "#4c78a8", "distracting": "#d1495b", "definitive": "#2a9d4e"}
    grid = fig.subplots(1, len(counts), sharey=True, squeeze=False)[0]
    for axes, (name, groups) in zip(grid, counts.items(), strict=True):
        quiet(axes)
        for group, values in groups.items():
            axes.plot(np.arange(len(values)), values, color=shades[group], lw=2, label=group)
        axes.set(title=name, xlabel="queries")
    grid[0].set_ylabel("of them in the group")
    grid[0].legend(frameon=False, fontsize=9)
    return fig


def goal_figure(
    curves: dict[str, dict[str, tuple[NDArray[Any], NDArray[Any]]]],
    goals: dict[str, dict[str, tuple[NDArray[Any], NDArray[Any]]]],
) -> Figure:
    """Draw, for each goal, the learning curve above and the goal curve below."""
    fig = figure(13.5, 7.4)
    upper, lower = fig.subplots(2, len(curves), squeeze=False)
    for column, goal in enumerate(curves):
        curve_panel(upper[column], curves[goal], title=f"{goal} goal")
        curve_panel(lower[column], goals[goal], ylabel=GOAL_LABELS[goal])
        upper[column].get_legend().remove()
        lower[column].get_legend().remove()
    handles, labels = upper[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncol=len(labels), frameon=False)
    return fig


def utility_figure(
    evolution: dict[str, dict[str, tuple[NDArray[Any], NDArray[Any]]]],
) -> Figure:
    """Draw how the scores of the free rows are spread, over the rounds.

    Parameters
    ----------
    evolution
        Goal -> operator -> (queries, (rounds, 5): minimum, quartiles, maximum).
    """
    goals = list(evolution)
    operators = list(next(iter(evolution.values())))
    fig = figure(3.0 * len(operators), 2.5 * len(goals))
    grid = fig.subplots(len(goals), len(operators), sharex=True, squeeze=False)
    for row, goal in zip(grid, goals, strict=True):
        for axes, operator in zip(row, operators, strict=True):
            quiet(axes)
            x, q = evolution[goal][operator]
            shade = colour(operator)
            axes.fill_between(x, q[:, 0], q[:, 4], color=shade, alpha=0.12, lw=0, label="all rows")
            axes.fill_between(
                x, q[:, 1], q[:, 3], color=shade, alpha=0.35, lw=0, label="middle half"
            )
            axes.plot(x, q[:, 2], color=shade, lw=1.5, label="median")
            # Most rows are near zero and a few are far out: a symmetric log scale shows both.
            linear = max(float(np.quantile(np.abs(q[:, 1:4]), 0.5)), 1e-9)
            # A power of ten, so that the first tick outside the linear part has room.
            axes.set_yscale("symlog", linthresh=10.0 ** np.ceil(np.log10(linear)))
            axes.set_title(f"{goal}, {TITLES[operator].lower()}", fontsize=10)
            axes.tick_params(labelsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("labels bought")
    for axes in grid[:, 0]:
        axes.set_ylabel("utility")
    handles, labels = grid[0][0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncol=3, frameon=False)
    return fig

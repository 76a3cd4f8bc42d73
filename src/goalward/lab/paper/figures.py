"""The paper's figures, drawn from the findings."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import gaussian_kde

from goalward.lab.benchmark.pipelines import pipelines_figure
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset
from goalward.lab.paper.approximation import ExPred, Scatter
from goalward.lab.paper.findings import Findings
from goalward.lab.paper.protocol import BASELINES, GOALS, OPERATORS
from goalward.lab.plots import approximation_panel, colour, curve_panel, figure, quiet
from goalward.models import Fitted

CLASS_COLOURS = np.array(["#c2571a", "#2b6ca3"])
LABELS = ("negative", "positive")
GROUPS = {"central": "#4c78a8", "distracting": "#d1495b", "definitive": "#2a9d4e"}
MARKERS = {"central": "o", "distracting": "^", "definitive": "s"}
TITLES = {"oracle": "Oracle", "average": "Average", "min": "Minimum", "max": "Maximum"}
GOAL_LABELS = {
    "dev": "dev goal: log-likelihood per dev row",
    "entropy": "entropy goal: per pool row",
    "fisher": "Fisher goal",
}
STEPS = (10, 30, 100, 170, 230)  # queries after which synth2's models are shown


def figures(findings: Findings) -> dict[str, Figure]:
    """Return every figure of the findings by name."""
    data = findings.datasets
    drawn = {}
    if "approx-serial" in findings.scatters:
        drawn["one-label"] = label_figure(findings.scatters["approx-serial"])
    if findings.pipelines is not None:
        drawn["pipelines"] = pipelines_figure(findings.pipelines)
    drawn["synth2"] = synth2_figure(data["synth2"])
    for name, scatter in findings.scatters.items():
        drawn[name] = approximation_figure(scatter)
    if findings.expred is not None:
        drawn["expred"] = density_figure(findings.expred)
    if findings.synth2 is not None:
        shown = ("uncertainty", "dev/oracle", "dev/average", "dev/min")
        asked = {name: findings.synth2.asked(name) for name in shown}
        drawn["synth2-snapshots"] = snapshot_figure(data["synth2"], asked)
        drawn["synth2-groups"] = group_figure(data["synth2"], asked)
        drawn["synth2-curves"] = synth2_curves(findings.synth2)
    for name, curves in findings.learning.items():
        drawn[f"{name}-goals"] = goal_figure(curves, data[name])
        drawn[f"{name}-utilities"] = utility_figure(curves)
    return drawn


def label_figure(scatter: Scatter) -> Figure:
    """Draw what either label of each row would do to the dev goal, predicted and retrained."""
    found = scatter.results[0, 1, "dev"]
    fig = figure(7.2, 5.0)
    axes = fig.subplots()
    quiet(axes)
    ends = [found.cheap.min(), found.cheap.max()]
    axes.plot(ends, ends, color="0.6", lw=1, ls="--", zorder=1)
    axes.annotate("as predicted", (ends[0], ends[0]), (8, -2), textcoords="offset points", c="0.45")
    for x, y, shade, name in zip(found.cheap.T, found.exact.T, CLASS_COLOURS, LABELS, strict=True):
        axes.scatter(x, y, s=22, color=shade, alpha=0.75, lw=0, label=f"if it is labelled {name}")
    # The row whose label matters most: both of its ends, and what they say.
    row = int(np.abs(found.exact).max(axis=1).argmax())
    x, y = found.cheap[row], found.exact[row]
    axes.plot(x, y, color="black", lw=1, marker="o", mfc="none", ms=8)
    for k, does in zip(np.argsort(y), ("hurt", "help"), strict=True):
        aside: dict[str, Any] = {"xytext": (14, -14)}
        if does == "help":
            aside = {"xytext": (-14, 14), "ha": "right"}
        text = f"this sentence, labelled {LABELS[k]}: would {does}"
        aside |= {"textcoords": "offset points", "bbox": {"fc": "white", "lw": 0, "pad": 1}}
        axes.annotate(text, (x[k], y[k]), va="center", **aside)
    axes.set(
        xlabel="predicted change of the goal: one product of matrices",
        ylabel="change after retraining the model",
    )
    quicker = found.retrain_seconds / found.first_order_seconds
    r = np.corrcoef(found.cheap.ravel(), found.exact.ravel())[0, 1]
    axes.set_title(
        f"{found.exact.size:,} possible labels, predicted {quicker:,.0f} times quicker than retrained; "
        f"correlation {r:.2f}",
        fontsize=11,
    )
    axes.legend(frameon=False, loc="lower right")
    return fig


def approximation_figure(scatter: Scatter) -> Figure:
    """Draw retrained against approximate utilities under the four operators; colours show the oracle's."""
    fig = figure(10.5, 9.2)
    order = np.argsort(scatter.exact["oracle"])
    shade = np.argsort(order) / (len(order) - 1)
    marked = order[np.linspace(0, len(order) - 1, 5).astype(int)]
    for axes, name in zip(fig.subplots(2, 2).flat, TITLES, strict=True):
        x, y = scatter.cheap[name], scatter.exact[name]
        title = f"{TITLES[name]}: correlation {np.corrcoef(x, y)[0, 1]:.2f}"
        points = approximation_panel(axes, y, x, shade=shade, title=title)
        axes.set_xlabel("first-order utility")
        axes.scatter(x[marked], y[marked], s=90, fc="none", ec="black", linewidths=1.2)
        for number, i in enumerate(marked, start=1):
            axes.annotate(str(number), (x[i], y[i]), xytext=(7, 6), textcoords="offset points")
    bar = fig.colorbar(points, ax=fig.axes, shrink=0.5, aspect=30, pad=0.01)
    bar.set_label("rank of the retrained oracle utility")
    bar.set_ticks([0, 1], labels=["lowest", "highest"])
    fig.suptitle(f"{scatter.title}; dashed: where both agree", fontsize=12)
    return fig


def density_figure(expred: ExPred) -> Figure:
    """Draw histograms with densities of retrained utilities under each operator."""
    fig = figure(11, 7.6)
    for axes, (title, series) in zip(fig.subplots(2, 2).flat, expred.panels.items(), strict=True):
        quiet(axes)
        low = min(np.quantile(v, 0.005) for v in series.values())
        high = max(np.quantile(v, 0.995) for v in series.values())
        grid = np.linspace(low, high, 400)
        peak = 1e-12
        for name, values in series.items():
            look = {"bins": np.linspace(low, high, 60), "color": colour(name), "alpha": 0.22}
            axes.hist(values, density=True, **look)
            if np.ptp(values) > 0:
                height = gaussian_kde(values)(grid)
                label = TITLES.get(name, "expected under the prediction")
                axes.plot(grid, height, color=colour(name), linewidth=1.7, label=label)
                if name != "predicted":
                    peak = max(peak, float(height.max()))
        axes.set(title=title, xlabel="retrained utility", ylabel="density", ylim=(0, 2.2 * peak))
    fig.axes[0].legend(frameon=False, fontsize=9, loc="upper left")
    return fig


def synth2_figure(data: Dataset) -> Figure:
    """Draw all of synth2, and its initial rows with the initial boundary."""
    X, y, init = data.X, data.y, data.split(0).init
    fig = figure(9.5, 4.8)
    left, right = fig.subplots(1, 2, sharex=True, sharey=True)
    for axes in (left, right):
        quiet(axes)
        axes.set(xlim=(-9, 9), ylim=(-14, 14), xlabel="x₁")
    for group, marker in MARKERS.items():
        for k, shade in enumerate(CLASS_COLOURS):
            mine = (data.groups == group) & (y == k)
            label = f"{group}, class {k}"
            left.scatter(*X[mine].T, s=12, marker=marker, color=shade, alpha=0.7, label=label)
    left.set(title="all 600 points", ylabel="x₂")
    right.scatter(*X.T, s=6, c="0.85")
    right.scatter(*X[init].T, s=34, c=CLASS_COLOURS[y[init]], edgecolors="black", linewidths=0.6)
    _boundary(right, _after(data, init[:0]))
    right.set(title="the 10 initial labels and their boundary")
    _legend_below(fig, left, fontsize=8.5)
    return fig


def _legend_below(fig: Figure, axes: Any, **look: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    look |= {"loc": "outside lower center", "ncol": len(labels), "frameon": False}
    fig.legend(handles, labels, **look)


def _after(data: Dataset, rows: NDArray[Any]) -> Fitted:
    known = np.concatenate([data.split(0).init, rows])
    fitted: Fitted = data.learner.fit(data.X[known], data.y[known])
    return fitted


def _boundary(axes: Any, fitted: Fitted) -> None:
    """Draw a x + b y + c = 0, from its point nearest to the origin."""
    params = np.asarray(fitted.params)
    a, b, c = params[:, 1] - params[:, 0]
    x, y = -c * a / (a * a + b * b), -c * b / (a * a + b * b)
    axes.axline((x, y), (x - b, y + a), color="black", linewidth=1.4)


def snapshot_figure(data: Dataset, asked: dict[str, NDArray[Any]]) -> Figure:
    """Draw strategies (rows of panels) after some queries (columns)."""
    test = data.split(0).test
    most = min(map(len, asked.values()))
    steps = [step for step in STEPS if step <= most]
    fig = figure(2.9 * len(steps) + 1.0, 2.75 * len(asked))
    grid = fig.subplots(len(asked), len(steps), sharex=True, sharey=True, squeeze=False)
    for line, (name, rows) in zip(grid, asked.items(), strict=True):
        for axes, step in zip(line, steps, strict=True):
            fitted = _after(data, rows[:step])
            accuracy = np.mean(fitted.predict(data.X[test]) == data.y[test])
            axes.scatter(*data.X.T, s=3, c="0.86", linewidths=0)
            order = {"c": np.arange(step), "cmap": "viridis_r", "vmin": 0, "vmax": steps[-1]}
            points = axes.scatter(*data.X[rows[:step]].T, s=11, linewidths=0, **order)
            _boundary(axes, fitted)
            axes.set(xlim=(-9, 9), ylim=(-14, 14), xticks=[], yticks=[])
            axes.set_title(f"{step} queries, accuracy {accuracy:.3f}", fontsize=9)
            axes.spines[:].set_color("0.7")
        line[0].set_ylabel(name, fontsize=11)
    bar = fig.colorbar(points, ax=grid, shrink=0.4, aspect=30, pad=0.01)
    bar.set_label("order in which rows were asked")
    return fig


def group_figure(data: Dataset, asked: dict[str, NDArray[Any]]) -> Figure:
    """Draw how many queries went to each group of clusters, strategy by strategy."""
    assert data.groups is not None
    fig = figure(3.0 * len(asked), 3.2)
    panels = fig.subplots(1, len(asked), sharey=True)
    for axes, (name, rows) in zip(panels, asked.items(), strict=True):
        quiet(axes)
        for group, shade in GROUPS.items():
            counts = np.r_[0, np.cumsum(data.groups[rows] == group)]
            axes.plot(counts, color=shade, lw=2, label=group)
        axes.set(title=name, xlabel="queries")
    panels[0].set_ylabel("of them in the group")
    panels[0].legend(frameon=False, fontsize=9, loc="upper left")
    return fig


def synth2_curves(curves: Curves) -> Figure:
    """Draw the learning curves of synth2, and the accuracy that the paper speaks of."""
    fig = figure(7.5, 4.4)
    axes = fig.subplots()
    curve_panel(axes, {name: curves.curve(name) for name in curves.strategies}, title="synth2")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(0.08, 0.4))
    axes.axhline(0.966, color="0.5", linewidth=0.8, linestyle=":")
    axes.annotate("0.966", (2, 0.9685), fontsize=8, color="0.35")
    return fig


def goal_figure(curves: Curves, data: Dataset) -> Figure:
    """Draw, for each goal, the learning curve above and the goal curve below."""
    split = data.split(0)
    per_row = {"dev": len(split.dev), "entropy": len(split.pool), "fisher": 1}
    fig = figure(13.5, 7.4)
    columns = fig.subplots(2, len(GOALS)).T
    for (upper, lower), goal in zip(columns, GOALS, strict=True):
        names = {name: name for name in BASELINES} | {op: f"{goal}/{op}" for op in OPERATORS}
        accuracy = {label: curves.curve(name) for label, name in names.items()}
        values = {label: curves.curve(name, f"goal_{goal}") for label, name in names.items()}
        values = {label: (x, value / per_row[goal]) for label, (x, value) in values.items()}
        curve_panel(upper, accuracy, title=f"{goal} goal")
        curve_panel(lower, values, ylabel=GOAL_LABELS[goal])
        upper.get_legend().remove()
        lower.get_legend().remove()
    _legend_below(fig, upper)
    return fig


def utility_figure(curves: Curves) -> Figure:
    """Draw how the scores of the free rows are spread, over the rounds of the first seed."""
    fig = figure(3.0 * len(OPERATORS), 2.5 * len(GOALS))
    grid = fig.subplots(len(GOALS), len(OPERATORS), sharex=True)
    for line, goal in zip(grid, GOALS, strict=True):
        for axes, operator in zip(line, OPERATORS, strict=True):
            quiet(axes)
            shade = colour(operator)
            x, (low, quarter, middle, three_quarters, high) = _spread(curves, f"{goal}/{operator}")
            fill = {"color": shade, "lw": 0}
            axes.fill_between(x, low, high, alpha=0.12, label="all rows", **fill)
            axes.fill_between(x, quarter, three_quarters, alpha=0.35, label="middle half", **fill)
            axes.plot(x, middle, color=shade, lw=1.5, label="median")
            # Most rows are near zero and a few are far out: a symmetric log scale shows both.
            linear = max(float(np.median(np.abs([quarter, middle, three_quarters]))), 1e-9)
            # A power of ten, so that the first tick outside the linear part has room.
            axes.set_yscale("symlog", linthresh=10.0 ** np.ceil(np.log10(linear)))
            axes.set_title(f"{goal}, {TITLES[operator].lower()}", fontsize=10)
            axes.tick_params(labelsize=8)
        line[0].set_ylabel("utility")
    for axes in grid[-1]:
        axes.set_xlabel("labels bought")
    _legend_below(fig, grid[0, 0])
    return fig


def _spread(curves: Curves, strategy: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return queries (rounds,) and minimum, quartiles and maximum of the scores (5, rounds)."""
    rounds = curves.table.filter(strategy=strategy, seed=0).sort("round")[:-1]  # the last asks none
    return rounds["queries"].to_numpy(), np.array(rounds["utility"].to_list()).T

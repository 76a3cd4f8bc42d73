"""Draw the figures of docs/method.md: `python scripts/method_figures.py [FOLDER]`."""

import sys
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import goalward as gw
from goalward.lab.plots import approximation_panel, colour, figure, quiet
from goalward.testing import problem

ORANGE, BLUE = "#c2571a", "#2b6ca3"
GRID = np.linspace(-4.0, 4.0, 321)[:, None]
X = np.array([[-3.0], [-2.2], [-1.6], [-0.9], [0.2], [0.9], [1.7], [2.6]])
y = np.array([0, 0, 0, 0, 1, 0, 1, 1])
DEV_ROWS = np.array([[-1.0], [0.0], [0.4], [0.7], [1.0], [1.3], [1.8], [2.4]])
DEV_LABELS = (DEV_ROWS[:, 0] > 0.9).astype(int)
COPIES = 15
"""Near-copies in a clump of the pool that batches are picked from."""


def line():
    """Return a model of eight labels on a line, and the goal of eight dev rows."""
    return gw.Logistic(C=1.0).fit(X, y), gw.goals.DevLoss(DEV_ROWS, DEV_LABELS)


def influence():
    """What a label would do to the goal: predicted, and really retrained."""
    fitted, goal = line()
    fig = figure(8.6, 5.6)
    top, bottom = fig.subplots(2, 1, sharex=True, height_ratios=[1.0, 1.5])
    for axes in (top, bottom):
        quiet(axes)
    top.plot(GRID, fitted.predict_proba(GRID)[:, 1], color="black", lw=1.6)
    for k, shade in ((0, ORANGE), (1, BLUE)):
        mine = X[y == k, 0]
        top.scatter(mine, np.full(len(mine), float(k)), s=70, color=shade, zorder=3)
        mine = DEV_ROWS[k == DEV_LABELS, 0]
        top.scatter(
            mine, np.full(len(mine), float(k)), s=120, marker="|", color=shade, lw=2, zorder=2
        )
    top.scatter([], [], s=70, color="0.4", label="labelled row")
    top.scatter([], [], s=120, marker="|", color="0.4", lw=2, label="dev row, the goal")
    top.legend(frameon=False, loc="center left", fontsize=9)
    top.set(ylabel="P(blue)", yticks=[0, 0.5, 1], title="A model of eight labels")
    first = gw.utility.FirstOrder()(fitted, goal, GRID)
    near = gw.utility.ImplicitStep()(fitted, goal, GRID)
    exact = gw.utility.Retrain()(fitted, goal, GRID)
    for k, shade, name in ((0, ORANGE, "orange"), (1, BLUE, "blue")):
        bottom.plot(GRID, exact[:, k], color=shade, lw=2.4, label=f"label {name}: retrained")
        bottom.plot(GRID, near[:, k], color=shade, lw=1.3, ls=":", label="implicit step")
        bottom.plot(GRID, first[:, k], color=shade, lw=1.3, ls="--", label="first order")
    bottom.axhline(0.0, color="0.5", lw=0.8)
    bottom.set(
        xlabel="where the next row lies",
        ylabel="change of the goal, Δτ",
        ylim=(1.6 * exact.min(), 2.0 * exact.max()),
        title="What its label would do to the goal",
    )
    bottom.legend(frameon=False, fontsize=8.5, ncol=2, loc="lower center")
    return fig


def operators():
    """One table of utilities, four opinions about the unknown label."""
    fitted, goal = line()
    utility = gw.utility.ImplicitStep()(fitted, goal, GRID)
    proba = fitted.predict_proba(GRID)[:, 1]
    chosen = {
        "average": (gw.labels.Expected(), "Expected(): every label equally likely"),
        "min": (gw.labels.WorstCase(), "WorstCase(): the label that helps least"),
        "max": (gw.labels.BestCase(), "BestCase(): the label that helps most"),
        "spread": (gw.labels.Spread(), "Spread(): how much the label matters"),
    }
    fig = figure(9.6, 5.6)
    for axes, (name, (operator, title)) in zip(
        fig.subplots(2, 2, sharex=True, sharey=True).flat, chosen.items(), strict=True
    ):
        quiet(axes)
        score = operator(utility, fitted, GRID)
        best = int(np.argmax(score))
        axes.fill_between(GRID[:, 0], utility.min(1), utility.max(1), color="0.9", lw=0)
        axes.axhline(0.0, color="0.5", lw=0.8)
        axes.plot(GRID, score, color=colour(name), lw=2.2)
        axes.scatter(GRID[best], score[best], s=60, color=colour(name), zorder=3)
        axes.annotate(
            f"asks at {GRID[best, 0]:.1f}, where P(blue) = {proba[best]:.2f}",
            (0.03, 0.05),
            xycoords="axes fraction",
            fontsize=9,
        )
        axes.set_title(title, fontsize=10.5)
    for axes in fig.axes[2:]:
        axes.set_xlabel("where the next row lies")
    for axes in fig.axes[::2]:
        axes.set_ylabel("score")
    return fig


def clumps():
    """Return a pool with clumps of near-copies, few labels, and a dev set."""
    rng = np.random.default_rng(3)
    centres = rng.uniform(-3.0, 3.0, size=(18, 2))
    pool = (centres[:, None, :] + rng.normal(scale=0.12, size=(18, COPIES, 2))).reshape(-1, 2)
    labelled = rng.uniform(-3.0, 3.0, size=(10, 2))
    dev = rng.uniform(-3.0, 3.0, size=(60, 2))
    truth = lambda rows: (rows[:, 0] + 0.6 * rows[:, 1] > 0.3).astype(int)
    return pool, labelled, truth(labelled), dev, truth(dev)


def batches():
    """The ten best rows, ten picked one after another, and ten kept apart."""
    pool, labelled, y_l, dev, y_dev = clumps()
    fitted = gw.Logistic(C=1.0).fit(labelled, y_l)
    goal = gw.goals.DevLoss(dev, y_dev)
    chosen = {
        "Top()": gw.selection.Top(),
        "Sequential()": gw.selection.Sequential(update="curvature"),
        "Sequential(radius=0.1)": gw.selection.Sequential(update="curvature", radius=0.1),
    }
    fig = figure(12.0, 4.4)
    for axes, (title, selection) in zip(
        fig.subplots(1, 3, sharey=True), chosen.items(), strict=True
    ):
        strategy = gw.GoalOriented(goal, operator=gw.labels.Spread(), selection=selection)
        rows = strategy.suggest(fitted, pool, batch=10).rows
        axes.scatter(*pool.T, s=10, color="0.8", linewidths=0, label="unlabelled")
        for k, shade in ((0, ORANGE), (1, BLUE)):
            axes.scatter(*labelled[y_l == k].T, s=34, color=shade, label=f"label {k}")
        axes.scatter(*pool[rows].T, s=75, facecolors="none", edgecolors="black", label="asked")
        shown = np.linspace(-3.6, 3.6, 200)
        grid = np.stack(np.meshgrid(shown, shown), axis=-1)
        proba = fitted.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(200, 200)
        axes.contour(shown, shown, proba, levels=[0.5], colors="black", linewidths=1.2)
        most = int(np.bincount(rows // COPIES).max())
        axes.set(xticks=[], yticks=[], title=title, aspect="equal")
        axes.set_xlabel(f"{most} of 10 questions in one clump")
        axes.spines[:].set_color("0.7")
    fig.axes[0].legend(frameon=True, fontsize=8.5, loc="lower left", framealpha=0.9)
    return fig


def trust():
    """First order against retraining: few labels, more labels, many labels."""
    fig = figure(10.8, 3.9)
    for axes, n in zip(fig.subplots(1, 3), (15, 60, 240), strict=True):
        task = problem(seed=1, n_classes=3, n_labelled=n, n_features=6, n_pool=150)
        exact = gw.utility.Retrain()(task.fitted, task.goal, task.X_pool)
        first = gw.utility.FirstOrder()(task.fitted, task.goal, task.X_pool)
        rank = spearmanr(exact.ravel(), first.ravel()).statistic
        slope = np.polyfit(first.ravel(), exact.ravel(), 1)[0]
        approximation_panel(
            axes,
            exact.ravel(),
            first.ravel(),
            title=f"{n} labels: rank {rank:.2f}, slope {slope:.2f}",
        )
        axes.set_xlabel("first-order utility")
    return fig


FIGURES = {
    "influence": influence,
    "operators": operators,
    "batches": batches,
    "trust": trust,
}

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/method")
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        draw().savefig(folder / f"{name}.png", metadata={"Software": None})

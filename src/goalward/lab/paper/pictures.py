"""The paper's figures and tables, from what was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray

from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, synth2
from goalward.lab.paper.findings import Findings, asked_rows, merge
from goalward.lab.paper.studies import BASELINES, GOALS, OPERATORS
from goalward.lab.plots import curve_panel, paper
from goalward.plots import figure

__all__ = ["Picture", "pictures", "tables"]

CAPTIONS = {
    "synth2": "synth2, draw 0. Left: six clusters, of which the two central ones hold all initial "
    "labels. Right: the initial labels give an almost horizontal boundary.",
    "approx-serial": "Utility of one more label: retrained (vertical) against first order "
    "(horizontal). Points keep their colour, the rank of their retrained oracle utility, in all "
    "panels; the same five rows are numbered.",
    "approx-batch": "The same for sliding windows of 10 rows. Average, minimum and maximum run "
    "over all labelings of a window.",
    "expred": "Retrained utilities of windows of b rows: expected under the model's own prediction, "
    "and under the other operators. To first order the purple distribution is a single point.",
    "synth2-snapshots": "Which rows each strategy asks for on synth2 (darker: later), and the "
    "boundary it has learned by then.",
    "synth2-groups": "Queries spent on each group of clusters. Uncertainty exhausts the central "
    "clusters first.",
    "synth2-curves": "synth2: mean test accuracy over draws, with 95 % bands.",
    "goals": "Above: test accuracy. Below: the goal itself. One column for each goal, four ways to "
    "resolve the label; means over seeds with 95 % bands.",
    "utilities": "How the utilities of the rows still in the pool are spread as labels come in "
    "(seed 0, symmetric log scale).",
}


class Picture(NamedTuple):
    """A figure, what it shows, and the table that goes with it."""

    figure: Figure
    caption: str
    table: pl.DataFrame | None = None


def pictures(findings: Findings) -> dict[str, Picture]:
    """Return every figure of the findings by name."""
    drawn = {"synth2": Picture(_start(findings.datasets["synth2"]), CAPTIONS["synth2"])}
    for name, scatter in findings.serial.items():
        what = f"One more label on {name}: {scatter.source}"
        key = "approx-serial" if name in ("rt-polarity", "digits-3v8") else "approx-serial-minilm"
        fig = paper.approximation_figure(scatter.exact, scatter.cheap, what=what)
        drawn[key] = Picture(fig, CAPTIONS["approx-serial"], scatter.table)
    for scatter in findings.batch.values():
        what = f"Windows of 10 rows, all labelings: {scatter.source}"
        fig = paper.approximation_figure(scatter.exact, scatter.cheap, what=what)
        drawn["approx-batch"] = Picture(fig, CAPTIONS["approx-batch"], scatter.table)
    if findings.expred is not None:
        fig = paper.density_figure(findings.expred.panels)
        drawn["expred"] = Picture(fig, CAPTIONS["expred"], findings.expred.overlap)
    if findings.synth2:
        drawn |= {name: Picture(fig, CAPTIONS[name]) for name, fig in _synth2(findings.synth2)}
    for name, curves in findings.learning.items():
        levels = (0.5, 0.6, 0.65) if name == "letter" else (0.7, 0.75, 0.8)
        fig = _goals(curves, findings.datasets[name])
        caption = f"{name}. {CAPTIONS['goals']}"
        drawn[f"{name}-goals"] = Picture(fig, caption, curves.summary(levels))
        evolution = {g: {op: _quantiles(curves, f"{g}/{op}") for op in OPERATORS} for g in GOALS}
        fig = paper.utility_figure(evolution)
        drawn[f"{name}-utilities"] = Picture(fig, f"{name}. {CAPTIONS['utilities']}")
    return drawn


def tables(findings: Findings) -> dict[str, pl.DataFrame]:
    """Return the tables that stand without a figure, by name."""
    found = {}
    for name, curves in findings.learning.items():
        found[f"{name}-differences"] = curves.differences("random")
        found[f"{name}-ranks"] = curves.ranks()
    if findings.penalties is not None:
        found["penalties"] = findings.penalties
    return found | {"datasets": pl.DataFrame([_described(d) for d in findings.datasets.values()])}


def _described(dataset: Dataset) -> dict[str, Any]:
    split = dataset.split(0)
    return {
        "dataset": dataset.name,
        "classes": len(dataset.classes),
        "features": dataset.X.shape[1],
        "pool": len(split.pool),
        "initial": len(split.init),
        "test": len(split.test),
        "dev": len(split.dev),
        "C (scikit-learn's)": float(dataset.learner.C) * (2 if len(dataset.classes) == 2 else 1),
        "rows from": dataset.source,
    }


def _start(data: Dataset) -> Figure:
    assert data.groups is not None
    first = _snapshot(data, np.empty(0, dtype=np.int64))
    return paper.synth2_figure(data.X, data.y, data.groups, data.split(0).init, first["line"])


def _snapshot(dataset: Dataset, rows: NDArray[Any]) -> dict[str, Any]:
    """Return the model after some queries: asked rows, boundary, test accuracy."""
    split = dataset.split(0)
    known = np.concatenate([split.init, rows])
    fitted = dataset.learner.fit(dataset.X[known], dataset.y[known])
    accuracy = float(np.mean(fitted.predict(dataset.X[split.test]) == dataset.y[split.test]))
    params = np.asarray(fitted.params)
    line = tuple(float(v) for v in params[:, 1] - params[:, 0])
    return {"asked": rows, "line": line, "accuracy": accuracy, "queries": len(rows)}


def _synth2(runs: dict[int, Curves]) -> Iterator[tuple[str, Figure]]:
    """Yield the snapshots, the group counts and the learning curves of synth2."""
    dataset, curves = synth2(0), runs[0]
    assert dataset.groups is not None
    shown = ["uncertainty", "dev/oracle", "dev/average", "dev/min"]
    asked = {name: asked_rows(curves, name) for name in shown}
    steps = [10, 30, 100, 170, 230]
    snapshots = {
        name: [_snapshot(dataset, rows[:step]) for step in steps if step <= len(rows)]
        for name, rows in asked.items()
    }
    yield "synth2-snapshots", paper.snapshot_figure(dataset.X, dataset.y, snapshots)
    counts: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in asked}
    for name, rows in asked.items():
        for group in ("central", "distracting", "definitive"):
            inside = dataset.groups[rows] == group
            counts[name][group] = np.concatenate([[0], np.cumsum(inside)])
    yield "synth2-groups", paper.group_figure(counts)
    merged = merge(runs)
    fig = figure(7.5, 4.4)
    axes = fig.subplots()
    curve_panel(axes, {name: merged.curve(name) for name in merged.strategies}, title="synth2")
    axes.axhline(0.966, color="0.5", linewidth=0.8, linestyle=":")
    axes.annotate("0.966", (2, 0.9685), fontsize=8, color="0.35")
    yield "synth2-curves", fig


def _goals(curves: Curves, dataset: Dataset) -> Figure:
    """Draw learning curves over goal curves."""
    split = dataset.split(0)
    per_row = {"dev": len(split.dev), "entropy": len(split.pool), "fisher": 1}
    accuracy: dict[str, Any] = {}
    goals: dict[str, Any] = {}
    for goal in GOALS:
        names = {name: name for name in BASELINES} | {op: f"{goal}/{op}" for op in OPERATORS}
        accuracy[goal] = {label: curves.curve(full) for label, full in names.items()}
        found = {label: curves.curve(full, f"goal_{goal}") for label, full in names.items()}
        goals[goal] = {label: (x, values / per_row[goal]) for label, (x, values) in found.items()}
    return paper.goal_figure(accuracy, goals)


def _quantiles(curves: Curves, strategy: str) -> tuple[NDArray[Any], NDArray[Any]]:
    mine = curves.table.filter((pl.col("strategy") == strategy) & (pl.col("seed") == 0))
    mine = mine.sort("round").filter(pl.col("rows").list.len() > 0)
    return mine["queries"].to_numpy(), np.array(mine["utility"].to_list(), dtype=float)

"""Everything a reproduction measured, and the pictures of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray

from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, synth2
from goalward.lab.paper.studies import GOALS, OPERATORS, ExPred, Scatter
from goalward.lab.plots import curve_panel, paper
from goalward.plots import figure

__all__ = ["Results", "goal_pictures", "snapshot", "synth2_pictures"]


@dataclass
class Results:
    """What has been run so far; parts that were not asked for stay empty."""

    serial: dict[str, Scatter] = field(default_factory=dict)
    batch: dict[str, Scatter] = field(default_factory=dict)
    expred: ExPred | None = None
    synth2: dict[int, Curves] = field(default_factory=dict)
    learning: dict[str, Curves] = field(default_factory=dict)
    penalties: pl.DataFrame | None = None
    datasets: dict[str, Dataset] = field(default_factory=dict)


def asked_rows(curves: Curves, strategy: str, seed: int = 0) -> NDArray[Any]:
    """Return the rows a strategy asked for, in order."""
    mine = curves.table.filter((pl.col("strategy") == strategy) & (pl.col("seed") == seed))
    return np.array([row for rows in mine.sort("round")["rows"] for row in rows], dtype=np.int64)


def snapshot(dataset: Dataset, rows: NDArray[Any]) -> dict[str, Any]:
    """Return the model after some queries: asked rows, boundary, test accuracy."""
    split = dataset.split(0)
    known = np.concatenate([split.init, rows])
    fitted = dataset.learner.fit(dataset.X[known], dataset.y[known])
    accuracy = float(np.mean(fitted.predict(dataset.X[split.test]) == dataset.y[split.test]))
    params = np.asarray(fitted.params)
    line = tuple(float(v) for v in params[:, 1] - params[:, 0])
    return {"asked": rows, "line": line, "accuracy": accuracy, "queries": len(rows)}


def group_counts(dataset: Dataset, rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return how many of the first 0, 1, 2, ... queries fell into each group."""
    assert dataset.groups is not None
    found = dataset.groups[rows]
    return {
        group: np.concatenate([[0], np.cumsum(found == group)])
        for group in ("central", "distracting", "definitive")
    }


def synth2_pictures(runs: dict[int, Curves]) -> dict[str, Figure]:
    """Return the snapshots, the group counts and the learning curves of synth2."""
    dataset, curves = synth2(0), runs[0]
    shown = ["uncertainty", "dev/oracle", "dev/average", "dev/min"]
    asked = {name: asked_rows(curves, name) for name in shown}
    steps = [10, 30, 100, 170, 230]
    snapshots = {
        name: [snapshot(dataset, rows[:step]) for step in steps if step <= len(rows)]
        for name, rows in asked.items()
    }
    merged = merge(runs)
    fig = figure(7.5, 4.4)
    axes = fig.subplots()
    curve_panel(axes, {name: merged.curve(name) for name in merged.strategies}, title="synth2")
    axes.axhline(0.966, color="0.5", linewidth=0.8, linestyle=":")
    axes.annotate("0.966", (2, 0.9685), fontsize=8, color="0.35")
    return {
        "synth2-snapshots": paper.snapshot_figure(dataset.X, dataset.y, snapshots),
        "synth2-groups": paper.group_figure(
            {name: group_counts(dataset, rows) for name, rows in asked.items()}
        ),
        "synth2-curves": fig,
    }


def merge(runs: dict[int, Curves]) -> Curves:
    """Return runs of several draws as one table, the draw as the seed."""
    parts = [
        run.table.with_columns(pl.lit(draw, dtype=pl.Int64).alias("seed"))
        for draw, run in runs.items()
    ]
    return Curves(pl.concat(parts))


def goal_pictures(name: str, curves: Curves, dataset: Dataset) -> dict[str, Figure]:
    """Return learning curves over goal curves, and the spread of utilities over the rounds."""
    split = dataset.split(0)
    per_row = {"dev": len(split.dev), "entropy": len(split.pool), "fisher": 1}
    accuracy: dict[str, Any] = {}
    goals: dict[str, Any] = {}
    evolution: dict[str, Any] = {}
    for goal in GOALS:
        names = {"random": "random", "uncertainty": "uncertainty"}
        names |= {operator: f"{goal}/{operator}" for operator in OPERATORS}
        accuracy[goal] = {label: curves.curve(full) for label, full in names.items()}
        goals[goal] = {}
        for label, full in names.items():
            x, values = curves.curve(full, f"goal_{goal}")
            goals[goal][label] = (x, values / per_row[goal])
        evolution[goal] = {op: _quantiles(curves, f"{goal}/{op}") for op in OPERATORS}
    return {
        f"{name}-goals": paper.goal_figure(accuracy, goals),
        f"{name}-utilities": paper.utility_figure(evolution),
    }


def _quantiles(curves: Curves, strategy: str) -> tuple[NDArray[Any], NDArray[Any]]:
    mine = curves.table.filter((pl.col("strategy") == strategy) & (pl.col("seed") == 0))
    mine = mine.sort("round").filter(pl.col("rows").list.len() > 0)
    return mine["queries"].to_numpy(), np.array(mine["utility"].to_list(), dtype=float)

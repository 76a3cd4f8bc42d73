"""The paper's figures with their captions, and its tables, by name."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl
from matplotlib.figure import Figure

from goalward.lab.paper import figures
from goalward.lab.paper.findings import Findings

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
    """A figure, and what it shows."""

    figure: Figure
    caption: str


def pictures(findings: Findings) -> dict[str, Picture]:
    """Return every figure of the findings by name."""
    synth2 = findings.datasets["synth2"]
    drawn = {"synth2": Picture(figures.synth2_figure(synth2), CAPTIONS["synth2"])}
    for name, scatter in findings.serial.items():
        what = f"One more label on {name}: {scatter.source}"
        fig = figures.approximation_figure(scatter, what)
        drawn[_serial(name)] = Picture(fig, CAPTIONS["approx-serial"])
    if findings.batch is not None:
        what = f"Windows of 10 rows, all labelings: {findings.batch.source}"
        fig = figures.approximation_figure(findings.batch, what)
        drawn["approx-batch"] = Picture(fig, CAPTIONS["approx-batch"])
    if findings.expred is not None:
        drawn["expred"] = Picture(figures.density_figure(findings.expred), CAPTIONS["expred"])
    if findings.synth2 is not None:
        shown = ("uncertainty", "dev/oracle", "dev/average", "dev/min")
        asked = {name: findings.synth2.asked(name) for name in shown}
        for name, fig in {
            "synth2-snapshots": figures.snapshot_figure(synth2, asked),
            "synth2-groups": figures.group_figure(synth2, asked),
            "synth2-curves": figures.synth2_curves(findings.synth2),
        }.items():
            drawn[name] = Picture(fig, CAPTIONS[name])
    for name, curves in findings.learning.items():
        fig = figures.goal_figure(curves, findings.datasets[name])
        drawn[f"{name}-goals"] = Picture(fig, f"{name}. {CAPTIONS['goals']}")
        fig = figures.utility_figure(curves)
        drawn[f"{name}-utilities"] = Picture(fig, f"{name}. {CAPTIONS['utilities']}")
    return drawn


def tables(findings: Findings) -> dict[str, pl.DataFrame]:
    """Return every table by name: that of the figure it goes with, where there is one."""
    found = {_serial(name): scatter.table for name, scatter in findings.serial.items()}
    if findings.batch is not None:
        found["approx-batch"] = findings.batch.table
    if findings.expred is not None:
        found["expred"] = findings.expred.overlap
    for name, curves in findings.learning.items():
        levels = (0.5, 0.6, 0.65) if name == "letter" else (0.7, 0.75, 0.8)
        found[f"{name}-goals"] = curves.summary(levels)
        found[f"{name}-differences"] = curves.differences("random")
        found[f"{name}-ranks"] = curves.ranks()
    if findings.penalties is not None:
        found["penalties"] = findings.penalties
    lines = []
    for dataset in findings.datasets.values():
        split, n_classes = dataset.split(0), len(dataset.classes)
        lines.append(
            {
                "dataset": dataset.name,
                "classes": n_classes,
                "features": dataset.X.shape[1],
                "pool": len(split.pool),
                "initial": len(split.init),
                "test": len(split.test),
                "dev": len(split.dev),
                "C (scikit-learn's)": float(dataset.learner.C) * (2 if n_classes == 2 else 1),
                "rows from": dataset.source,
            }
        )
    return found | {"datasets": pl.DataFrame(lines)}


def _serial(name: str) -> str:
    return "approx-serial-minilm" if "MiniLM" in name else "approx-serial"

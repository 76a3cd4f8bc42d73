"""What a semi-supervised model would gain: `python benchmarks/semi_supervised.py` prints a table.

On the benchmark's sets of the design, two seeds each, labels bought at random and by `hedged`. At 20,
50, 100 and 200 labels the model is fitted again with the rest of the pool, each row under its own
prediction, sharpened (p², scaled), with a weight that all of them share. It is kept where the labelled
rows, each left out, are more likely under it, by more than a standard error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import typer
from threadpoolctl import threadpool_limits
from typer import Argument, Option

import goalward as gw
from goalward.lab.benchmark import PROTOCOLS
from goalward.lab.datasets import Dataset, load
from goalward.lab.datasets.load import DESIGN
from goalward.lab.session import Session
from goalward.lab.statistics import bootstrap
from goalward.models.fitted import left_out
from pages import tracked

SIZES = (20, 50, 100, 200)
WEIGHTS = (0.1, 0.5, 1.0)
"""Of the rest of the pool together, as a share of the labels' weight."""


def left_out_likelihood(fitted: gw.Fitted, codes: np.ndarray) -> np.ndarray:
    """Return log p of the first labelled rows, each left out."""
    proba = np.asarray(fitted.loss.proba(left_out(fitted)[: len(codes)]))
    return np.log(proba[np.arange(len(codes)), codes])


def gains(task: Dataset, C: float, split: Any, rows: np.ndarray) -> list[tuple[float, bool]]:
    """Return, of each weight, what it adds to the accuracy, and whether it is kept."""
    X, y = task.X, np.asarray(task.y)
    base = gw.Logistic(C=C).fit(X[rows], y[rows])
    rest, codes = np.setdiff1d(split.pool, rows), np.searchsorted(base.classes, y[rows])
    sharp = np.asarray(base.predict_proba(X[rest])) ** 2
    sharp /= sharp.sum(axis=1, keepdims=True)
    targets = np.concatenate([np.eye(len(base.classes))[codes], sharp])
    both, learner = np.concatenate([rows, rest]), gw.Logistic(C=C, classes=list(base.classes))
    before = left_out_likelihood(base, codes)
    results = []
    for share in WEIGHTS:
        weights = np.ones(len(both))
        weights[len(rows) :] = share * len(rows) / len(rest)
        semi = learner.fit(X[both], targets, sample_weight=weights)
        more = left_out_likelihood(semi, codes) - before
        right = [np.mean(m.predict(X[split.test]) == y[split.test]) for m in (base, semi)]
        kept = bool(more.mean() > more.std() / np.sqrt(len(rows)))
        results.append((right[1] - right[0], kept))
    return results


def lines(name: str, seeds: int) -> Iterator[list[tuple[float, bool]]]:
    """Yield the gains of every seed, strategy and size of a set."""
    protocol, data = PROTOCOLS["full"], load(name)
    task = protocol.conditions(data)
    for seed in range(seeds):
        split = protocol.split(task, seed)
        batch, budget = protocol.sizes(len(split.pool))
        for strategy in ("random", "hedged"):
            session = Session(task, gw.recipe(strategy), seed, batch, budget, split)
            for step in session.steps():
                if len(step.spent) in SIZES and len(set(task.y[step.spent])) > 1:
                    yield gains(task, data.learner.C, split, step.spent)


def main(
    names: list[str] = Argument(None, help="Datasets; those of the design by default."),
    seeds: int = Option(2, min=1, help="Splits."),
) -> None:
    """Print what a semi-supervised model would gain, by the weight of the pool."""
    with threadpool_limits(1):
        # Sets, then seeds, strategies and sizes, then weights, then gain and kept.
        sets = [np.array(list(lines(n, seeds))) for n in tracked(names or DESIGN, "datasets")]
    print("| weight of the pool | gain in accuracy | kept where left-out rows say so | worst set |")
    print("|---|---|---|---|")
    for i, weight in enumerate(WEIGHTS):
        plain = np.array([found[:, i, 0].mean() for found in sets])
        gated = np.array([(found[:, i, 0] * found[:, i, 1]).mean() for found in sets])
        shown = ["{:+.4f} [{:+.4f}, {:+.4f}]".format(*bootstrap(each)) for each in (plain, gated)]
        share = np.concatenate([found[:, i, 1] for found in sets]).mean()
        print(f"| {weight} | {shown[0]} | {shown[1]}, in {share:.0%} | {gated.min():+.4f} |")


if __name__ == "__main__":
    typer.run(main)

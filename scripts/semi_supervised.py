"""What a semi-supervised model would gain: `python scripts/semi_supervised.py` prints a table.

On the benchmark's sets of the design, two seeds each, labels bought at random and by `hedged`. At
20, 50, 100 and 200 labels the model is fitted again with the rest of the pool, each row under its
own prediction, sharpened (p², scaled), with a weight that all of them share. It is kept where the
labelled rows, each left out, are more likely under it, by more than a standard error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import goalward as gw
from goalward.goals.leave_one_out import left_out
from goalward.lab.benchmark.plan import PROTOCOLS
from goalward.lab.datasets import Dataset, load
from goalward.lab.datasets.collection import DESIGN
from goalward.lab.session import Session
from goalward.lab.statistics import bootstrap

SIZES = (20, 50, 100, 200)
WEIGHTS = (0.1, 0.5, 1.0)
"""Of the rest of the pool together, as a share of the labels' weight."""


def left_out_likelihood(fitted: gw.Fitted, codes: np.ndarray) -> np.ndarray:
    """Return log p of the first labelled rows, each left out."""
    proba = np.asarray(fitted.loss.proba(left_out(fitted)[: len(codes)]))
    return np.log(proba[np.arange(len(codes)), codes])


def gains(task: Dataset, learner: gw.Logistic, split: Any, rows: np.ndarray) -> list[Any]:
    """Return, of each weight, what it adds to the accuracy, and whether it is kept."""
    X, y = task.X, np.asarray(task.y)
    base = learner.fit(X[rows], y[rows])
    rest, codes = np.setdiff1d(split.pool, rows), np.searchsorted(base.classes, y[rows])
    sharp = np.asarray(base.predict_proba(X[rest])) ** 2
    targets = np.concatenate(
        [np.eye(len(base.classes))[codes], sharp / sharp.sum(axis=1, keepdims=True)]
    )
    before, right = left_out_likelihood(base, codes), y[split.test]
    found = []
    for weight in WEIGHTS:
        each = np.full(len(rest), weight * len(rows) / len(rest))
        semi = gw.Logistic(C=learner.C, classes=list(base.classes)).fit(
            X[np.concatenate([rows, rest])],
            targets,
            sample_weight=np.concatenate([np.ones(len(rows)), each]),
        )
        more = left_out_likelihood(semi, codes) - before
        hits = [
            base.classes[m.predict_proba(X[split.test]).argmax(axis=1)] == right
            for m in (base, semi)
        ]
        kept = more.mean() > more.std() / np.sqrt(len(rows))
        found.append((hits[1].mean() - hits[0].mean(), kept))
    return found


def lines() -> Iterator[tuple[str, list[Any]]]:
    """Return the gains of every set, seed, strategy and size."""
    protocol = PROTOCOLS["full"]
    for name in DESIGN:
        whole = load(name)
        task = protocol.conditions(whole)
        for seed in range(2):
            split = protocol.split(task, seed)
            batch, budget = protocol.sizes(len(split.pool))
            for strategy in ("random", "hedged"):
                session = Session(task, gw.recipe(strategy), seed, batch, budget, split)
                for step in session.steps():
                    known = np.asarray(task.y)[step.spent]
                    if len(step.spent) in SIZES and len(set(known)) > 1:
                        yield name, gains(task, gw.Logistic(C=whole.learner.C), split, step.spent)


def main() -> None:
    """Print the table."""
    with threadpool_limits(1):
        found = list(lines())
    names = list(dict.fromkeys(name for name, _ in found))
    print("| weight of the pool | gain in accuracy | kept where left-out rows say so | worst set |")
    print("|---|---|---|---|")
    for i, weight in enumerate(WEIGHTS):
        columns = []
        for gated in (False, True):
            each = [
                np.mean([g[i][0] * (g[i][1] or not gated) for n, g in found if n == name])
                for name in names
            ]
            mean, low, high = bootstrap(np.array(each))
            columns.append((f"{mean:+.4f} [{low:+.4f}, {high:+.4f}]", min(each)))
        share = np.mean([g[i][1] for _, g in found])
        print(
            f"| {weight} | {columns[0][0]} | {columns[1][0]}, in {share:.0%} | {columns[1][1]:+.4f} |"
        )


if __name__ == "__main__":
    main()

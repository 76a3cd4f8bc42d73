"""Where each stopping rule would have ended a simulated session, and what that would have cost.

Rounds on disk hold the rows that were asked, so every model is fitted again here and nothing else
needs to be stored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from goalward.errors import BadParameter
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset
from goalward.lab.session import fitted_to, measure
from goalward.studio.advice import PRICE, Snapshot, first_stops, seen

__all__ = ["stops", "stops_summary"]

STOP_ROWS = 1000
FOLDS = 5


def stops(
    curves: Curves, dataset: Dataset, *, price: float = PRICE, budget: int | None = None
) -> pl.DataFrame:
    """Return one line per strategy, seed and rule: when it said stop, and the accuracy then.

    A strategy that uses dev labels is measured on them and has them counted as bought, as in a
    study with a dev set; any other is cross-validated on its own labels.

    Parameters
    ----------
    curves
        What `simulate` returned.
    dataset
        The dataset it was run on.
    price, budget
        What a label must gain, as a share of all rows; labels that may be bought.
    """
    if not price > 0:
        raise BadParameter(f"price={price!r}; above 0 was expected. Pass price=0.0002, say.")
    names = set(curves.table["dataset"].unique())
    if names != {dataset.name}:
        raise BadParameter(
            f"The curves are of {', '.join(sorted(names))}; those of {dataset.name} were expected. "
            "Pass the dataset of the simulation."
        )
    lines = []
    for (strategy, seed), part in curves.table.group_by(["strategy", "seed"], maintain_order=True):
        mine = part.sort("round")
        rounds, accuracy = _snapshots(mine, dataset, int(seed)), mine["accuracy"].to_list()
        for rule, place in first_stops(rounds, price=price, budget=budget).items():
            if rule == "budget" and budget is None:
                continue
            at = -1 if place is None else place
            lines.append(
                {
                    "dataset": dataset.name,
                    "strategy": strategy,
                    "seed": seed,
                    "rule": rule,
                    "stopped": place is not None,
                    "labels": rounds[at].bought,
                    "accuracy": accuracy[at],
                    "final_labels": rounds[-1].bought,
                    "final_accuracy": accuracy[-1],
                    "lost": accuracy[-1] - accuracy[at],
                }
            )
    return pl.DataFrame(lines)


def stops_summary(table: pl.DataFrame) -> pl.DataFrame:
    """Return one line per dataset, strategy and rule: how often it stopped, where, what was lost.

    Labels, accuracy and loss are means over all seeds; one that never stopped counts as it ended.
    """
    return (
        table.group_by("dataset", "strategy", "rule", maintain_order=True)
        .agg(
            pl.col("stopped").sum(),
            pl.len().alias("seeds"),
            pl.col("labels").mean(),
            pl.col("final_labels").mean().alias("of"),
            pl.col("accuracy").mean(),
            pl.col("lost").mean(),
            pl.col("lost").max().alias("worst_lost"),
        )
        .with_columns(saved=1 - pl.col("labels") / pl.col("of"))
    )


def _snapshots(mine: pl.DataFrame, dataset: Dataset, seed: int) -> list[Snapshot]:
    # Rules know the answers alone, wrong ones too; the true labels are in the curves.
    dataset = replace(dataset, y=dataset.answers(seed), noise=0.0)
    split = dataset.split(seed)
    fixed = np.sort(np.random.default_rng([seed, 11]).permutation(split.pool)[:STOP_ROWS])
    on_dev = bool(mine["labels_with_dev"][0] > mine["labels"][0])
    known = split.init
    snapshots = []
    for line in mine.iter_rows(named=True):
        fitted = fitted_to(dataset, known, dataset.y[known])
        batch = np.array(line["rows"], dtype=np.int64)
        proba = np.empty((0, len(fitted.classes)))
        if len(batch):
            proba = fitted.predict_proba(dataset.X[batch])
        if on_dev:
            accuracy: float | None = measure(fitted, dataset, split.dev)[0]
        else:
            accuracy = _cross_validated(dataset, known, seed)
        snapshots.append(
            Snapshot(
                labels=len(known),
                bought=int(line["labels_with_dev"]),
                least=int(min(np.sum(dataset.y[known] == c) for c in dataset.classes)),
                metric="dev" if on_dev else "cross-validated",
                accuracy=accuracy,
                **seen(fitted.predict_proba(dataset.X[fixed]), proba),
            )
        )
        known = np.concatenate([known, batch])
    return snapshots


def _cross_validated(dataset: Dataset, known: NDArray[Any], seed: int) -> float | None:
    if len(known) < 2 * FOLDS:
        return None
    right = 0.0
    for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(known):
        rows = known[train]
        if len(np.unique(dataset.y[rows])) < 2:
            return None
        fitted = fitted_to(dataset, rows, dataset.y[rows])
        right += measure(fitted, dataset, known[test])[0] * len(test)
    return right / len(known)

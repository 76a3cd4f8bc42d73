"""Where each stopping rule would have ended a simulated session, and what that would have cost.

Rounds on disk hold the rows that were asked, so every model is fitted again here and nothing else
needs to be stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from goalward.core.arrays import to_numpy
from goalward.errors import BadParameter
from goalward.goals import DevLoss, Entropy, Goal
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset
from goalward.lab.session import fitted_to
from goalward.labels import Spread
from goalward.models import Fitted
from goalward.stopping import Snapshot, first_stops, seen
from goalward.utility import FirstOrder

__all__ = ["stops", "stops_summary"]

STOP_ROWS = 1000
FOLDS = 5


def stops(
    curves: Curves, dataset: Dataset, *, price: float = 0.001, budget: int | None = None
) -> pl.DataFrame:
    """Return one line per strategy, seed and rule: when it said stop, and the accuracy then.

    A strategy that uses dev labels is measured on them and has them counted as bought, as in a
    study with a dev set; any other is cross-validated on its own labels, and its goal is the
    certainty of the pool.

    Parameters
    ----------
    curves
        What `simulate` returned.
    dataset
        The dataset it was run on.
    price, budget
        What a label must gain, in nats per row of the goal; labels that may be bought.
    """
    if not price > 0:
        raise BadParameter(f"price={price!r}; above 0 was expected. Pass price=0.001, say.")
    names = set(curves.table["dataset"].unique())
    if names != {dataset.name}:
        raise BadParameter(
            f"The curves are of {', '.join(sorted(names))}; those of {dataset.name} were expected. "
            "Pass the dataset of the simulation."
        )
    lines: list[dict[str, Any]] = []
    for (strategy, seed), part in curves.table.group_by(["strategy", "seed"], maintain_order=True):
        mine = part.sort("round")
        rounds = _snapshots(mine, dataset, int(seed))
        accuracy = mine["accuracy"].to_numpy()
        for rule, place in first_stops(rounds, price=price, budget=budget).items():
            if rule == "budget" and budget is None:
                continue
            at = len(rounds) - 1 if place is None else place
            lines.append(
                {
                    "dataset": dataset.name,
                    "strategy": strategy,
                    "seed": seed,
                    "rule": rule,
                    "stopped": place is not None,
                    "labels": rounds[at].bought,
                    "accuracy": float(accuracy[at]),
                    "final_labels": rounds[-1].bought,
                    "final_accuracy": float(accuracy[-1]),
                    "lost": float(accuracy[-1] - accuracy[at]),
                }
            )
    return pl.DataFrame(lines)


def stops_summary(table: pl.DataFrame) -> pl.DataFrame:
    """Return one line per dataset, strategy and rule: how often it stopped, where, what was lost.

    Labels, accuracy and loss are means over all seeds; one that never stopped counts as it ended.
    """
    keys = ["dataset", "strategy", "rule"]
    return (
        table.group_by(keys, maintain_order=True)
        .agg(
            pl.col("stopped").sum().alias("stopped"),
            pl.len().alias("seeds"),
            pl.col("labels").mean(),
            pl.col("final_labels").mean().alias("of"),
            pl.col("accuracy").mean(),
            pl.col("lost").mean(),
            pl.col("lost").max().alias("worst_lost"),
        )
        .with_columns((1 - pl.col("labels") / pl.col("of")).alias("saved"))
    )


def _snapshots(mine: pl.DataFrame, dataset: Dataset, seed: int) -> list[Snapshot]:
    split, answers = dataset.split(seed), dataset.answers(seed)
    fixed = np.sort(np.random.default_rng([seed, 11]).permutation(split.pool)[:STOP_ROWS])
    on_dev = bool(mine["labels_with_dev"][0] > mine["labels"][0])
    rows = split.dev if on_dev else split.pool
    goal = DevLoss(dataset.X[rows], dataset.y[rows]) if on_dev else Entropy(dataset.X[rows])
    known = split.init
    snapshots = []
    for line in mine.iter_rows(named=True):
        fitted = fitted_to(dataset, known, answers[known])
        batch = np.array(line["rows"], dtype=np.int64)
        if on_dev:
            accuracy: float | None = _right(fitted, dataset, split.dev)
        else:
            accuracy = _cross_validated(dataset, known, seed)
        snapshots.append(
            Snapshot(
                labels=len(known),
                bought=int(line["labels_with_dev"]),
                metric="dev" if on_dev else "cross-validated",
                accuracy=accuracy,
                goal=goal.value(fitted) / len(rows),
                gain=_gain(fitted, goal, dataset.X[batch]) / len(rows) if len(batch) else None,
                **seen(_proba(fitted, dataset.X[fixed]), _proba(fitted, dataset.X[batch])),
            )
        )
        known = np.concatenate([known, batch])
    return snapshots


def _gain(fitted: Fitted, goal: Goal, X: NDArray[Any]) -> float:
    per_label = FirstOrder()(fitted, goal, X)
    return float(np.mean(to_numpy(Spread()(per_label, fitted, X))))


def _proba(fitted: Fitted, X: NDArray[Any]) -> NDArray[Any]:
    return to_numpy(fitted.predict_proba(X)) if len(X) else np.empty((0, len(fitted.classes)))


def _right(fitted: Fitted, dataset: Dataset, rows: NDArray[Any]) -> float:
    return float(np.mean(fitted.predict(dataset.X[rows]) == dataset.y[rows]))


def _cross_validated(dataset: Dataset, known: NDArray[Any], seed: int) -> float | None:
    if len(known) < 2 * FOLDS:
        return None
    right = 0.0
    for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(known):
        rows = known[train]
        if len(np.unique(dataset.y[rows])) < 2:
            return None
        fitted = fitted_to(dataset, rows, dataset.answers(seed)[rows])
        right += _right(fitted, dataset, known[test]) * len(test)
    return right / len(known)

"""One simulated labelling session: fit, measure, suggest, answer, again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from goalward.bench.datasets import Dataset
from goalward.learners import Fitted
from goalward.strategies import GoalOriented, Recipe, Strategy

__all__ = ["Round", "rounds"]


@dataclass(frozen=True)
class Round:
    """Where a session stands after a fit, and what it asks next.

    Parameters
    ----------
    queries
        Labels bought from the pool so far.
    labels
        All labels known to the model: the initial ones and the queries.
    labels_with_dev
        The same, with the dev labels charged if the strategy uses them (a dev row that
        was queried counts once).
    goal
        The strategy's goal at this model; NaN for strategies without one.
    rows
        What was asked in this round, as positions in the dataset; empty in the last.
    utility
        Minimum, quartiles and maximum of the scores of the free rows.
    seconds
        Time to fit and to suggest.
    """

    round: int
    queries: int
    labels: int
    labels_with_dev: int
    accuracy: float
    log_loss: float
    goal: float
    rows: NDArray[Any] = field(repr=False)
    utility: tuple[float, ...] = field(repr=False)
    seconds: float = field(repr=False)


def rounds(
    dataset: Dataset,
    recipe: Recipe,
    *,
    batch: int = 10,
    budget: int = 400,
    seed: int = 0,
    asked: Sequence[NDArray[Any]] = (),
) -> Iterator[Round]:
    """Yield the rounds of one session, the last one after the whole budget.

    Parameters
    ----------
    asked
        Rows of the first rounds of an earlier run of the same session: they are taken
        over instead of scored, and the session goes on from there.
    """
    split = dataset.split(seed)
    pool = split.pool
    strategy = _build(dataset, recipe, seed)
    uses_dev = "dev" in recipe.needs
    learner = clone(dataset.learner).set_params(classes=dataset.classes)
    taken: list[NDArray[Any]] = list(asked)
    number = len(taken)
    while True:
        spent = np.concatenate([np.empty(0, dtype=np.int64), *taken]).astype(np.int64)
        known = np.concatenate([split.init, spent])
        began = perf_counter()
        # Fitted from zero each round: the numbers do not depend on where a run was resumed.
        fitted = learner.fit(dataset.X[known], dataset.y[known])
        left = min(batch, budget - len(spent), len(pool) - len(spent))
        rows = np.empty(0, dtype=np.int64)
        summary: tuple[float, ...] = (float("nan"),) * 5
        if left > 0:
            suggestion = strategy.suggest(
                fitted, dataset.X[pool], left, spent, rows=pool, round=number
            )
            rows = suggestion.rows.astype(np.int64)
            free = suggestion.utility[~np.isin(pool, spent)]
            summary = tuple(float(q) for q in np.quantile(free, [0, 0.25, 0.5, 0.75, 1]))
        seconds = perf_counter() - began
        extra = len(np.setdiff1d(split.dev, known)) if uses_dev else 0
        accuracy, log_loss = _measure(fitted, dataset, split.test)
        yield Round(
            number,
            len(spent),
            len(known),
            len(known) + extra,
            accuracy,
            log_loss,
            strategy.goal.value(fitted) if isinstance(strategy, GoalOriented) else float("nan"),
            rows,
            summary,
            seconds,
        )
        if left <= 0:
            return
        taken.append(rows)
        number += 1


def _build(dataset: Dataset, recipe: Recipe, seed: int) -> Strategy:
    split = dataset.split(seed)
    return recipe.build(
        dev=(dataset.X[split.dev], dataset.y[split.dev]),
        pool=dataset.X[split.pool],
        truth=dataset.y,
        seed=seed,
    )


def _measure(fitted: Fitted, dataset: Dataset, test: NDArray[Any]) -> tuple[float, float]:
    p = np.asarray(fitted.predict_proba(dataset.X[test]))
    codes = np.searchsorted(fitted.classes, dataset.y[test])
    likelihood = p[np.arange(len(test)), codes]
    accuracy = float(np.mean(p.argmax(axis=1) == codes))
    return accuracy, float(-np.mean(np.log(np.maximum(likelihood, 1e-300))))

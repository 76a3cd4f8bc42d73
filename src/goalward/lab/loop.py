"""One simulated labelling session: fit, measure, suggest, answer, again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from goalward.goals import DevLoss, Entropy, Fisher, Goal
from goalward.lab.datasets import Dataset, Split
from goalward.models import Fitted
from goalward.pool import n_rows
from goalward.strategies import GoalOriented, Recipe, Strategy

__all__ = ["Round", "labels_held", "measure", "paper_goals", "rounds"]


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
    goal_dev, goal_entropy, goal_fisher
        The paper's goals at this model, for every strategy.
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
    goal_dev: float
    goal_entropy: float
    goal_fisher: float
    rows: list[int] = field(repr=False)
    utility: list[float] = field(repr=False)
    seconds: float = field(repr=False)

    def record(self) -> dict[str, Any]:
        """Return the round as plain values."""
        return asdict(self)


def paper_goals(dataset: Dataset, split: Split) -> dict[str, Goal]:
    """Return the paper's three goals: the dev rows, and the initial pool for the others."""
    pool = dataset.X[split.pool]
    return {
        "dev": DevLoss(dataset.X[split.dev], dataset.y[split.dev]),
        "entropy": Entropy(pool),
        "fisher": Fisher(pool),
    }


def rounds(
    dataset: Dataset,
    strategy: Recipe | Strategy,
    *,
    batch: int = 10,
    budget: int = 400,
    seed: int = 0,
    asked: Sequence[Sequence[int]] = (),
) -> Iterator[Round]:
    """Yield the rounds of one session, the last one after the whole budget.

    Parameters
    ----------
    asked
        Rows of the first rounds of an earlier run of the same session: they are taken
        over instead of scored, and the session goes on from there.
    """
    split = dataset.split(seed)
    X_pool = dataset.X[split.pool]
    uses_dev = not isinstance(strategy, Strategy) and "dev" in strategy.needs
    chooser = _build(dataset, split, X_pool, strategy, seed)
    # Labels that a ready-made strategy brings along are charged in full.
    held = labels_held(strategy) if isinstance(strategy, Strategy) else 0
    goals = paper_goals(dataset, split)
    learner = clone(dataset.learner).set_params(classes=dataset.classes)
    taken = [list(rows) for rows in asked]
    while True:
        number = len(taken)
        spent = np.array([row for rows in taken for row in rows], dtype=np.int64)
        known = np.concatenate([split.init, spent])
        began = perf_counter()
        # Fitted from zero each round: the numbers do not depend on where a run was resumed.
        fitted = learner.fit(dataset.X[known], dataset.y[known])
        left = min(batch, budget - len(spent), len(split.pool) - len(spent))
        rows: list[int] = []
        summary = [float("nan")] * 5
        if left > 0:
            suggestion = chooser.suggest(fitted, X_pool, left, spent, rows=split.pool, round=number)
            rows = suggestion.rows.tolist()
            free = suggestion.utility[~np.isin(split.pool, spent)]
            # A subsampled strategy leaves the rows it has not looked at without a score.
            scored = free[~np.isnan(free)]
            summary = np.quantile(scored, [0, 0.25, 0.5, 0.75, 1]).tolist()
        seconds = perf_counter() - began
        extra = len(np.setdiff1d(split.dev, known)) if uses_dev else held
        goal = chooser.goal if isinstance(chooser, GoalOriented) else None
        accuracy, log_loss = measure(fitted, dataset, split.test)
        yield Round(
            round=number,
            queries=len(spent),
            labels=len(known),
            labels_with_dev=len(known) + extra,
            accuracy=accuracy,
            log_loss=log_loss,
            goal=goal.value(fitted) if goal is not None else float("nan"),
            goal_dev=goals["dev"].value(fitted),
            goal_entropy=goals["entropy"].value(fitted),
            goal_fisher=goals["fisher"].value(fitted),
            rows=rows,
            utility=summary,
            seconds=seconds,
        )
        if left <= 0:
            return
        taken.append(rows)


def labels_held(strategy: Strategy) -> int:
    """Return how many labels a strategy holds: those of its goal, or of its belief."""
    if not isinstance(strategy, GoalOriented):
        return 0
    belief = getattr(strategy.operator, "belief", None)
    inner = getattr(belief, "belief", None)
    others = [
        n_rows(b.X)
        for b in (belief, inner)
        if b is not None and hasattr(b, "y") and b.y is not None
    ]
    # The same labels may serve both, and as a rule do.
    return max([strategy.goal.labels_held, *others])


def _build(
    dataset: Dataset, split: Split, X_pool: NDArray[Any], strategy: Recipe | Strategy, seed: int
) -> Strategy:
    if isinstance(strategy, Strategy):
        return strategy
    dev = (dataset.X[split.dev], dataset.y[split.dev])
    return strategy.build(dev=dev, pool=X_pool, truth=dataset.y, seed=seed)


def measure(fitted: Fitted, dataset: Dataset, test: NDArray[Any]) -> tuple[float, float]:
    """Return accuracy and log-loss on held-out rows."""
    p = np.asarray(fitted.predict_proba(dataset.X[test]))
    codes = np.searchsorted(fitted.classes, dataset.y[test])
    likelihood = p[np.arange(len(test)), codes]
    accuracy = float(np.mean(p.argmax(axis=1) == codes))
    return accuracy, float(-np.mean(np.log(np.maximum(likelihood, 1e-300))))

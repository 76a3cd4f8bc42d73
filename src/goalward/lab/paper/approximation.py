"""How well first order stands in for retraining: the data of the paper's first figures.

50 random labelled rows, 500 others as pool and as goal rows, the entropy goal, fixed C. Single
rows, and sliding windows of b rows under all their labelings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.stats import spearmanr

from goalward.goals import DevLoss, Entropy, Fisher, Goal, Term
from goalward.goals.certainty import NegativeTrace
from goalward.lab.datasets import Dataset
from goalward.lab.paper.studies import OPERATORS, Size, Tick
from goalward.models import Fitted
from goalward.utility import FirstOrder, Retrain

__all__ = ["EqualNorms", "ExPred", "Scatter", "Trial", "expected_prediction", "scatter", "trial"]

Resolved = dict[str, NDArray[Any]]
"""Operator -> a utility for each window."""


@dataclass(frozen=True, eq=False)
class EqualNorms(Fisher):
    """The Fisher goal with every ‖x‖² replaced by their mean: what is left without the norms."""

    def terms(self, fitted: Any) -> list[Term]:
        """Return the goal bound to a model."""
        (term,) = super().terms(fitted)
        scale = np.asarray(cast(NegativeTrace, term.kernel).scale)
        return [term._replace(kernel=NegativeTrace(np.full_like(scale, scale.mean())))]


@dataclass(frozen=True)
class Trial:
    """A fitted model, its pool with the true labels, and the goals measured on it."""

    fitted: Fitted = field(repr=False)
    X: NDArray[Any] = field(repr=False)
    codes: NDArray[Any] = field(repr=False)
    goals: dict[str, Goal] = field(repr=False)


def trial(
    dataset: Dataset, *, seed: int = 0, n_labelled: int = 50, n_pool: int = 500, n_dev: int = 100
) -> Trial:
    """Return the paper's setting on a random part of `dataset`."""
    order = np.random.default_rng([seed, 4]).permutation(len(dataset.y))
    n_pool = min(n_pool, len(order) - n_labelled - n_dev)
    train, pool, dev, _ = np.split(order, np.cumsum([n_labelled, n_pool, n_dev]))
    fitted = dataset.learner.fit(dataset.X[train], dataset.y[train])
    X = dataset.X[pool]
    goals: dict[str, Goal] = {
        "entropy": Entropy(X),
        "fisher": Fisher(X),
        "fisher, equal norms": EqualNorms(X),
        "dev": DevLoss(dataset.X[dev], dataset.y[dev]),
    }
    return Trial(fitted, X, np.searchsorted(fitted.classes, dataset.y[pool]), goals)


def utilities(
    task: Trial, b: int, goal: str = "entropy", *, n_jobs: int | None = None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return retrained and first-order utilities (windows, K**b), and the true labelings' indices."""
    windows = np.ascontiguousarray(np.moveaxis(sliding_window_view(task.X, b, axis=0), -1, 1))
    exact = Retrain(n_jobs=n_jobs).batch(task.fitted, task.goals[goal], windows)
    cheap = FirstOrder().batch(task.fitted, task.goals[goal], windows)
    place = task.fitted.n_classes ** np.arange(b - 1, -1, -1)
    return exact, cheap, sliding_window_view(task.codes, b) @ place


def chances(task: Trial, b: int) -> NDArray[Any]:
    """Return P(Y) = ∏ P(y) of every labeling of every window, (windows, K**b)."""
    p = np.asarray(task.fitted.predict_proba(task.X))
    total = np.ones((len(p) - b + 1, 1))
    for row in np.moveaxis(sliding_window_view(p, b, axis=0), -1, 0):
        total = (total[:, :, None] * row[:, None, :]).reshape(len(total), -1)
    return total


def resolve(utility: NDArray[Any], true: NDArray[Any]) -> Resolved:
    """Return utilities (windows, labelings) resolved by the paper's four operators."""
    return {
        "oracle": utility[np.arange(len(utility)), true],
        "average": utility.mean(axis=1),
        "min": utility.min(axis=1),
        "max": utility.max(axis=1),
    }


def agreement(exact: NDArray[Any], cheap: NDArray[Any]) -> dict[str, float]:
    """Return how approximate utilities compare with retrained ones.

    Two correlations; the slope of retrained on approximate ones, below 1 where the approximation
    over-estimates; the median of |approximate - retrained| over the median |retrained|.
    """
    return {
        "pearson": float(np.corrcoef(exact, cheap)[0, 1]),
        "spearman": float(spearmanr(exact, cheap).statistic),
        "slope": float(np.polyfit(cheap, exact, 1)[0]),
        "error": float(np.median(np.abs(cheap - exact)) / np.median(np.abs(exact))),
    }


@dataclass(frozen=True)
class Scatter:
    """Retrained and approximate utilities of one seed, and the agreement over all seeds."""

    title: str
    exact: Resolved = field(repr=False)
    cheap: Resolved = field(repr=False)
    table: pl.DataFrame


def scatter(
    dataset: Dataset, size: Size, tick: Tick, b: int = 1, *, every_goal: bool = True
) -> Scatter:
    """Return windows of b rows: the entropy goal of seed 0 to draw, and the agreement.

    Single rows are compared for every goal, larger windows for the entropy goal and fewer seeds.
    """
    what = "One more label" if b == 1 else f"Windows of {b} rows, all labelings,"
    lines, drawn = [], []
    for seed in range(size.seeds if b == 1 else size.batch_seeds):
        tick(f"approximation, windows of {b}, seed {seed}")
        task = trial(dataset, seed=seed, n_pool=size.pool)
        for goal in task.goals if b == 1 and every_goal else ["entropy"]:
            *both, true = utilities(task, b, goal, n_jobs=size.n_jobs)
            exact, cheap = (resolve(utility, true) for utility in both)
            drawn.append((exact, cheap))
            for name in OPERATORS:
                line = {"goal": goal, "seed": seed, "operator": name}
                lines.append(line | agreement(exact[name], cheap[name]))
    title = f"{what} on {dataset.name}: {dataset.source}"
    return Scatter(title, *drawn[0], pl.DataFrame(lines))


@dataclass(frozen=True)
class ExPred:
    """Retrained utilities under the model's own prediction, and under the other operators.

    Parameters
    ----------
    panels
        Title -> operator -> one number per window.
    flatness
        Title -> spread of the first-order expectation over the scale of its utilities.
    overlap
        Spearman correlations between the operators' first-order scores of single rows.
    """

    panels: dict[str, Resolved] = field(repr=False)
    flatness: dict[str, float]
    overlap: pl.DataFrame


def expected_prediction(
    dataset: Dataset, size: Size, tick: Tick, sizes: tuple[int, ...] = (1, 5, 10)
) -> ExPred:
    """Return the distributions for b = 1, 5, 10 (entropy) and the largest b (Fisher)."""
    task = trial(dataset, n_pool=size.pool)
    panels, flatness = {}, {}
    for goal, b in [*(("entropy", b) for b in sizes), ("fisher", sizes[-1])]:
        tick(f"ExPred, {goal}, b = {b}")
        exact, cheap, true = utilities(task, b, goal, n_jobs=size.n_jobs)
        chance = chances(task, b)
        title = f"{goal}, b = {b}"
        panels[title] = {"predicted": np.sum(chance * exact, axis=1)} | resolve(exact, true)
        flatness[title] = float(np.ptp(np.sum(chance * cheap, axis=1)) / np.abs(cheap).max())
    single = resolve(FirstOrder()(task.fitted, task.goals["entropy"], task.X), task.codes)
    overlap = [
        {"a": a, "b": b, "spearman": float(spearmanr(single[a], single[b]).statistic)}
        for a, b in combinations(OPERATORS, 2)
    ]
    return ExPred(panels, flatness, pl.DataFrame(overlap))

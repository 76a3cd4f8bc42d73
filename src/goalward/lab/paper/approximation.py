"""How well first order stands in for retraining: the data of the paper's first figures.

50 random labelled rows, 500 others as pool and as goal rows, the entropy goal, fixed C. Single
rows, and sliding windows of b rows under all their labelings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import spearmanr

from goalward.goals import DevLoss, Entropy, Fisher, Goal, Term
from goalward.goals.certainty import NegativeTrace
from goalward.lab.datasets import Dataset
from goalward.lab.paper.studies import OPERATORS, Size, Tick
from goalward.models import Fitted
from goalward.utility import FirstOrder, Retrain, Utility

__all__ = [
    "EqualNorms",
    "ExPred",
    "Scatter",
    "Trial",
    "expected_prediction",
    "scatter_batch",
    "scatter_serial",
    "trial",
]

Resolved = dict[str, NDArray[Any]]
"""Operator -> a utility for each row or window."""


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
    rng = np.random.default_rng([seed, 4])
    order = rng.permutation(len(dataset.y))
    n_pool = min(n_pool, len(order) - n_labelled - n_dev)
    train, pool, dev = np.split(
        order[: n_labelled + n_pool + n_dev], [n_labelled, n_labelled + n_pool]
    )
    fitted = dataset.learner.fit(dataset.X[train], dataset.y[train])
    X = dataset.X[pool]
    goals: dict[str, Goal] = {
        "entropy": Entropy(X),
        "fisher": Fisher(X),
        "fisher, equal norms": EqualNorms(X),
        "dev": DevLoss(dataset.X[dev], dataset.y[dev]),
    }
    return Trial(fitted, X, np.searchsorted(fitted.classes, dataset.y[pool]), goals)


def resolve(utility: NDArray[Any], true: NDArray[Any]) -> Resolved:
    """Return utilities per (row, labeling) resolved by the paper's four operators.

    Parameters
    ----------
    true
        The index of the true labeling of each row.
    """
    return {
        "oracle": utility[np.arange(len(utility)), true],
        "average": utility.mean(axis=1),
        "min": utility.min(axis=1),
        "max": utility.max(axis=1),
    }


def serial(task: Trial, goal: str = "entropy") -> tuple[NDArray[Any], NDArray[Any]]:
    """Return retrained and approximate utilities of single rows, (rows, labels)."""
    utilities: tuple[Utility, ...] = (Retrain(), FirstOrder())
    exact, cheap = (utility(task.fitted, task.goals[goal], task.X) for utility in utilities)
    return exact, cheap


def batches(
    task: Trial, size: int = 10, goal: str = "entropy", *, n_jobs: int | None = None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return retrained and approximate utilities of sliding windows, and the true labelings.

    (windows, K**size) each, and the index of each window's true labeling.
    """
    windows = np.lib.stride_tricks.sliding_window_view(task.X, size, axis=0)
    windows = np.ascontiguousarray(windows.transpose(0, 2, 1))
    utilities: tuple[Utility, ...] = (Retrain(n_jobs=n_jobs), FirstOrder())
    exact, cheap = (u.batch(task.fitted, task.goals[goal], windows) for u in utilities)
    place = task.fitted.n_classes ** np.arange(size - 1, -1, -1)
    labels = np.lib.stride_tricks.sliding_window_view(task.codes, size)
    return exact, cheap, labels @ place


def chances(task: Trial, size: int) -> NDArray[Any]:
    """Return P(Y) = ∏ P(y) of every labeling of every window, (windows, K**size)."""
    p = np.asarray(task.fitted.predict_proba(task.X))
    windows = np.lib.stride_tricks.sliding_window_view(p, size, axis=0).transpose(0, 2, 1)
    total = np.ones((len(windows), 1))
    for j in range(size):
        total = (total[:, :, None] * windows[:, j, None, :]).reshape(len(windows), -1)
    return total


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

    exact: Resolved = field(repr=False)
    cheap: Resolved = field(repr=False)
    table: pl.DataFrame
    source: str


Pairs = Callable[[Trial], dict[str, tuple[Resolved, Resolved]]]


def scatter_serial(dataset: Dataset, size: Size, tick: Tick) -> Scatter:
    """Return single rows: all goals over the seeds, the entropy goal of seed 0 to draw."""

    def pairs(task: Trial) -> dict[str, tuple[Resolved, Resolved]]:
        both = {goal: serial(task, goal) for goal in task.goals}
        return {g: (resolve(a, task.codes), resolve(b, task.codes)) for g, (a, b) in both.items()}

    return _scatter(dataset, size.seeds, size, pairs, tick, "single rows")


def scatter_batch(dataset: Dataset, size: Size, tick: Tick, b: int = 10) -> Scatter:
    """Return sliding windows of b rows under all labelings, entropy goal."""

    def pairs(task: Trial) -> dict[str, tuple[Resolved, Resolved]]:
        exact, cheap, true = batches(task, b, n_jobs=size.n_jobs)
        return {"entropy": (resolve(exact, true), resolve(cheap, true))}

    return _scatter(dataset, size.batch_seeds, size, pairs, tick, f"windows of {b} rows")


def _scatter(
    dataset: Dataset, seeds: int, size: Size, pairs: Pairs, tick: Tick, what: str
) -> Scatter:
    lines, drawn = [], []
    for seed in range(seeds):
        tick(f"approximation, {what}, seed {seed}")
        for goal, (exact, cheap) in pairs(trial(dataset, seed=seed, n_pool=size.pool)).items():
            drawn.append((exact, cheap))
            for name in OPERATORS:
                line = {"goal": goal, "seed": seed, "operator": name}
                lines.append(line | agreement(exact[name], cheap[name]))
    return Scatter(*drawn[0], pl.DataFrame(lines), dataset.source)


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
    source: str


def expected_prediction(
    dataset: Dataset, size: Size, tick: Tick, sizes: tuple[int, ...] = (1, 5, 10)
) -> ExPred:
    """Return the distributions for b = 1, 5, 10 (entropy) and the largest b (Fisher)."""
    task = trial(dataset, seed=0, n_pool=size.pool)
    panels, flatness = {}, {}
    for goal, b in [*(("entropy", b) for b in sizes), ("fisher", sizes[-1])]:
        tick(f"ExPred, {goal}, b = {b}")
        exact, cheap, true = batches(task, b, goal, n_jobs=size.n_jobs)
        chance = chances(task, b)
        title = f"{goal}, b = {b}"
        panels[title] = {"predicted": np.sum(chance * exact, axis=1)} | resolve(exact, true)
        flat = np.sum(chance * cheap, axis=1)
        flatness[title] = float(np.ptp(flat) / np.abs(cheap).max())
    resolved = resolve(serial(task)[1], task.codes)
    overlap = [
        {"a": a, "b": b, "spearman": float(spearmanr(resolved[a], resolved[b]).statistic)}
        for i, a in enumerate(OPERATORS)
        for b in OPERATORS[i + 1 :]
    ]
    return ExPred(panels, flatness, pl.DataFrame(overlap), dataset.source)

"""The paper's experiments as data: each function returns what a figure and a claim need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import spearmanr

from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, synth2
from goalward.lab.paper import approximation
from goalward.lab.simulate import simulate
from goalward.learners import Logistic, cross_validate

__all__ = [
    "ExPred",
    "Scatter",
    "Size",
    "expected_prediction",
    "learning",
    "penalties",
    "scatter_batch",
    "scatter_serial",
    "synthetic",
]

OPERATORS = approximation.OPERATORS
GOALS = ("dev", "entropy", "fisher")
Tick = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """How much is run: `full()` for the paper's protocol, `quick()` for a look."""

    seeds: int
    queries: int
    pool: int
    batch_seeds: int
    rows: int | None
    n_jobs: int | None = None

    @classmethod
    def full(cls, seeds: int = 10, n_jobs: int | None = None) -> Size:
        """Return the paper's protocol: 1,000 queries, 500 candidates, 491 windows."""
        return cls(seeds, 1000, 500, min(3, seeds), None, n_jobs)

    @classmethod
    def quick(cls, n_jobs: int | None = None, seeds: int = 2) -> Size:
        """Return a look at everything: 2 seeds, 100 queries, 120 candidates, 2,500 rows."""
        return cls(seeds, 100, 120, 1, 2500, n_jobs)


@dataclass(frozen=True)
class Scatter:
    """Retrained and approximate utilities of one seed, and the agreement over all seeds."""

    exact: dict[str, NDArray[Any]] = field(repr=False)
    cheap: dict[str, NDArray[Any]] = field(repr=False)
    table: pl.DataFrame
    source: str


def scatter_serial(dataset: Dataset, size: Size, tick: Tick) -> Scatter:
    """Return single rows: all three goals over the seeds, the entropy goal of seed 0 to draw."""
    lines, first = [], None
    for seed in range(size.seeds):
        tick(f"approximation, single rows, seed {seed}")
        task = approximation.setting(dataset, seed=seed, n_pool=size.pool)
        for goal in task.goals:
            exact, cheap = approximation.serial(task, goal)
            pair = (
                approximation.resolve(exact, task.codes),
                approximation.resolve(cheap, task.codes),
            )
            first = first or pair
            lines += _agreements(pair, goal=goal, seed=seed)
    assert first is not None
    return Scatter(*first, pl.DataFrame(lines), dataset.source)


def scatter_batch(dataset: Dataset, size: Size, tick: Tick, b: int = 10) -> Scatter:
    """Return sliding windows of b rows under all labelings, entropy goal."""
    lines, first = [], None
    for seed in range(size.batch_seeds):
        tick(f"approximation, windows of {b} rows, seed {seed}")
        task = approximation.setting(dataset, seed=seed, n_pool=size.pool)
        exact, cheap, true = approximation.batches(task, b, n_jobs=size.n_jobs)
        pair = (approximation.resolve(exact, true), approximation.resolve(cheap, true))
        first = first or pair
        lines += _agreements(pair, goal="entropy", seed=seed)
    assert first is not None
    return Scatter(*first, pl.DataFrame(lines), dataset.source)


def _agreements(pair: tuple[Any, Any], **labels: Any) -> list[dict[str, Any]]:
    exact, cheap = pair
    lines = []
    for name in OPERATORS:
        found = approximation.agreement(exact[name], cheap[name])
        lines.append(labels | {"operator": name} | asdict(found))
    return lines


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

    panels: dict[str, dict[str, NDArray[Any]]] = field(repr=False)
    flatness: dict[str, float]
    overlap: pl.DataFrame
    source: str


def expected_prediction(
    dataset: Dataset, size: Size, tick: Tick, sizes: tuple[int, ...] = (1, 5, 10)
) -> ExPred:
    """Return the distributions for b = 1, 5, 10 (entropy) and the largest b (Fisher)."""
    task = approximation.setting(dataset, seed=0, n_pool=size.pool)
    panels, flatness = {}, {}
    for goal, b in [*(("entropy", b) for b in sizes), ("fisher", sizes[-1])]:
        tick(f"ExPred, {goal}, b = {b}")
        exact, cheap, true = approximation.batches(task, b, goal, n_jobs=size.n_jobs)
        chance = approximation.chances(task, b)
        title = f"{goal}, b = {b}"
        panels[title] = {"predicted": np.sum(chance * exact, axis=1)} | approximation.resolve(
            exact, true
        )
        flat = np.sum(chance * cheap, axis=1)
        flatness[title] = float(np.ptp(flat) / np.abs(cheap).max())
    _, cheap_one = approximation.serial(task)
    resolved = approximation.resolve(cheap_one, task.codes)
    overlap = [
        {"a": a, "b": b, "spearman": float(spearmanr(resolved[a], resolved[b]).statistic)}
        for i, a in enumerate(OPERATORS)
        for b in OPERATORS[i + 1 :]
    ]
    return ExPred(panels, flatness, pl.DataFrame(overlap), dataset.source)


def synthetic(size: Size, tick: Tick, out: Path) -> dict[int, Curves]:
    """Return synth2 runs, one draw of the data per seed, until the pool is nearly spent."""
    strategies = ["random", "uncertainty", *(f"dev/{op}" for op in OPERATORS)]
    budget = min(size.queries, 300)
    found = {}
    for draw in range(size.seeds):
        tick(f"synth2, draw {draw}")
        found[draw] = simulate(
            synth2(draw),
            strategies,
            budget=max(budget, 260),
            seeds=1,
            out=out / f"draw-{draw}",
            n_jobs=1,
            progress=False,
        )
    return found


def learning(dataset: Dataset, size: Size, tick: Tick, out: Path) -> Curves:
    """Return random, uncertainty and every goal x operator, on paired splits."""
    strategies = [
        "random",
        "uncertainty",
        *(f"{goal}/{operator}" for goal in GOALS for operator in OPERATORS),
    ]
    began = perf_counter()
    first: list[int] = []

    def tell(done: int, total: int) -> None:
        first.append(done)
        pace = (perf_counter() - began) / max(done - first[0], 1)
        left = f", about {pace * (total - done) / 60:.0f} min left" if done > first[0] else ""
        tick(f"learning curves on {dataset.name}: {done} of {total} rounds{left}")

    return simulate(
        dataset,
        {name: name for name in strategies},
        budget=size.queries,
        seeds=size.seeds,
        out=out,
        n_jobs=size.n_jobs,
        progress=tell,
    )


def penalties(datasets: dict[str, Dataset], tick: Tick) -> pl.DataFrame:
    """Return the C that cross validation picks on few and on many rows, beside the paper's."""
    lines = []
    for name, dataset in datasets.items():
        binary = len(dataset.classes) == 2
        split = dataset.split(0)
        rows = np.random.default_rng(0).permutation(np.r_[split.init, split.pool])
        stated = float(dataset.learner.C) * (2 if binary else 1)
        grid = stated * 10.0 ** np.arange(-2, 3)
        learner = Logistic(Cs=(grid / (2 if binary else 1)).tolist())
        for size in (200, 1000, 3000):
            known = _balanced(rows, dataset.y, size) if size < 1000 else rows[:size]
            tick(f"cross validation on {len(known)} rows of {name}")
            found = cross_validate(learner, dataset.X[known], dataset.y[known])
            likelihood, accuracy = (a.mean(axis=0) for a in (found.log_likelihood, found.accuracy))
            # Accuracies of folds tie within half a row: the strongest penalty of the best wins.
            best = int(np.flatnonzero(accuracy >= np.nanmax(accuracy) - 1e-12)[0])
            gap = found.accuracy[:, best] - found.accuracy[:, 2]
            lines.append(
                {
                    "dataset": name,
                    "rows": len(known),
                    "stated_C": stated,
                    "chosen_by_accuracy": float(grid[best]),
                    "chosen_by_likelihood": float(grid[int(np.nanargmax(likelihood))]),
                    "accuracy_at_stated": float(accuracy[2]),
                    "accuracy_at_best": float(accuracy[best]),
                    "standard_error": float(gap.std(ddof=1) / np.sqrt(len(gap))),
                }
            )
            if len(known) >= len(rows):
                break
    return pl.DataFrame(lines)


def _balanced(rows: NDArray[Any], y: NDArray[Any], size: int) -> NDArray[Any]:
    """Return about `size` rows with equally many of each class, so that folds can be made."""
    classes = np.unique(y)
    each = max(5, size // len(classes))
    return np.concatenate([rows[y[rows] == c][:each] for c in classes])

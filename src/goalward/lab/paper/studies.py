"""The paper's learning curves as data: each function returns what a figure and a claim need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import sem

from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, synth2
from goalward.lab.simulate import simulate
from goalward.learners import Logistic, cross_validate

__all__ = ["BASELINES", "GOALS", "OPERATORS", "Size", "Tick", "learning", "penalties", "synthetic"]

OPERATORS = ("oracle", "average", "min", "max")
GOALS = ("dev", "entropy", "fisher")
BASELINES = ("random", "uncertainty")
Tick = Callable[[str], None]
"""Told what is being done."""


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


def synthetic(size: Size, tick: Tick, out: Path) -> Curves:
    """Return synth2 until the pool is nearly spent, one draw of the data for each seed."""
    strategies = [*BASELINES, *(f"dev/{op}" for op in OPERATORS)]
    budget = max(min(size.queries, 300), 260)
    draws = []
    for draw in range(size.seeds):
        tick(f"synth2, draw {draw}")
        options: dict[str, Any] = {"out": out / f"draw-{draw}", "n_jobs": 1, "progress": False}
        curves = simulate(synth2(draw), strategies, budget=budget, seeds=1, **options)
        draws.append(curves.table.with_columns(seed=pl.lit(draw, dtype=pl.Int64)))
    return Curves(pl.concat(draws))


def learning(dataset: Dataset, size: Size, tick: Tick, out: Path) -> Curves:
    """Return random, uncertainty and every goal x operator, on paired splits."""
    strategies = [*BASELINES, *(f"{goal}/{operator}" for goal in GOALS for operator in OPERATORS)]
    began = perf_counter()
    first: list[int] = []

    def tell(done: int, total: int) -> None:
        first.append(done)
        pace = (perf_counter() - began) / max(done - first[0], 1)
        left = f", about {pace * (total - done) / 60:.0f} min left" if done > first[0] else ""
        tick(f"learning curves on {dataset.name}: {done} of {total} rounds{left}")

    options: dict[str, Any] = {"out": out, "n_jobs": size.n_jobs, "progress": tell}
    return simulate(dataset, strategies, budget=size.queries, seeds=size.seeds, **options)


def penalties(datasets: dict[str, Dataset], tick: Tick) -> pl.DataFrame:
    """Return the C that cross validation picks on few and on many rows, beside the paper's."""
    lines = []
    for name, dataset in datasets.items():
        # scikit-learn's binary C is ours at C/2.
        factor = 2 if len(dataset.classes) == 2 else 1
        stated = float(dataset.learner.C) * factor
        grid = stated * 10.0 ** np.arange(-2, 3)
        learner = Logistic(Cs=(grid / factor).tolist())
        split = dataset.split(0)
        rows = np.random.default_rng(0).permutation(np.r_[split.init, split.pool])
        for known in (_balanced(rows, dataset.y, 200), rows[:1000], rows[:3000]):
            tick(f"cross validation on {len(known)} rows of {name}")
            scores = cross_validate(learner, dataset.X[known], dataset.y[known])
            likelihood, accuracy = scores.log_likelihood.mean(axis=0), scores.accuracy.mean(axis=0)
            # Accuracies of folds tie within half a row: the strongest penalty of the best wins.
            best = int(np.flatnonzero(accuracy >= np.nanmax(accuracy) - 1e-12)[0])
            gap = scores.accuracy[:, best] - scores.accuracy[:, 2]
            lines.append(
                {
                    "dataset": name,
                    "rows": len(known),
                    "stated_C": stated,
                    "chosen_by_accuracy": float(grid[best]),
                    "chosen_by_likelihood": float(grid[int(np.nanargmax(likelihood))]),
                    "accuracy_at_stated": float(accuracy[2]),
                    "accuracy_at_best": float(accuracy[best]),
                    "standard_error": float(sem(gap)),
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

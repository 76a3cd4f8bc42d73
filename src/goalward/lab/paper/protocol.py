"""The paper's learning curves as data for figures and claims."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import friedmanchisquare, sem
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from goalward.adapters import LogisticClassifier
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, synth2
from goalward.lab.simulate import Plans, as_plans, simulate
from goalward.strategies import Random

OPERATORS = ("oracle", "average", "min", "max")
GOALS = ("dev", "entropy", "fisher")
BASELINES = ("random", "uncertainty")
FEWEST = 5  # seeds below which intervals are too wide to judge a claim by
WORDS = {
    "seeds": "seeds",
    "queries": "queries",
    "pool": "candidates",
    "batch_seeds": "seeds of batches",
}
Tick = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """How much is run, and of what: `full()` for the paper's protocol, `quick()` on small samples."""

    seeds: int
    queries: int
    pool: int
    batch_seeds: int
    samples: bool = False  # those that come along, in place of the whole sets
    n_jobs: int | None = None

    @classmethod
    def full(cls, seeds: int = 10, n_jobs: int | None = None) -> Size:
        """Return the paper's protocol: 1,000 queries, 500 candidates, 491 windows."""
        return cls(seeds, 1000, 500, min(5, seeds), False, n_jobs)

    def lacks(self, needs: Iterable[str]) -> str:
        """Return the named respects in which this is too small to test a claim; "" for none."""
        size = Size.quick if self.samples else Size.full
        least, mine = asdict(size(seeds=FEWEST)), asdict(self)
        few = [
            f"{WORDS[name]} {mine[name]:,} of {least[name]:,}"
            for name in needs
            if name != "whole" and mine[name] < least[name]
        ]
        return ", ".join([*few, *["samples of the sets"] * (self.samples and "whole" in needs)])

    @classmethod
    def quick(cls, seeds: int = 5, n_jobs: int | None = None) -> Size:
        """Return the same on small samples: 200 queries, 100 candidates, 91 windows."""
        return cls(seeds, 200, 100, min(5, seeds), True, n_jobs)


DEV = [*BASELINES, *(f"dev/{operator}" for operator in OPERATORS)]
EVERY = [*BASELINES, *(f"{goal}/{operator}" for goal in GOALS for operator in OPERATORS)]


def stated_C(dataset: Dataset) -> float:
    """Return C as the paper and scikit-learn state it: for two classes ours is half of it."""
    return float(dataset.learner.C) * (2 if len(dataset.classes) == 2 else 1)


def synthetic(
    size: Size, tick: Tick, out: Path, strategies: Plans = DEV, budget: int = 300
) -> Curves:
    """Return synth2 until the pool is nearly spent, one draw of the data for each seed."""
    draws = []
    for draw in range(size.seeds):
        tick(f"synth2, draw {draw}")
        options: dict[str, Any] = {"out": out / f"draw-{draw}", "n_jobs": 1, "progress": False}
        # Its own random order too, or all draws would share that of seed 0.
        mine = as_plans(strategies) | {"random": Random(draw)}
        curves = simulate(synth2(draw), mine, budget=budget, seeds=1, **options)
        draws.append(curves.table.with_columns(seed=pl.lit(draw, dtype=pl.Int64)))
    return Curves(pl.concat(draws))


def learning(
    dataset: Dataset, size: Size, tick: Tick, out: Path, strategies: Plans = EVERY
) -> Curves:
    """Return random, uncertainty and every goal x operator by default, on paired splits."""
    began = perf_counter()
    first: list[int] = []

    def tell(done: int, total: int) -> None:
        first.append(done)
        pace = (perf_counter() - began) / max(done - first[0], 1)
        left = f", about {pace * (total - done) / 60:.0f} min left" if done > first[0] else ""
        tick(f"learning curves on {dataset.name}: {done} of {total} sessions{left}")

    options: dict[str, Any] = {"out": out, "n_jobs": size.n_jobs, "progress": tell}
    return simulate(dataset, strategies, budget=size.queries, seeds=size.seeds, **options)


def penalties(datasets: list[Dataset], size: Size, tick: Tick) -> pl.DataFrame:
    """Return the C that cross validation picks from the initial labels, 1,000 and 3,000 rows."""
    lines = []
    for dataset in datasets:
        stated, steps = stated_C(dataset), 10.0 ** np.arange(-2, 3)
        grid = stated * steps
        Cs = float(dataset.learner.C) * steps
        initial = [dataset.split(seed).init for seed in range(size.seeds)]
        rows = np.random.default_rng(0).permutation(np.r_[initial[0], dataset.split(0).pool])
        for known in (initial, [rows[:1000]], [rows[:3000]])[: 1 if size.samples else 3]:
            tick(f"cross validation on {len(known[0])} rows of {dataset.name}")
            tried = [cross_validated(Cs, dataset.X[part], dataset.y[part]) for part in known]
            accuracy, likelihood = (
                # Splits are the unit where there are several, folds where there is one.
                np.array([scores[metric].mean(axis=0) for scores in tried])
                if len(tried) > 1
                else tried[0][metric]
                for metric in range(2)
            )
            means = accuracy.mean(axis=0)
            # Means tie within half a row: the strongest penalty of the best wins.
            best = int(np.flatnonzero(means >= np.nanmax(means) - 1e-12)[0])
            lines.append(
                {
                    "dataset": dataset.name,
                    "rows from": dataset.source,
                    "labels": len(known[0]),
                    "splits": len(known),
                    "stated_C": stated,
                    "chosen_by_accuracy": float(grid[best]),
                    "chosen_by_likelihood": float(grid[int(np.nanargmax(likelihood.mean(axis=0)))]),
                    "accuracy_at_stated": float(means[2]),
                    "accuracy_at_best": float(means[best]),
                    "standard_error": float(sem(accuracy[:, best] - accuracy[:, 2])),
                    "p_all_alike": _alike(accuracy),
                }
            )
            if len(known[0]) >= len(rows):
                break
    return pl.DataFrame(lines)


def cross_validated(Cs: NDArray[Any], X: Any, y: Any) -> NDArray[Any]:
    """Return accuracy and mean log-likelihood in stratified folds, (2, folds, Cs)."""
    fewest = int(np.unique(y, return_counts=True)[1].min())
    folds = StratifiedKFold(min(5, fewest), shuffle=True, random_state=0)
    metrics, grid = ("accuracy", "neg_log_loss"), {"C": Cs.tolist()}
    search = GridSearchCV(
        LogisticClassifier(), grid, scoring=metrics, cv=folds, refit=False, error_score=np.nan
    )
    with warnings.catch_warnings():
        # A few labels of many classes are no regression.
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        found = search.fit(X, y).cv_results_
    return np.array([[found[f"split{i}_test_{m}"] for i in range(folds.n_splits)] for m in metrics])


def _alike(accuracy: NDArray[Any]) -> float:
    """Return the p-value of Friedman's test that every C does equally well, (splits, Cs)."""
    tried = accuracy[:, ~np.isnan(accuracy).any(axis=0)]
    if tried.shape[1] < 3 or not np.ptp(tried, axis=1).any():
        return 1.0
    return float(friedmanchisquare(*tried.T).pvalue)

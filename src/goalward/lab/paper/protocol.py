"""The paper's learning curves as data for figures and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import friedmanchisquare, sem
from sklearn.neighbors import KNeighborsClassifier

from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, Thinned, synth2
from goalward.lab.simulate import Plans, as_plans, simulate
from goalward.labels import Belief, Expected, Geometric, LabelModel, Predicted
from goalward.labels.beliefs import Believe, Schedule, at_temperature
from goalward.models import Fitted
from goalward.models.logistic import Logistic, cross_validate
from goalward.strategies import GoalOriented, Random, Strategy, recipe
from goalward.strategies.recipes import forest

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
        learner = Logistic(Cs=(float(dataset.learner.C) * steps).tolist())
        initial = [dataset.split(seed).init for seed in range(size.seeds)]
        rows = np.random.default_rng(0).permutation(np.r_[initial[0], dataset.split(0).pool])
        for known in (initial, [rows[:1000]], [rows[:3000]])[: 1 if size.samples else 3]:
            tick(f"cross validation on {len(known[0])} rows of {dataset.name}")
            tried = [cross_validate(learner, dataset.X[part], dataset.y[part]) for part in known]
            accuracy, likelihood = (
                # Splits are the unit where there are several, folds where there is one.
                np.array([getattr(t, name).mean(axis=0) for t in tried])
                if len(tried) > 1
                else getattr(tried[0], name)
                for name in ("accuracy", "log_likelihood")
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


def _alike(accuracy: NDArray[Any]) -> float:
    """Return the p-value of Friedman's test that every C does equally well, (splits, Cs)."""
    tried = accuracy[:, ~np.isnan(accuracy).any(axis=0)]
    if tried.shape[1] < 3 or not np.ptp(tried, axis=1).any():
        return 1.0
    return float(friedmanchisquare(*tried.T).pvalue)


# The paper's future work: predictions softened and annealed, of the model and of label models.


SEEDS, POOL = {"synth2": 5, "rt-polarity": 5, "letter": 3}, 1000  # at most
SMALLER = (
    "the table of softened predictions has a tenth of the queries, at most 5 seeds (3 of letter) and "
    f"{POOL:,} rows in a pool, with whole test sets; dev labels are not charged."
)
MODELS: dict[str, Callable[[], Any] | None] = {  # who predicts the label
    "own prediction": None,
    "forest": forest,
    "neighbours": partial(KNeighborsClassifier, 5, weights="distance"),
}

LIMITS = {"average": "uniform", "oracle": "truth"}  # of softening, and of any belief


@dataclass(frozen=True)
class Tempered:
    """A belief softened as `Predicted` softens the model's: softmax(log p / T)."""

    belief: Belief
    temperature: Schedule

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        return partial(at_temperature, self.temperature(round), self.belief.prepare(fitted, round))


@dataclass(frozen=True)
class Softened:
    """The dev goal under a softened belief; built like a recipe, when the dev rows are known."""

    model: str
    temperature: Schedule
    utility: str
    needs = frozenset({"dev"})

    def build(self, *, dev: tuple[Any, Any], **data: Any) -> Strategy:
        make = MODELS[self.model]
        belief: Belief = Predicted(self.temperature)
        if make is not None:
            belief = Tempered(LabelModel(make(), X=dev[0], y=dev[1]), self.temperature)
        plain = recipe(f"dev/average/{self.utility}").build(dev=dev, **data)
        return replace(cast(GoalOriented, plain), operator=Expected(belief))


def plans(rounds: int) -> dict[str, Any]:
    """Return who is compared, by "belief, temperature, utility"."""
    ends = {"1": (1.0, 1.0), "2": (2.0, 2.0), "8 → 1": (8.0, 1.0)}
    schedules = {name: Geometric(*pair, rounds) for name, pair in ends.items()}
    found: dict[str, Any] = {name: recipe(name) for name in BASELINES}
    for (model, (T, schedule)), utility in product(
        product(MODELS, schedules.items()), ("first-order", "implicit")
    ):
        # To first order the model's own prediction needs a temperature, and others serve as they are.
        if utility == "implicit" or (model == "own prediction") == (T != "1"):
            found[f"{model}, {T}, {utility}"] = Softened(model, schedule, utility)
    for (word, label), utility in product(LIMITS.items(), ("first-order", "implicit")):
        found[f"{label}, –, {utility}"] = recipe(f"dev/{word}/{utility}")
    return found


def softened_table(datasets: list[Dataset], size: Size, tick: Tick, out: Path) -> pl.DataFrame:
    """Return areas under the accuracy curve, against random and against the uniform belief."""
    queries = max(10, size.queries // 10)
    compared = plans(-(-queries // 10))
    tables = []
    for dataset in datasets:
        name, seeds = dataset.name, min(SEEDS.get(dataset.name, 3), size.seeds)
        small, folder = replace(size, seeds=seeds, queries=queries), out / dataset.name
        if name == "synth2":
            curves = synthetic(small, tick, folder, compared, queries)
        else:
            pool = size.pool if size.samples else POOL
            share = min(1.0, pool / len(dataset.split(0).pool))
            thin = replace(dataset, split=Thinned(dataset.split, share, test=1.0))
            curves = learning(thin, small, tick, folder, compared)
        tables.append(_compared(curves))
    return pl.concat(tables)


def _compared(curves: Curves) -> pl.DataFrame:
    """Return a line for each strategy: its area, and the paired gains with 95 % intervals."""
    table = curves.differences("random")
    parts = pl.col("strategy").str.split(", ").list
    columns: list[Any] = [
        pl.lit(curves.table["dataset"][0]).alias("dataset"),
        *(
            parts.get(i, null_on_oob=True).alias(n)
            for i, n in enumerate(("belief", "T", "utility"))
        ),
        "area",
    ]
    for reference in ("random", "uniform, –, implicit"):
        word = reference.partition(",")[0]
        gains = curves.differences(reference)
        names = {"better_by": f"over_{word}", "low": f"{word}_low", "high": f"{word}_high"}
        columns += [gains[old].alias(new) for old, new in names.items()]
    return table.select(*columns, "seeds")

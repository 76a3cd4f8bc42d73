"""The paper's future work: predictions softened and annealed, of the model and of label models.

`python benchmarks/softened.py` plays synth2, rt-polarity and letter, where they are at hand, with a tenth
of the paper's queries, at most 5 seeds (3 of letter) and 1,000 rows in a pool, with whole test sets; dev
labels are not charged. It writes softened.csv; a killed run resumes from the folder.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import typer
from sklearn.neighbors import KNeighborsClassifier
from typer import Option

from goalward.core.arrays import like, softmax, to_numpy
from goalward.core.rows import Candidates
from goalward.errors import DataMissing
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, Thinned, load
from goalward.lab.paper.protocol import BASELINES, Size, Tick, learning, synthetic
from goalward.labels import Belief, Expected, Geometric, LabelModel, Predicted
from goalward.labels.beliefs import Believe, Schedule
from goalward.models import Fitted
from goalward.strategies import GoalOriented, Strategy, recipe
from goalward.strategies.recipes import forest

SEEDS, POOL = {"synth2": 5, "rt-polarity": 5, "letter": 3}, 1000  # at most
MODELS: dict[str, Callable[[], Any] | None] = {  # who predicts the label
    "own prediction": None,
    "forest": forest,
    "neighbours": partial(KNeighborsClassifier, 5, weights="distance"),
}

LIMITS = {"average": "uniform", "oracle": "truth"}  # of softening, and of any belief


def at_temperature(T: float, inner: Believe, candidates: Candidates) -> Any:
    """Return a belief at a temperature: softmax(log p / T)."""
    # A belief of exactly zero would make one wrong vote infinitely surprising.
    tempered = softmax(np.log(np.maximum(to_numpy(inner(candidates)), 1e-6)) / T)
    return like(tempered, candidates.proba, dtype=candidates.proba.dtype)


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


def main(
    quick: bool = Option(False, "--quick", help="Two seeds, few rows."),
    out: Path = Option(Path("out/softened"), help="Folder for results."),
    jobs: int | None = Option(None, help="Processes; all cores by default."),
) -> None:
    """Play every belief at every temperature, and write the table."""
    datasets = []
    for name in ("synth2", "rt-polarity", "letter"):
        with suppress(DataMissing):
            datasets.append(load(name))
    size = Size.quick(2, jobs) if quick else Size.full(n_jobs=jobs)
    table = softened_table(datasets, size, print, out)
    out.mkdir(parents=True, exist_ok=True)
    table.write_csv(out / "softened.csv")


if __name__ == "__main__":
    typer.run(main)

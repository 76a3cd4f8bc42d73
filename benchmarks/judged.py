"""Batches judged by retraining before they are asked: `python benchmarks/judged.py` prints a table.

The parts of `hedged` and BAIT each propose a batch. Labels are drawn from the model's belief, softened
by a temperature, the model is retrained with each draw, and the batch with the least expected risk on
500 rows of the pool is taken. Sets of the design, with the model of new studies.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import typer
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits
from typer import Argument, Option

from goalward.core.arrays import like, to_numpy
from goalward.core.draws import reference_rows
from goalward.errors import NotConverged
from goalward.lab.benchmark.sessions import Protocol
from goalward.lab.datasets import load
from goalward.lab.datasets.load import DESIGN
from goalward.lab.session import Session
from goalward.lab.statistics import bootstrap, height, signed_rank
from goalward.strategies import Random, Strategy, Suggestion, recipe
from pages import tracked

PROPOSERS = (
    "decision-risk among 1000 by margin",
    "margin",
    "coverage among 4000 by random",
    "bait among 1000 by margin",
)
RULES = Protocol("features", learner="features", pool=1000, test=1000)


@dataclass(frozen=True)
class Judged(Strategy):
    """Of the batches that others propose, the one after which the model expects to err least."""

    pool: Any = field(default=None, repr=False)
    seed: int = 0
    temperature: float = 1.0
    draws: int = 6
    rows: int = 500
    starts = True

    def build(self, **data: Any) -> Judged:
        return replace(
            self, pool=reference_rows(data["pool"], seed=data["seed"]), seed=data["seed"]
        )

    def bind(self, request: Any) -> Any:
        return Random(self.seed).bind(request)

    def choose(self, request: Any, engine: Any) -> Suggestion:
        names = PROPOSERS if request.fitted.has_two_classes else ("coverage",)
        made = (recipe(name).build(pool=self.pool, seed=self.seed) for name in names)
        batches = [each.turn(request.fitted, request.turn).choose(request, engine) for each in made]
        risks = (
            [self.risk(request, each.positions) for each in batches] if len(names) > 1 else [0.0]
        )
        return batches[int(np.argmin(risks))]

    def risk(self, request: Any, batch: np.ndarray) -> float:
        """Return the expected share of errors after a batch, over labels drawn from the belief."""
        fitted, got = request.fitted, request.read(batch)
        rng = np.random.default_rng([self.seed, request.round])
        look = request.read(np.sort(rng.permutation(len(request.pool))[: self.rows]))
        belief = to_numpy(fitted.proba_of(got.X)) ** (1.0 / self.temperature)
        edges = (belief / belief.sum(axis=1, keepdims=True)).cumsum(axis=1)
        risks = []
        for _ in range(self.draws):
            labels = (edges < rng.random((len(batch), 1))).sum(axis=1).clip(0, fitted.n_classes - 1)
            targets = like(
                np.eye(fitted.n_classes)[labels], fitted.params, dtype=fitted.params.dtype
            )
            try:
                after = fitted.with_rows(got.X, targets).polished(tol=1e-3)
            except NotConverged:
                continue
            risks.append(1.0 - float(to_numpy(after.proba_of(look.X)).max(axis=1).mean()))
        return float(np.mean(risks)) if risks else 1.0


def accuracy(name: str, seed: int, strategy: Any) -> tuple[float, float]:
    """Return the area under the accuracy curve of a session, and its end."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        task = RULES.conditions(load(name))
        split = RULES.split(task, seed)
        batch, budget = RULES.sizes(len(split.pool))
        steps = Session(task, strategy, seed, batch, budget, split).steps()
        right = [
            np.mean(step.model.predict(task.X[split.test]) == task.y[split.test]) for step in steps
        ]
    return float(height(np.array(right))), float(right[-1])


def main(
    names: list[str] = Argument(None, help="Datasets; those of the design by default."),
    seeds: int = Option(4, min=1, help="Splits."),
    jobs: int = Option(2, min=1, help="Processes."),
) -> None:
    """Print what judging adds to `hedged`, by the temperature of the belief."""
    plans = {"hedged": recipe("hedged")}
    plans |= {f"judged, T = {t:g}": Judged(temperature=t) for t in (1.0, 2.0)}
    names = list(names or DESIGN)
    found = {
        (name, seed): Parallel(jobs)(delayed(accuracy)(name, seed, plan) for plan in plans.values())
        for name, seed in tracked(
            [(name, seed) for name in names for seed in range(seeds)], "sessions"
        )
    }
    print("| | area less that of hedged | p | final accuracy less its | better on |")
    print("|---|---|---|---|---|")
    every = np.array([[found[name, seed] for seed in range(seeds)] for name in names]).mean(axis=1)
    for k, plan in enumerate(plans):
        if k:
            area, final = (every[:, k] - every[:, 0]).T
            gain, low, high = bootstrap(area)
            p, won = signed_rank(area), f"{(area > 0).sum()} of {len(names)}"
            print(
                f"| {plan} | {gain:+.4f} [{low:+.4f}, {high:+.4f}] | {p:.2f} | {final.mean():+.4f} | {won} |"
            )


if __name__ == "__main__":
    typer.run(main)

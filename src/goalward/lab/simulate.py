"""Strategies compared on the same splits, in parallel and resumable."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar

import cloudpickle
import numpy as np
import polars as pl

from goalward.core.arguments import check_count, in_place
from goalward.errors import BadParameter, VacuousUtility
from goalward.goals import DevLoss, Entropy, Fisher
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, as_dataset
from goalward.lab.parallel import Tell, resumed
from goalward.lab.session import Session, measure
from goalward.strategies import Recipe, Strategy, recipe

Plans = Mapping[str, Any] | Sequence[str | Recipe | Strategy]  # by name, or a list
RECORD = 3  # raised when sessions on disk must be played again


@dataclass(frozen=True)
class Measured:
    """Measurements of a round.

    Labels are counted as bought (`queries`), with the initial ones, and with dev labels used. `goal` is the
    strategy's own (NaN without one), beside the paper's. `utility` has the minimum, the quartiles and the
    maximum of the free rows' scores.
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


def rounds(session: Session) -> Iterator[Measured]:
    """Yield the rounds of a session, measured."""
    dataset, split, chooser = session.dataset, session.split, session.chooser
    uses_dev = "dev" in session.strategy.needs and chooser.labels_held > 0
    goals = {
        "goal_dev": DevLoss(dataset.X[split.dev], dataset.y[split.dev]),
        "goal_entropy": Entropy(session.X_pool),
        "goal_fisher": Fisher(session.X_pool),
    }
    for number, step in enumerate(session.steps()):
        known = np.concatenate([split.init, step.spent])
        # Labels that a ready-made strategy brings along are charged in full.
        extra = len(np.setdiff1d(split.dev, known)) if uses_dev else chooser.labels_held
        summary = [float("nan")] * 5
        if step.suggestion is not None:
            free = step.suggestion.utility[~np.isin(split.pool, step.spent)]
            # A subsampled strategy leaves the rows it has not looked at without a score.
            summary = np.quantile(free[~np.isnan(free)], [0, 0.25, 0.5, 0.75, 1]).tolist()
        accuracy, log_loss, _ = measure(step.model, dataset, split.test)
        yield Measured(
            round=number,
            queries=len(step.spent),
            labels=len(known),
            labels_with_dev=len(known) + extra,
            accuracy=accuracy,
            log_loss=log_loss,
            goal=chooser.progress(step.model),
            **{name: goal.value(step.model) for name, goal in goals.items()},
            rows=step.rows,
            utility=summary,
            seconds=step.fitting + step.choosing,
        )


def simulate(
    dataset: Dataset | str | tuple[Any, Any],
    strategies: Plans,
    *,
    batch: int = 10,
    budget: int = 400,
    seeds: int = 10,
    out: Path | str | None = None,
    n_jobs: int | None = None,
    progress: Tell = True,
) -> Curves:
    """Return learning curves of `strategies`, each played on the same splits.

    Parameters
    ----------
    dataset, strategies
        A dataset, its name or (X, y); name -> recipe or strategy, or a list of recipes. A strategy that
        needs a split's dev rows is a function: `lambda dev, pool: gw.GoalOriented(gw.goals.DevLoss(*dev))`.
    batch, budget, seeds
        Rows per round, labels bought in all, and the number of splits.
    out, n_jobs, progress
        Folder from which a killed run resumes; processes (None is all cores); a bar, or f(done, total).
    """
    for name, value in {"batch": batch, "budget": budget, "seeds": seeds}.items():
        check_count(name, value)
    data, plans = as_dataset(dataset), as_plans(strategies)
    size = min(budget, *(len(data.split(seed).pool) for seed in range(seeds)))
    # Reprs hide data: two strategies of one name may differ.
    marks = {name: sha256(cloudpickle.dumps(plan)).hexdigest() for name, plan in plans.items()}
    task = [RECORD, data.name, data.fingerprint]
    sessions, keys = {}, {}
    for seed in range(seeds):
        for name, plan in plans.items():
            facts = [*task, repr(plan), marks[name], seed, batch, size]
            keys[name, seed] = key = sha256(json.dumps(facts).encode()).hexdigest()[:16]
            sessions[key] = Session(data, plan, seed, batch, size)
    path = None if out is None else Path(out) / "sessions.jsonl"
    done = resumed(_play, sessions, path, n_jobs=n_jobs, progress=progress, name=data.name)
    lines = [
        {"dataset": data.name, "strategy": name, "seed": seed} | line
        for (name, seed), key in keys.items()
        for line in done[key]["rounds"]
    ]
    curves = Curves(pl.DataFrame(lines, infer_schema_length=None))
    if out is not None:
        curves.save(Path(out))
    return curves


def _play(session: Session) -> dict[str, Any]:
    with warnings.catch_warnings():
        # A comparison may include the vacuous operator on purpose.
        warnings.simplefilter("ignore", VacuousUtility)
        # A copy, so that its cached pool is not kept for the other sessions.
        return {"rounds": [asdict(measured) for measured in rounds(replace(session))]}


def as_plans(strategies: Plans) -> dict[str, Recipe | Strategy]:
    """Return strategies by name, texts as recipes."""
    if not isinstance(strategies, Mapping):
        strategies = {str(strategy): strategy for strategy in strategies}
    if not strategies:
        raise BadParameter("strategies must name at least 1, got none. Name 'random', say.")
    plans: dict[str, Any] = {
        name: recipe(plan) if isinstance(plan, str) else plan for name, plan in strategies.items()
    }
    for name, plan in plans.items():
        if isinstance(plan, FunctionType):
            plans[name] = PerSplit(plan)
        else:
            in_place(plan, f"The strategy {name!r}", "'margin' or gw.strategies.Margin()", "build")
    return plans


@dataclass(frozen=True)
class PerSplit:
    """A strategy that a function makes of each split's dev rows (X, y) and its pool."""

    make: Callable[[Any, Any], Strategy]
    needs: ClassVar[frozenset[str]] = frozenset({"dev", "pool"})

    def build(self, *, dev: Any, pool: Any, **unused: Any) -> Strategy:
        return self.make(dev, pool)

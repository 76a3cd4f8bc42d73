"""Strategies compared on the same splits, in parallel and resumable."""

from __future__ import annotations

import tempfile
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

from goalward.core.arguments import in_place
from goalward.errors import BadInput, BadParameter, VacuousUtility
from goalward.goals import DevLoss, Entropy, Fisher
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, as_dataset
from goalward.lab.parallel import Records, Tell, finished, progress_bar
from goalward.lab.session import Session, measure
from goalward.strategies import Recipe, Strategy, recipe

Plans = Mapping[str, Any] | Sequence[str | Recipe | Strategy]
"""Name -> recipe or strategy; or a list of them, which name themselves."""


@dataclass(frozen=True)
class Measured:
    """A round of a session as numbers: how good the model is, and what is asked next.

    Parameters
    ----------
    queries
        Labels bought from the pool so far.
    labels
        All labels known to the model: the initial ones and the queries.
    labels_with_dev
        The same, with the dev labels charged if the strategy uses them (one that was queried counts
        once).
    goal
        The strategy's goal at this model; NaN for strategies without one.
    goal_dev, goal_entropy, goal_fisher
        The paper's goals at this model, of the dev rows and of the initial pool.
    rows
        Rows asked in this round, as positions in the dataset; empty in the last.
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


def rounds(session: Session, asked: Sequence[Sequence[int]] = ()) -> Iterator[Measured]:
    """Yield the rounds of a session, measured; `asked` as in `Session.steps`."""
    dataset, split, chooser = session.dataset, session.split, session.chooser
    uses_dev = "dev" in session.strategy.needs and chooser.labels_held > 0
    goals = {
        "goal_dev": DevLoss(dataset.X[split.dev], dataset.y[split.dev]),
        "goal_entropy": Entropy(session.X_pool),
        "goal_fisher": Fisher(session.X_pool),
    }
    for number, step in enumerate(session.steps(asked), len(asked)):
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
    dataset
        A dataset, its name, or your own (X, y). `Dataset.under` starts without labels, adds wrong
        answers, and more.
    strategies
        Name -> recipe or strategy; or a list of recipes, which name themselves. A strategy of each
        split's dev rows is a function: `lambda dev, pool: gw.GoalOriented(gw.goals.DevLoss(*dev))`.
    batch, budget
        Rows per round, and labels bought in all.
    seeds
        Splits 0 to seeds - 1.
    out
        Folder for rounds and tables. A killed run resumes from there; without a folder nothing is
        kept.
    n_jobs
        Processes, each with one BLAS thread; None is all cores, for what takes longer than a second.
    progress
        Whether to draw a progress bar; or a function that is called with (rounds done, total).
    """
    for name, value in {"batch": batch, "budget": budget, "seeds": seeds}.items():
        if value < 1:
            raise BadParameter(f"{name} must be at least 1, got {value}. Give more.")
    data, plans = as_dataset(dataset), as_plans(strategies)
    size = min(budget, *(len(data.split(seed).pool) for seed in range(seeds)))
    # Reprs hide data: two strategies of one name may differ.
    marks = {name: sha256(cloudpickle.dumps(plan)).hexdigest()[:16] for name, plan in plans.items()}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if out is None else Path(out) / "rounds"
        folder /= f"{data.name}-{data.fingerprint}-b{batch}"
        jobs = [
            Job(name, Session(data, plan, seed, batch, size), f"{plan!r} {marks[name]}", folder)
            for seed in range(seeds)
            for name, plan in plans.items()
        ]
        total = len(jobs) * (-(-size // batch) + 1)
        with progress_bar(progress, total, data.name, "rounds") as tell:
            on_disk = lambda: tell(sum(max(0, len(job.records) - 1) for job in jobs))
            for _ in finished(Job.play, jobs, n_jobs, on_disk):
                pass
        lines = [line for job in jobs for line in job.rounds()]
    curves = Curves(pl.DataFrame(lines, infer_schema_length=None))
    if out is not None:
        curves.save(Path(out))
    return curves


@dataclass(frozen=True)
class Job:
    """A session of a simulation, and the folder of the file that its rounds are kept in."""

    name: str
    session: Session
    mark: str
    folder: Path

    @property
    def records(self) -> Records:
        """The rounds on disk; apart for a budget that does not end with a full batch."""
        size, batch = self.session.budget, self.session.batch
        digest = sha256(self.name.encode()).hexdigest()[:6]
        plain = "".join(c if c.isalnum() else "-" for c in self.name)[:60]
        odd = f"-budget{size}" if size % batch else ""
        return Records(self.folder / f"{plain}-{digest}-seed{self.session.seed}{odd}.jsonl")

    def play(self) -> None:
        """Play the session to its budget, from where its file ends; each round is on disk."""
        # A copy: what it prepares of the pool is not kept for the other sessions.
        session, store = replace(self.session), self.records
        # What must agree for rounds to be taken over.
        header = {
            "session": 2,
            "dataset": session.dataset.name,
            "fingerprint": session.dataset.fingerprint,
            "strategy": self.mark,
            "seed": session.seed,
            "batch": session.batch,
        }
        first, *played = list(store) or [header]
        if first != header:
            raise BadInput(
                f"{store.path} must hold the session {header}, got {first}. Choose another output folder, "
                "or another name for the strategy."
            )
        played = [line for i, line in enumerate(played) if line["round"] == i]
        if any(line["queries"] == session.budget for line in played):
            return
        # The last round of a smaller budget asked for nothing: it is played again.
        kept = [line for line in played if line["rows"]]
        store.restart([header, *kept])
        with store.appending() as keep, warnings.catch_warnings():
            # A comparison may include the vacuous operator on purpose.
            warnings.simplefilter("ignore", VacuousUtility)
            for measured in rounds(session, [line["rows"] for line in kept]):
                keep(asdict(measured))

    def rounds(self) -> list[dict[str, Any]]:
        """Return the rounds up to the budget, where a longer run may have gone on."""
        lines = [line for line in list(self.records)[1:] if line["queries"] <= self.session.budget]
        lines[-1] |= {"rows": [], "utility": [float("nan")] * 5}
        data, seed = self.session.dataset.name, self.session.seed
        return [{"dataset": data, "strategy": self.name, "seed": seed} | line for line in lines]


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
        """Return the strategy of a split."""
        return self.make(dev, pool)

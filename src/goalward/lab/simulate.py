"""Strategies compared on the same splits, in parallel and resumable."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Unpack

import cloudpickle
import numpy as np
import polars as pl

from goalward.core.place import in_place
from goalward.core.whole_file import whole_file
from goalward.errors import BadInput, BadParameter, VacuousUtility
from goalward.goals import DevLoss, Entropy, Fisher
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, as_dataset
from goalward.lab.parallel import Records, Running, Tell, finished, telling
from goalward.lab.session import Session, measure
from goalward.strategies import Recipe, Strategy, recipe

__all__ = ["Comparison", "Measured", "Plans", "as_plans", "rounds", "simulate"]

Plans = Mapping[str, str | Recipe | Strategy] | Sequence[str | Recipe | Strategy]
"""Name -> recipe or strategy; or a list of them, which name themselves."""


@dataclass(frozen=True)
class Measured:
    """Where a session stands after a fit, and what it asks next, as numbers.

    Parameters
    ----------
    queries
        Labels bought from the pool so far.
    labels
        All labels known to the model: the initial ones and the queries.
    labels_with_dev
        The same, with the dev labels charged if the strategy uses them (a dev row that
        was queried counts once).
    goal
        The strategy's goal at this model; NaN for strategies without one.
    goal_dev, goal_entropy, goal_fisher
        The paper's goals at this model, for every strategy: of the dev rows, and of the initial
        pool.
    rows
        What was asked in this round, as positions in the dataset; empty in the last.
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
        values = dict.fromkeys(("goal", *goals), float("nan"))
        if step.model is not None:
            values = {name: goal.value(step.model) for name, goal in goals.items()}
            values["goal"] = chooser.progress(step.model)
        accuracy, log_loss, _ = measure(step.model, dataset, split.test)
        yield Measured(
            round=number,
            queries=len(step.spent),
            labels=len(known),
            labels_with_dev=len(known) + extra,
            accuracy=accuracy,
            log_loss=log_loss,
            **values,
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
    **running: Unpack[Running],
) -> Curves:
    """Return learning curves of `strategies`, each played on the same splits.

    Parameters
    ----------
    dataset
        A dataset, its name, or your own (X, y); `Dataset.under` gives no label to start from, wrong answers, and more.
    strategies
        Name -> recipe or strategy; or a list of recipes, which name themselves. A strategy of each
        split's dev rows: `gw.GoalOriented(goal=lambda dev, pool: gw.goals.DevLoss(*dev))`.
    batch, budget
        Rows per round, and labels bought in all.
    seeds
        Splits 0 to seeds - 1.
    running
        `out`, `n_jobs` and `progress`: see `parallel.Running`.
    """
    play = Comparison(as_dataset(dataset), batch, budget, seeds)
    return play(as_plans(strategies), **running)


Job = tuple[str, Recipe | Strategy, int, str]
"""Name, strategy, seed, and what tells the strategy from others of its name: reprs hide its data."""


@dataclass(frozen=True)
class Comparison:
    """What the sessions of a simulation share; called, it plays strategies by name."""

    dataset: Dataset
    batch: int
    budget: int
    seeds: int

    def __post_init__(self) -> None:
        for name in ("batch", "budget", "seeds"):
            value = getattr(self, name)
            if value < 1:
                raise BadParameter(f"{name}={value}; at least 1 was expected. Give more.")

    @cached_property
    def size(self) -> int:
        """The labels bought: the budget, or what the smallest pool has."""
        pools = [len(self.dataset.split(seed).pool) for seed in range(self.seeds)]
        return min(self.budget, *pools)

    @property
    def place(self) -> str:
        """A name of its own for other data or batches: those are other sessions."""
        return f"{self.dataset.name}-{self.dataset.fingerprint}-b{self.batch}"

    def __call__(
        self,
        plans: Mapping[str, Recipe | Strategy],
        *,
        out: Path | str | None = None,
        n_jobs: int | None = None,
        progress: Tell = True,
        kept: pl.DataFrame | None = None,
    ) -> Curves:
        """Return the curves, those that were `kept` of an earlier run before them.

        What is under `out` stays until all of the new ones can take its place.
        """
        marks = {
            name: f"{plan!r} {sha256(cloudpickle.dumps(plan)).hexdigest()[:16]}"
            for name, plan in plans.items()
        }
        seeds = range(self.seeds)
        jobs = [(name, plan, seed, marks[name]) for seed in seeds for name, plan in plans.items()]
        total = len(jobs) * (-(-self.size // self.batch) + 1)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) if out is None else Path(out) / "rounds" / self.place
            stores = [self.records(folder, job) for job in jobs]
            with telling(progress, total, self.dataset.name, "rounds") as tell:
                on_disk = lambda: tell(sum(max(0, len(store) - 1) for store in stores))
                for _ in finished(partial(self.play, folder), jobs, n_jobs, on_disk):
                    pass
            lines = [
                {"dataset": self.dataset.name, "strategy": job[0], "seed": job[2]} | line
                for job, store in zip(jobs, stores, strict=True)
                for line in self._ended(list(store)[1:])
            ]
        played = pl.DataFrame(lines, infer_schema_length=None)
        curves = Curves(played if kept is None else pl.concat([kept, played]))
        if out is not None:
            curves.save(Path(out))
            with whole_file(Path(out) / "simulation.json", force=True) as path:
                path.write_text(json.dumps({"batch": self.batch, "rounds": self.place}))
        return curves

    def records(self, folder: Path, job: Job) -> Records:
        """Return where rounds are kept; apart for a budget that does not end with a full batch."""
        name, _, seed, _ = job
        digest = sha256(name.encode()).hexdigest()[:6]
        plain = "".join(c if c.isalnum() else "-" for c in name)[:60]
        odd = f"-budget{self.size}" if self.size % self.batch else ""
        return Records(folder / f"{plain}-{digest}-seed{seed}{odd}.jsonl")

    def play(self, folder: Path, job: Job) -> None:
        """Play a session to its budget, from where its file ends; each round is on disk."""
        _, plan, seed, mark = job
        store = self.records(folder, job)
        # What must agree for rounds to be taken over.
        header = {
            "session": 2,
            "dataset": self.dataset.name,
            "fingerprint": self.dataset.fingerprint,
            "strategy": mark,
            "seed": seed,
            "batch": self.batch,
        }
        first, *played = list(store) or [header]
        if first != header:
            raise BadInput(
                f"{store.path} holds the session {first}; {header} was expected. Choose another "
                "output folder, or another name for the strategy."
            )
        played = [line for i, line in enumerate(played) if line["round"] == i]
        if any(line["queries"] == self.size for line in played):
            return
        # The last round of a smaller budget asked for nothing: it is played again.
        kept = [line for line in played if line["rows"]]
        store.restart([header, *kept])
        session = Session(self.dataset, plan, seed, self.batch, self.size)
        with store.appending() as keep, warnings.catch_warnings():
            # A comparison may include the vacuous operator on purpose.
            warnings.simplefilter("ignore", VacuousUtility)
            for one in rounds(session, [line["rows"] for line in kept]):
                keep(asdict(one))

    def _ended(self, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rounds up to the budget, where a longer run may have gone on."""
        mine = [line for line in lines if line["queries"] <= self.size]
        return [*mine[:-1], mine[-1] | {"rows": [], "utility": [float("nan")] * 5}]


def as_plans(strategies: Plans) -> dict[str, Recipe | Strategy]:
    """Return strategies by name, texts as recipes."""
    if not isinstance(strategies, Mapping):
        strategies = {str(one): one for one in strategies}
    if not strategies:
        raise BadParameter("No strategy was named; at least 1 was expected. Name 'random', say.")
    for name, one in strategies.items():
        if not isinstance(one, str):
            in_place(one, f"The strategy {name!r}", "'margin' or gw.strategies.Margin()", "build")
    return {n: recipe(s) if isinstance(s, str) else s for n, s in strategies.items()}

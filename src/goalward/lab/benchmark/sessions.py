"""The sessions of the benchmark: which strategies, on which data, by which rules."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import PowerTransformer

from goalward.core.arguments import check_count
from goalward.errors import BadParameter
from goalward.lab.benchmark.areas import Areas
from goalward.lab.datasets import Dataset, Split, as_dataset, load
from goalward.lab.datasets.load import CONFIRM, DESIGN, FACTORS
from goalward.lab.parallel import Tell, resumed
from goalward.lab.session import Session, measure
from goalward.lab.statistics import height
from goalward.models.logistic import Logistic
from goalward.strategies import recipe
from goalward.strategies.recipes import RECOMMENDED

MADE_BY = (3, version("goalward"))  # sessions on disk made by another are played again


@dataclass(frozen=True)
class Protocol:
    """Rules of a session: it starts without labels, and every label is charged.

    `budget` is at most half of the pool, `batch` half of the budget; `noise` is the share of wrong answers.
    The learner is the dataset's own ("fixed"), has its C chosen at each fit, on transformed columns
    ("chosen"), or is that of new studies ("features"). `pool` and `test` are the most rows of each.
    """

    name: str = "full"
    budget: int = 200
    batch: int = 10
    noise: float = 0.0
    learner: str = "fixed"
    pool: int = 2000
    test: int = 2000

    def __post_init__(self) -> None:
        for name in ("budget", "batch", "pool", "test"):
            check_count(name, getattr(self, name))
        if self.learner not in ("fixed", "chosen", "features"):
            raise BadParameter(
                f"learner must be 'fixed', 'chosen' or 'features', got {self.learner!r}."
            )

    def sizes(self, n_pool: int) -> tuple[int, int]:
        budget = min(self.budget, n_pool // 2)
        batch = min(self.batch, budget // 2)
        if batch < 1:
            raise BadParameter(
                f"The budget must be two batches or more, and at most half of the pool, got {self.budget} "
                f"labels for {n_pool} rows. Raise the budget or take more rows."
            )
        return batch, budget // batch * batch

    def conditions(self, dataset: Dataset) -> Dataset:
        if self.learner == "features":
            dataset = replace(dataset, learner=Logistic(C="loo", features="auto"))
        if self.learner == "chosen":
            rows = np.random.default_rng(9).permutation(len(dataset.X))[:300]
            X = PowerTransformer().fit(dataset.X[rows]).transform(dataset.X)
            dataset = replace(dataset, X=X, learner=dataset.learner.having(C="loo"))
        return dataset.under(from_nothing=True, noise=self.noise)

    def split(self, dataset: Dataset, seed: int) -> Split:
        whole = dataset.split(seed)
        rng = np.random.default_rng([seed, 8])
        pool = np.sort(rng.permutation(whole.pool)[: self.pool])
        test = np.sort(rng.permutation(whole.test)[: self.test])
        return Split(whole.init, pool, test, whole.dev[:0])

    def area(self, curves: NDArray[Any]) -> NDArray[Any]:
        return height(curves)


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(),
        Protocol("budget-50", budget=50),
        Protocol("budget-1000", budget=1000),
        Protocol("batch-1", batch=1),
        Protocol("batch-50", batch=50),
        Protocol("flipped-10", noise=0.1),
        Protocol("flipped-20", noise=0.2),
        Protocol("second-learner", learner="chosen"),
    )
}

RIVALS = (RECOMMENDED, "coverage", "margin", "badge", "random")  # for runs that change one setting
STRATEGIES = (  # `coverage` is Uncertainty Herding
    *(*RIVALS, "bait", "bait-backward", "decision-risk", "max-herding", "refine", "typiclust"),
    *("tcm", "core-set", "entropy", "epig", "bald"),
)
ORACLE = "boss"


class Job(NamedTuple):
    """One session."""

    protocol: Protocol
    dataset: str | Dataset
    strategy: str
    seed: int

    def names(self) -> dict[str, str]:
        name = self.dataset if isinstance(self.dataset, str) else self.dataset.name
        return {"protocol": self.protocol.name, "dataset": name, "strategy": self.strategy}

    def key(self) -> str:
        """Return a digest of everything that affects the result."""
        rules = asdict(self.protocol) | {"name": type(self.protocol).__name__}
        facts = [MADE_BY, mark_of(self.dataset), str(recipe(self.strategy)), self.seed, rules]
        return sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def play(self) -> dict[str, Any]:
        """Return the session's line of results; strategies without a score on some data may take part."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            task = task_of(self.dataset, self.protocol)
            return play(task, self.strategy, self.seed, self.protocol)


_mark = cache(lambda name: load(name).fingerprint)
_task = cache(lambda name, protocol: protocol.conditions(load(name)))


def mark_of(data: str | Dataset) -> str:
    """Return the fingerprint of a dataset; one by its name is loaded once."""
    return _mark(data) if isinstance(data, str) else data.fingerprint


def task_of(data: str | Dataset, protocol: Protocol) -> Dataset:
    """Return a dataset under the conditions of a protocol."""
    make = _task if isinstance(data, str) else lambda data, rules: rules.conditions(data)
    task: Dataset = make(data, protocol)
    return task


def play(task: Dataset, strategy: str, seed: int, protocol: Protocol) -> dict[str, Any]:
    """Return the result of one session on a dataset under the protocol's conditions: a line of `Areas`."""
    split = protocol.split(task, seed)
    batch, budget = protocol.sizes(len(split.pool))
    session = Session(task, recipe(strategy), seed, batch, budget, split)
    steps = list(session.steps())
    curves = np.array([measure(step.model, task, split.test) for step in steps])
    areas = protocol.area(curves.T)
    line = {"accuracy": areas[0], "final": curves[-1, 0], "balanced": areas[2]}
    return {
        "protocol": protocol.name,
        "dataset": task.name,
        "strategy": strategy,
        "seed": seed,
        **{name: round(float(value), 4) for name, value in line.items()},
        "log_loss": round(float(areas[1]), 3),
        "seconds": float(f"{sum(step.choosing for step in steps):.2g}"),
        "curve": [round(float(right), 3) for right in curves[:, 0]],
    }


@dataclass(frozen=True)
class Part:
    """Some strategies on some data under some protocols."""

    datasets: Sequence[str | Dataset]
    strategies: Sequence[str] = STRATEGIES
    protocols: Sequence[Protocol] = (PROTOCOLS["full"],)
    seeds: int = 4

    def jobs(self) -> list[Job]:
        """Return its sessions, each once, seed by seed: stopped early it has whole comparisons."""
        if not min(self.seeds, len(self.datasets), len(self.strategies)) > 0:
            raise BadParameter(
                f"A benchmark needs at least 1 dataset, strategy and seed, got {len(self.datasets)} datasets, "
                f"{len(self.strategies)} strategies and {self.seeds} seeds. Name more."
            )
        for name in self.strategies:
            if "dev" in recipe(name).needs:
                raise BadParameter(
                    f"Strategies of the benchmark must not need dev labels, and {name!r} does. Use `goalward "
                    "simulate`, which charges them."
                )
        own = [data for data in self.datasets if not isinstance(data, str)]
        names = [data if isinstance(data, str) else data.name for data in self.datasets]
        if twice := [data.name for data in own if names.count(data.name) > 1]:
            raise BadParameter(
                f"Each dataset needs a name of its own, and two are called {twice[0]!r}. Use "
                "gw.lab.datasets.from_arrays(X, y, name='mine')."
            )
        jobs = [
            Job(protocol, dataset, strategy, seed)
            for seed in range(self.seeds)
            for protocol in self.protocols
            for dataset in self.datasets
            for strategy in self.strategies
        ]
        return list(dict.fromkeys(jobs))


FACTOR_NAMES = tuple(PROTOCOLS)[1:]
PARTS = {
    "design": Part(DESIGN),
    "confirm": Part(CONFIRM),
    "factors": Part(FACTORS, RIVALS, [PROTOCOLS[name] for name in FACTOR_NAMES], seeds=2),
    # The oracle is slow; the sessions of the others are those of the main run.
    "ceiling": Part(FACTORS, (*RIVALS, ORACLE), [Protocol("ceiling")], seeds=2),
    # The model of new studies.
    "features": Part(CONFIRM, protocols=[Protocol("features", learner="features")]),
    "quick": Part(
        DESIGN[::2], (*STRATEGIES, ORACLE), [Protocol(budget=100, pool=1000, test=1000)], seeds=2
    ),
}
"""Parts by name. The sets of "confirm" are kept back until a recipe is fixed."""
FULL = ("design", "confirm", "factors", "ceiling")  # the parts of a full run


def benchmark(
    datasets: Sequence[str | Dataset | tuple[Any, Any]],
    strategies: Sequence[str],
    *,
    seeds: int = 5,
    protocol: Protocol | None = None,
    out: Path | str | None = None,
    n_jobs: int | None = None,
    progress: Tell = True,
) -> Areas:
    """Return the areas under the curves of every strategy on every dataset and seed.

    Datasets are names for `lab.datasets.load`, (X, y) or `from_arrays(X, y, name="mine")`; the other
    arguments are those of `play_all`.
    """
    tasks = [data if isinstance(data, str) else as_dataset(data) for data in datasets]
    part = Part(tasks, strategies, (protocol or Protocol(),), seeds)
    return play_all(part.jobs(), out=out, n_jobs=n_jobs, progress=progress)


def play_all(
    jobs: Sequence[Job],
    *,
    out: Path | str | None = None,
    n_jobs: int | None = None,
    progress: Tell = True,
) -> Areas:
    """Return the areas of all sessions; a killed run resumes from the finished sessions in `out`.

    `n_jobs` None is all cores; `progress` draws a bar, or is called with (sessions done, total).
    """
    # Protocols that differ in name alone share their sessions.
    keys = {job: job.key() for job in jobs}
    path = None if out is None else Path(out) / "sessions.jsonl"
    sessions = {key: job for job, key in keys.items()}
    done = resumed(Job.play, sessions, path, n_jobs=n_jobs, progress=progress)
    # The line on disk may be of a protocol, dataset or strategy of another name.
    areas = Areas.of([done[key] | job.names() for job, key in keys.items()])
    if out is not None:
        areas.save(Path(out))
    return areas

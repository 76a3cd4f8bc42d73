"""Sessions of the benchmark: each policy spends a budget of labels, dev labels among them.

Everyone starts with the same few labels and may buy the same number. A strategy that wants dev
labels buys them first, at random; from then on they steer it. They train the deployed model too,
since they are paid for. So all curves are over labels bought, and nothing is free.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from goalward.errors import BadParameter
from goalward.lab.benchmark.areas import Areas
from goalward.lab.benchmark.entries import DATASETS, ENTRIES, Entry
from goalward.lab.datasets import Dataset, Split, load
from goalward.lab.parallel import Tell, finished, telling
from goalward.lab.session import Session, measure
from goalward.lab.store import Records
from goalward.strategies import recipe

__all__ = ["Protocol", "benchmark", "play"]

VERSION = 1
"""Counted up when a session would give other numbers: kept ones are then played again, as they are
by another version of goalward."""


@dataclass(frozen=True)
class Protocol:
    """How a session is played.

    Parameters
    ----------
    budget
        Labels bought, dev labels included; at most two fifths of the pool.
    batch
        Labels per round; half of it where the budget is below 100.
    dev
        Share of the budget that goes to dev labels, where a strategy wants them.
    pool, test
        At most so many rows, drawn by the seed, may be asked for and measure.
    """

    budget: int = 200
    batch: int = 10
    dev: float = 0.25
    pool: int = 2000
    test: int = 2000

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name != "dev" and value < 1:
                raise BadParameter(f"{name}={value}; at least 1 was expected. Give more.")
        if not 0.0 < self.dev < 1.0:
            raise BadParameter(f"dev={self.dev}; a share between 0 and 1 was expected. Use 0.25.")

    def sizes(self, n_pool: int) -> tuple[int, int, int]:
        """Return batch, budget and dev labels for a pool, whole batches all."""
        budget = min(self.budget, int(0.4 * n_pool))
        batch = self.batch if budget >= 100 else max(1, self.batch // 2)
        rounds = budget // batch
        if rounds < 2:
            raise BadParameter(
                f"A budget of {budget} labels of a pool of {n_pool} rows came; two batches of {batch} were "
                "expected, one of which may go to dev labels. Raise the budget or lower the batch."
            )
        # One batch of dev labels at least, and one of queries.
        dev = min(max(1, round(self.dev * rounds)), rounds - 1)
        return batch, rounds * batch, dev * batch

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Return the rows of a seed; its dev rows are in the order in which they are bought."""
        whole = dataset.split(seed)
        rng = np.random.default_rng([seed, 8])
        pool = np.sort(rng.permutation(whole.pool)[: self.pool])
        test = np.sort(rng.permutation(whole.test)[: self.test])
        dev = rng.permutation(pool)[: self.sizes(len(pool))[2]]
        return Split(whole.init, pool, test, dev)

    def key(self, dataset: Dataset, entry: Entry, seed: int) -> str:
        """Return what tells a session from all others."""
        made_by = [VERSION, version("goalward")]
        facts = [made_by, dataset.fingerprint, asdict(entry), seed, asdict(self)]
        return sha256(json.dumps(facts).encode()).hexdigest()[:16]


def play(dataset: Dataset, entry: Entry, seed: int, protocol: Protocol) -> dict[str, Any]:
    """Return the curves of one session, by labels bought, and what was paid for.

    `accuracy` and `log_loss` are those of the model trained on all labels bought. For a strategy
    that is steered by dev labels `apart` has them for the model that never trains on these, by
    queries: the paper's view, in which dev labels are free.
    """
    split = protocol.split(dataset, seed)
    batch, budget, n_dev = protocol.sizes(len(split.pool))
    session = Session(dataset, recipe(entry.recipe), seed, batch, budget, split, entry.dev)
    steps = list(session.steps())
    models: dict[str, list[Any]] = {"": [step.model for step in steps], "apart_": []}
    if entry.dev == "goal":
        models["apart_"] = [step.looked_at for step in steps if step.looked_at is not None]
    curves: dict[str, list[float]] = {}
    for prefix, fitted in models.items():
        measured = [measure(model, dataset, split.test) for model in fitted]
        curves[f"{prefix}accuracy"] = [round(accuracy, 6) for accuracy, _ in measured]
        curves[f"{prefix}log_loss"] = [round(loss, 6) for _, loss in measured]
    return {
        "key": protocol.key(dataset, entry, seed),
        "dataset": dataset.name,
        "strategy": entry.name,
        "seed": seed,
        "batch": batch,
        "dev": n_dev,
        "dev_paid": 0 if entry.dev == "none" else n_dev,
        **curves,
        "seconds": round(sum(step.choosing for step in steps), 4),
    }


def benchmark(
    datasets: Sequence[str] = DATASETS,
    entries: Sequence[Entry] = ENTRIES,
    *,
    seeds: int = 10,
    protocol: Protocol | None = None,
    out: Path | str | None = None,
    n_jobs: int | None = None,
    progress: Tell = True,
) -> Areas:
    """Return the areas under the curves of every entry on every dataset and seed.

    Parameters
    ----------
    datasets
        Names, as `lab.datasets.load` takes them.
    seeds
        Paired splits 0 to seeds - 1.
    out
        Folder: each finished session is a line of its `sessions.jsonl`, so a killed run goes on
        where it was and loses the sessions in flight. Without one nothing is kept.
    n_jobs
        Processes, each with one BLAS thread; None is all cores.
    progress
        Whether to draw a progress bar; or a function that is told (sessions done, of all).
    """
    protocol = protocol or Protocol()
    if seeds < 1 or not datasets or not entries:
        raise BadParameter(
            f"{len(datasets)} datasets, {len(entries)} strategies and {seeds} seeds came; at least 1 "
            "of each was expected. Name more."
        )
    datasets, entries = list(dict.fromkeys(datasets)), list(dict.fromkeys(entries))
    # Seed by seed: a run that is stopped early has whole comparisons.
    jobs = [(name, entry, seed) for seed in range(seeds) for name in datasets for entry in entries]
    keys = {job: protocol.key(_dataset(job[0]), *job[1:]) for job in jobs}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch if out is None else out)
        store = Records(folder / "sessions.jsonl")
        wanted = set(keys.values())
        done = {line["key"]: line for line in store if str(line.get("key")) in wanted}
        missing = [job for job in jobs if keys[job] not in done]
        before = len(jobs) - len(missing)
        with (
            store.appending() as keep,
            telling(progress, len(jobs), "benchmark", "sessions", before) as tell,
        ):
            played = finished(partial(_session, protocol), missing, n_jobs)
            for count, line in enumerate(played, before + 1):
                keep(line)
                done[line["key"]] = line
                tell(count)
    areas = Areas.of([done[keys[job]] for job in jobs])
    if out is not None:
        areas.save(folder)
    return areas


def _session(protocol: Protocol, job: tuple[str, Entry, int]) -> dict[str, Any]:
    name, entry, seed = job
    with warnings.catch_warnings():
        # A comparison may hold operators that say nothing on some data: they score as they do.
        warnings.simplefilter("ignore")
        return play(_dataset(name), entry, seed, protocol)


@cache
def _dataset(name: str) -> Dataset:
    return load(name)

"""Sessions of the benchmark: each strategy spends the same budget of labels, from none at all."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from goalward.lab.benchmark.areas import Areas
from goalward.lab.benchmark.plan import Job, Part, Protocol
from goalward.lab.datasets import Dataset, as_dataset, load
from goalward.lab.parallel import Records, Tell, finished, telling
from goalward.lab.session import Session, measure
from goalward.strategies import recipe

__all__ = ["benchmark", "key_of", "play", "play_all"]

MADE_BY = (3, version("goalward"))
"""The number is counted up when a session would give other numbers: kept ones are then played again,
as they are by another version of goalward."""


def play(task: Dataset, strategy: str, seed: int, protocol: Protocol) -> dict[str, Any]:
    """Return what one session came to: a line of `Areas`.

    Areas are mean heights of the curves over labels bought, from none on.

    Parameters
    ----------
    task
        A dataset under the protocol's conditions.
    """
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


def benchmark(
    datasets: Sequence[str | Dataset | tuple[Any, Any]],
    strategies: Sequence[str],
    *,
    seeds: int = 5,
    protocol: Protocol | None = None,
    **running: Any,
) -> Areas:
    """Return the areas under the curves of every strategy on every dataset and seed.

    Parameters
    ----------
    datasets
        Names, as `lab.datasets.load` takes them, or your own (X, y). Several of your own have names:
        `lab.datasets.from_arrays(X, y, name="mine")`.
    strategies
        Recipes, as `gw.recipe` takes them.
    seeds
        Paired splits 0 to seeds - 1.
    running
        As in `play_all`.
    """
    tasks = [one if isinstance(one, str) else as_dataset(one) for one in datasets]
    part = Part(tasks, strategies, (protocol or Protocol(),), seeds)
    return play_all(part.jobs(), **running)


def play_all(
    jobs: Sequence[Job],
    *,
    out: Path | str | None = None,
    n_jobs: int | None = None,
    progress: Tell = True,
) -> Areas:
    """Return the areas of all sessions.

    Parameters
    ----------
    out
        Folder: each finished session is a line of its `sessions.jsonl`, so a killed run goes on
        where it was and loses the sessions in flight. Without one nothing is kept.
    n_jobs
        Processes, each with one BLAS thread; None is all cores.
    progress
        Whether to draw a progress bar; or a function that is told (sessions done, of all).
    """
    keys = {job: key_of(job) for job in jobs}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch if out is None else out)
        store = Records(folder / "sessions.jsonl")
        wanted = set(keys.values())
        done = {line["key"]: line for line in store if str(line.get("key")) in wanted}
        # Protocols that differ in name alone share their sessions.
        missing = list({key: job for job, key in keys.items() if key not in done}.values())
        before = len(jobs) - len(missing)
        with (
            store.appending() as keep,
            telling(progress, len(jobs), "benchmark", "sessions", before) as tell,
        ):
            for count, line in enumerate(finished(_session, missing, n_jobs), before + 1):
                keep(line)
                done[line["key"]] = line
                tell(count)
    # A set's own name leaves out which vectors stand for it; a strategy may have several.
    named = [
        {"protocol": job.protocol.name, "dataset": job.name, "strategy": job.strategy}
        for job in jobs
    ]
    areas = Areas.of([done[keys[job]] | name for job, name in zip(jobs, named, strict=True)])
    if out is not None:
        areas.save(folder)
    return areas


def _session(job: Job) -> dict[str, Any]:
    with warnings.catch_warnings():
        # A comparison may hold strategies that say nothing on some data: they score as they do.
        warnings.simplefilter("ignore")
        line = play(_task(job), job.strategy, job.seed, job.protocol)
    return {"key": key_of(job), **line}


def key_of(job: Job) -> str:
    """Return what tells a session from all others."""
    rules = asdict(job.protocol) | {"name": type(job.protocol).__name__}
    data = job.dataset
    mark = _fingerprint(data) if isinstance(data, str) else data.fingerprint
    facts = [MADE_BY, mark, str(recipe(job.strategy)), job.seed, rules]
    return sha256(json.dumps(facts).encode()).hexdigest()[:16]


@cache
def _fingerprint(name: str) -> str:
    return load(name).fingerprint


@cache
def _dataset(name: str) -> Dataset:
    return load(name)


def _task(job: Job) -> Dataset:
    if isinstance(job.dataset, str):
        return _named_task(job.dataset, job.protocol)
    return job.protocol.conditions(job.dataset)


@cache
def _named_task(name: str, protocol: Protocol) -> Dataset:
    return protocol.conditions(_dataset(name))

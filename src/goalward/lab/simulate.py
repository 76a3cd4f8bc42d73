"""Strategies compared on the same splits, in parallel and resumable."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import polars as pl
from threadpoolctl import threadpool_limits

from goalward.errors import BadParameter, VacuousUtility
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, load
from goalward.lab.progress import Bar
from goalward.lab.runs import Session
from goalward.strategies import Recipe, Strategy, recipe

__all__ = ["played", "simulate"]


def simulate(
    dataset: Dataset | str,
    strategies: Mapping[str, str | Recipe | Strategy] | Sequence[str | Recipe | Strategy],
    *,
    batch: int = 10,
    budget: int = 400,
    seeds: int = 10,
    out: Path | str | None = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[int, int], None] = True,
) -> Curves:
    """Return learning curves of `strategies`, each played on the same splits.

    Parameters
    ----------
    dataset
        A dataset or its name.
    strategies
        Name -> recipe or strategy; or a list of recipes, which name themselves.
    batch, budget
        Rows per round, and labels bought in all.
    seeds
        Splits 0 to seeds - 1.
    out
        Folder for the rounds. A run that was killed goes on from there; without a folder
        nothing is kept.
    n_jobs
        Processes, each with one BLAS thread; None is all cores.
    progress
        Whether to draw a progress bar; or a function that is told (rounds done, of all).
    """
    options: dict[str, Any] = {"batch": batch, "budget": budget, "seeds": seeds}
    curves = played(dataset, strategies, **options, out=out, n_jobs=n_jobs, progress=progress)
    if out is not None:
        curves.save(Path(out))
    return curves


def played(
    dataset: Dataset | str,
    strategies: Mapping[str, str | Recipe | Strategy] | Sequence[str | Recipe | Strategy],
    *,
    batch: int,
    budget: int,
    seeds: int,
    out: Path | str | None,
    n_jobs: int | None,
    progress: bool | Callable[[int, int], None],
) -> Curves:
    """Return the curves of `simulate`; only the rounds are written, not the curves."""
    dataset = load(dataset) if isinstance(dataset, str) else dataset
    for name, value in (("batch", batch), ("budget", budget), ("seeds", seeds)):
        if value < 1:
            raise BadParameter(f"{name}={value}; at least 1 was expected. Give more.")
    if not isinstance(strategies, Mapping):
        strategies = {str(one): one for one in strategies}
    plans = {n: recipe(s) if isinstance(s, str) else s for n, s in strategies.items()}
    if not plans:
        raise BadParameter("No strategy was named; at least 1 was expected. Name 'random', say.")
    with tempfile.TemporaryDirectory() as scratch:
        # Other data or another batch size are other sessions: they have a folder of their own.
        place = f"{dataset.name}-{dataset.fingerprint}-b{batch}"
        folder = Path(out) / "rounds" / place if out is not None else Path(scratch)
        size = min([budget, *(len(dataset.split(seed).pool) for seed in range(seeds))])
        sessions = [
            Session(name, plan, seed, batch, size, folder)
            for seed in range(seeds)
            for name, plan in plans.items()
        ]
        per_session = -(-size // batch) + 1
        total = per_session * len(sessions)
        if callable(progress):
            _play(dataset, sessions, n_jobs, lambda done: progress(done, total))
        else:
            with Bar(total if progress else 0, dataset.name) as update:
                _play(dataset, sessions, n_jobs, update)
        records = [
            {"dataset": dataset.name, "strategy": s.name, "seed": s.seed} | line
            for s in sessions
            for line in s.read()
        ]
    return Curves(pl.DataFrame(records, infer_schema_length=None))


def _play(
    dataset: Dataset,
    sessions: list[Session],
    n_jobs: int | None,
    update: Callable[[int], Any],
) -> None:
    jobs = min(n_jobs or os.cpu_count() or 1, len(sessions))
    if jobs == 1:
        with threadpool_limits(limits=1):
            for session in sessions:
                _session(dataset, session)
                update(_on_disk(sessions))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_start, initargs=(dataset,)
    ) as workers:
        futures: set[Future[None]] = {workers.submit(_work, s) for s in sessions}
        try:
            while futures:
                done, futures = wait(futures, timeout=1.0, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                update(_on_disk(sessions))
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            raise


_shared: dict[str, Dataset] = {}
"""The dataset of a worker process: sent once, not with every session."""


def _start(dataset: Dataset) -> None:
    _shared["dataset"] = dataset
    threadpool_limits(limits=1)


def _work(session: Session) -> None:
    _session(_shared["dataset"], session)


def _session(dataset: Dataset, session: Session) -> None:
    with warnings.catch_warnings():
        # A comparison may include the vacuous operator on purpose.
        warnings.simplefilter("ignore", VacuousUtility)
        session.run(dataset)


def _on_disk(sessions: list[Session]) -> int:
    lines = 0
    for session in sessions:
        if session.path.exists():
            lines += max(0, session.path.read_bytes().count(b"\n") - 1)
    return lines

"""The whole benchmark: every entry on every dataset and seed, in parallel, resumable."""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from goalward.errors import BadParameter
from goalward.lab.datasets import Dataset, load
from goalward.lab.efficiency.entries import DATASETS, ENTRIES, Entry
from goalward.lab.efficiency.play import SESSION, Protocol, play
from goalward.lab.efficiency.results import Results
from goalward.lab.progress import Bar

__all__ = ["benchmark"]


def benchmark(
    datasets: Sequence[str] = DATASETS,
    entries: Sequence[Entry] = ENTRIES,
    *,
    seeds: int = 10,
    protocol: Protocol | None = None,
    out: Path | str | None = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[int, int], Any] = True,
) -> Results:
    """Return the areas under the curves of every entry on every dataset and seed.

    Parameters
    ----------
    datasets
        Names, as `bench.datasets.load` takes them.
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
    keys = {job: protocol.key(_dataset(job[0]), job[1], job[2]) for job in jobs}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch if out is None else out)
        folder.mkdir(parents=True, exist_ok=True)
        store = folder / "sessions.jsonl"
        done = {line["key"]: line for line in _lines(store)}
        missing = [job for job in jobs if keys[job] not in done]
        tell = progress if callable(progress) else None
        with (
            store.open("a") as file,
            Bar(len(jobs) if progress is True else 0, "benchmark", "sessions") as bar,
        ):
            # What a crash left of a line must not join the next one.
            file.write("\n")
            bar(len(jobs) - len(missing))
            for count, line in enumerate(_played(missing, protocol, n_jobs), 1):
                done[line["key"]] = line
                file.write(json.dumps(line) + "\n")
                file.flush()
                bar(len(jobs) - len(missing) + count)
                if tell:
                    tell(len(jobs) - len(missing) + count, len(jobs))
    results = Results.of([done[keys[job]] for job in jobs])
    if out is not None:
        results.save(folder)
    return results


def _played(
    jobs: list[tuple[str, Entry, int]], protocol: Protocol, n_jobs: int | None
) -> Iterator[dict[str, Any]]:
    """Yield sessions as they end."""
    workers = min(n_jobs or os.cpu_count() or 1, max(1, len(jobs)))
    if workers == 1:
        with threadpool_limits(limits=1):
            yield from (_session(job, protocol) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_start) as pool:
        try:
            queue = iter(jobs)
            running: set[Future[dict[str, Any]]] = set()
            while True:
                for job in queue:
                    running.add(pool.submit(_session, job, protocol))
                    if len(running) >= 2 * workers:
                        break
                if not running:
                    return
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                # What has been played is handed over before an error of another session.
                failed = [future for future in ended if future.exception() is not None]
                yield from (future.result() for future in ended - set(failed))
                if failed:
                    failed[0].result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _start() -> None:
    threadpool_limits(limits=1)


def _session(job: tuple[str, Entry, int], protocol: Protocol) -> dict[str, Any]:
    name, entry, seed = job
    with warnings.catch_warnings():
        # A comparison may hold operators that say nothing on some data: they score as they do.
        warnings.simplefilter("ignore")
        return play(_dataset(name), entry, seed, protocol)


@cache
def _dataset(name: str) -> Dataset:
    return load(name)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Return the sessions on disk; a line that was cut off is left out."""
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and found.keys() >= SESSION:
            yield found

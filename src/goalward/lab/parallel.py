"""Many sessions at once: processes with one BLAS thread each, and a bar that says how far they are."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any, TypedDict

from joblib.externals.loky import ProcessPoolExecutor
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from goalward.core.whole_file import whole_file

__all__ = ["Records", "Running", "Tell", "Workers", "finished", "telling"]


Tell = bool | Callable[[int, int], Any]
"""Whether to draw a progress bar; or a function that is told (done, of all)."""


class Workers(TypedDict, total=False):
    """Who plays sessions, and who hears of it.

    Parameters
    ----------
    n_jobs
        Processes, each with one BLAS thread; None is all cores, for what takes longer than a second.
    progress
        Whether to draw a progress bar; or a function that is told (rounds done, of all).
    """

    n_jobs: int | None
    progress: Tell


class Running(Workers, total=False):
    """How sessions are run.

    Parameters
    ----------
    out
        Folder for the rounds. A run that was killed goes on from there; without a folder
        nothing is kept.
    """

    out: Path | str | None


PATIENCE = 1.0
"""Seconds after which processes are started for what is left to do: about what their start takes."""


def finished(
    work: Callable[[Any], Any],
    jobs: Sequence[Any],
    n_jobs: int | None,
    tick: Callable[[], Any] = lambda: None,
) -> Iterator[Any]:
    """Yield what `work` returns for each job, as they end, on processes or here.

    Work and jobs may hold functions without a name, and a script needs no `__main__` guard (loky).

    Parameters
    ----------
    n_jobs
        Processes; None is all cores, for what is not done here within a second.
    tick
        Called now and then while jobs are under way.
    """
    workers = min(n_jobs or os.cpu_count() or 1, len(jobs))
    waiting, running = deque(jobs), set[Future[Any]]()
    pools: list[ProcessPoolExecutor] = []

    def left() -> Iterator[Any]:
        while waiting:
            try:
                job = waiting.popleft()
            except IndexError:  # taken by the other thread
                return
            yield job

    def hand_over() -> None:
        pools.append(ProcessPoolExecutor(workers, initializer=_alone))
        for job in left():
            running.add(pools[0].submit(work, job))

    def settled() -> None:
        later.cancel()
        if later.is_alive():
            later.join()

    later, done = Timer(PATIENCE, hand_over), False
    try:
        if workers > 1:
            later.start() if n_jobs is None else hand_over()
        with threadpool_limits(limits=1):
            for job in left():
                yield work(job)
                tick()
        settled()
        while running:
            ended, running = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            # What has been done is handed over before an error of another job.
            for future in sorted(ended, key=lambda future: future.exception() is not None):
                yield future.result()
            tick()
        done = True
    finally:
        settled()
        for pool in pools:
            pool.shutdown(wait=done, kill_workers=not done)


def _alone() -> None:
    threadpool_limits(limits=1)


@contextmanager
def telling(
    tell: Tell, total: int, name: str, unit: str, done: int = 0
) -> Iterator[Callable[[int], Any]]:
    """Give a function that is told how many are done: it draws a bar, tells another, or is silent."""
    if callable(tell):
        yield lambda done: tell(done, total)
        return
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), f"{unit}, left")
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not tell) as progress:
        task = progress.add_task(name, total=total or None, completed=done)
        yield lambda done: progress.update(task, completed=done)


# Records on disk that survive a kill: JSON, one a line.
#
# A record is on disk before the next one is begun. A line that a crash cut off is left out when the
# file is read again, so a run goes on where it was and loses what was in flight.


@dataclass(frozen=True)
class Records:
    """The records of a file, which need not be there yet."""

    path: Path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in self.path.read_bytes().split(b"\n") if self.path.exists() else ():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record

    def __len__(self) -> int:
        """Return how many lines are whole, without looking into them."""
        return self.path.read_bytes().count(b"}\n") if self.path.exists() else 0

    def restart(self, records: Iterable[dict[str, Any]]) -> None:
        """Put `records` in the place of what is there, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path, force=True) as path:
            path.write_text("".join(json.dumps(record) + "\n" for record in records))

    @contextmanager
    def appending(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Give a function that adds a record; when it returns, the record is on disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:

            def keep(record: dict[str, Any]) -> None:
                file.write(json.dumps(record).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())

            if file.tell() and not self.path.read_bytes().endswith(b"\n"):
                # What a crash left of a line must not join the next one.
                file.write(b"\n")
            yield keep

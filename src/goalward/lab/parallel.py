"""Many sessions at once, on processes with one BLAS thread each; what is done stays on disk."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from goalward.core.files import whole_file

Tell = bool | Callable[[int, int], Any]
"""Whether to draw a progress bar; or a function that is called with (done, total)."""
PATIENCE = 1.0
"""Seconds after which processes are started for the jobs that are left: about what they take to start."""


def finished(
    work: Callable[[Any], Any],
    jobs: Sequence[Any],
    n_jobs: int | None,
    tick: Callable[[], Any] = lambda: None,
) -> Iterator[Any]:
    """Yield what `work` returns for each job, as they end.

    Work and jobs may hold functions without a name, and a script needs no `__main__` guard (loky).

    Parameters
    ----------
    n_jobs
        Processes; None is all cores, for jobs that are not done here within a second.
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
        pools.append(ProcessPoolExecutor(workers, initializer=_one_thread))
        for job in left():
            running.add(pools[0].submit(work, job))

    def settle() -> None:
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
        settle()
        while running:
            ended, running = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            # What has been done is handed over before an error of another job.
            for future in sorted(ended, key=lambda future: future.exception() is not None):
                yield future.result()
            tick()
        done = True
    finally:
        settle()
        for pool in pools:
            pool.shutdown(wait=done, kill_workers=not done)


def _one_thread() -> None:
    threadpool_limits(limits=1)


@contextmanager
def progress_bar(
    progress: Tell, total: int, name: str, unit: str, done: int = 0
) -> Iterator[Callable[[int], Any]]:
    """Give a function that is told how many are done, and draws a bar, calls another, or is silent."""
    if callable(progress):
        yield lambda done: progress(done, total)
        return
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), f"{unit}, left")
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not progress) as bar:
        task = bar.add_task(name, total=total or None, completed=done)
        yield lambda done: bar.update(task, completed=done)


@dataclass(frozen=True)
class Records:
    """A file of JSON lines that survives a kill; it need not exist yet.

    A record is on disk before the next one is begun. A line that a crash cut off is left out when the
    file is read again, so a run resumes where it was and loses what was in flight.
    """

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
        """Return how many lines are whole, without parsing them."""
        return self.path.read_bytes().count(b"}\n") if self.path.exists() else 0

    def restart(self, records: Iterable[dict[str, Any]]) -> None:
        """Replace the file by `records`, whole or not at all."""
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


def resumed(
    work: Callable[[Any], dict[str, Any]],
    jobs: Mapping[str, Any],
    path: Path,
    *,
    n_jobs: int | None = None,
    progress: Tell = True,
    name: str = "benchmark",
) -> dict[str, dict[str, Any]]:
    """Return a record for every key of `jobs`: those in the file `path`, and the others from `work`.

    Each is on disk as soon as it is done, so that a killed run resumes where it was.
    """
    store = Records(path)
    done = {line["key"]: line for line in store if str(line.get("key")) in jobs}
    missing = [item for item in jobs.items() if item[0] not in done]
    with (
        store.appending() as keep,
        progress_bar(progress, len(jobs), name, "sessions", len(done)) as tell,
    ):
        for record in finished(lambda item: {"key": item[0], **work(item[1])}, missing, n_jobs):
            keep(record)
            done[record["key"]] = record
            tell(len(done))
    return done

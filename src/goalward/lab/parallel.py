"""Sessions on processes with one BLAS thread each; finished ones are kept on disk."""

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from threadpoolctl import threadpool_limits

Tell = bool | Callable[[int, int], Any]  # whether to draw a bar, or a function of (done, total)
PATIENCE = 1.0  # seconds before processes are started


def finished(work: Callable[[Any], Any], jobs: Sequence[Any], n_jobs: int | None) -> Iterator[Any]:
    """Yield the results of `work` for each job as they end; `n_jobs` None is all cores for longer runs."""
    workers = min(n_jobs or os.cpu_count() or 1, len(jobs))
    waiting, began = deque(jobs), perf_counter()
    with threadpool_limits(limits=1):
        while waiting and (workers == 1 or (n_jobs is None and perf_counter() - began < PATIENCE)):
            yield work(waiting.popleft())
    if not waiting:
        return
    pool, done = ProcessPoolExecutor(workers, initializer=threadpool_limits, initargs=(1,)), False
    try:
        running = {pool.submit(work, job) for job in waiting}
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            # Finished jobs are returned before an error of another is raised.
            for future in sorted(ended, key=lambda future: future.exception() is not None):
                yield future.result()
        done = True
    finally:
        pool.shutdown(wait=done, kill_workers=not done)


@contextmanager
def progress_bar(
    progress: Tell, total: int, name: str, done: int = 0
) -> Iterator[Callable[[int], Any]]:
    """Yield a function of the number done, which draws a bar, calls another function, or does nothing."""
    if callable(progress):
        yield lambda done: progress(done, total)
        return
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), "sessions, left")
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not progress) as bar:
        task = bar.add_task(name, total=total or None, completed=done)
        yield lambda done: bar.update(task, completed=done)


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a file of JSON lines; a line that a crash cut off is skipped."""
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        with suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict):
                yield record


@contextmanager
def appending(path: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Give a function that adds a record; when it returns, the record is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:

        def keep(record: dict[str, Any]) -> None:
            file.write(json.dumps(record).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

        if file.tell() and not path.read_bytes().endswith(b"\n"):
            # What a crash left of a line must not join the next one.
            file.write(b"\n")
        yield keep


def resumed(
    work: Callable[[Any], dict[str, Any]],
    jobs: Mapping[str, Any],
    path: Path | None,
    *,
    n_jobs: int | None = None,
    progress: Tell = True,
    name: str = "benchmark",
) -> dict[str, dict[str, Any]]:
    """Return key -> record of all `jobs`: from the file `path`, else from `work`, then appended to it."""
    stored, kept = (
        (records(path), appending(path)) if path else ((), nullcontext(lambda record: None))
    )
    done = {line["key"]: line for line in stored if str(line.get("key")) in jobs}
    missing = [item for item in jobs.items() if item[0] not in done]
    with kept as keep, progress_bar(progress, len(jobs), name, len(done)) as tell:
        for record in finished(lambda item: {"key": item[0], **work(item[1])}, missing, n_jobs):
            keep(record)
            done[record["key"]] = record
            tell(len(done))
    return done

"""Many sessions at once: processes with one BLAS thread each, and a bar that says how far they are."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from threadpoolctl import threadpool_limits

__all__ = ["Running", "Tell", "Workers", "finished", "telling"]

Tell = bool | Callable[[int, int], Any]
"""Whether to draw a progress bar; or a function that is told (done, of all)."""


class Workers(TypedDict, total=False):
    """Who plays sessions, and who hears of it.

    Parameters
    ----------
    n_jobs
        Processes, each with one BLAS thread; None is all cores.
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


def finished(
    work: Callable[[Any], Any],
    jobs: Sequence[Any],
    n_jobs: int | None,
    tick: Callable[[], Any] = lambda: None,
) -> Iterator[Any]:
    """Yield what `work` returns for each job, as they end, on processes or here.

    Parameters
    ----------
    work
        Sent to each process once, with the data it carries.
    n_jobs
        Processes; None is all cores.
    tick
        Called now and then while jobs are under way.
    """
    workers = min(n_jobs or os.cpu_count() or 1, len(jobs))
    if workers <= 1:
        with threadpool_limits(limits=1):
            for job in jobs:
                yield work(job)
                tick()
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, _start, (work,)) as pool:
        running: set[Future[Any]] = {pool.submit(_do, job) for job in jobs}
        try:
            while running:
                ended, running = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                # What has been done is handed over before an error of another job.
                for future in sorted(ended, key=lambda future: future.exception() is not None):
                    yield future.result()
                tick()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_work: list[Callable[[Any], Any]] = []
"""The work of a process: sent once, not with every job."""


def _start(work: Callable[[Any], Any]) -> None:
    _work[:] = [work]
    threadpool_limits(limits=1)


def _do(job: Any) -> Any:
    return _work[0](job)


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

"""How far an experiment is, on the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["Bar"]


class Bar:
    """A progress bar on the terminal, with the time left; none for a total of 0."""

    def __init__(self, total: int, name: str, unit: str = "rounds") -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self.progress = Progress(
            *columns,
            TextColumn(f"{unit}, left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=total == 0,
        )
        self.task = self.progress.add_task(name, total=total or None)

    def __enter__(self) -> Callable[[int], Any]:
        self.progress.start()
        return lambda done: self.progress.update(self.task, completed=done)

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

"""Records on disk that survive a kill: JSON, one a line.

A record is on disk before the next one is begun. A line that a crash cut off is left out when the
file is read again, so a run goes on where it was and loses what was in flight.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalward.core.whole_file import whole_file

__all__ = ["Records"]


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

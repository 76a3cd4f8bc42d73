"""Sessions on disk: one file each, one line per finished round.

The first line says which session it is; a line that was cut off by a crash is dropped when
the session is taken up again.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from goalward.errors import BadInput
from goalward.lab.datasets import Dataset
from goalward.lab.loop import rounds
from goalward.strategies import Recipe, Strategy

__all__ = ["Session"]


@dataclass(frozen=True)
class Session:
    """One strategy on one split, and the file its rounds are kept in."""

    name: str
    strategy: Recipe | Strategy
    seed: int
    batch: int
    budget: int
    folder: Path

    @property
    def path(self) -> Path:
        """Where the rounds are kept; apart for a budget that does not end with a full batch."""
        digest = sha256(self.name.encode()).hexdigest()[:6]
        plain = "".join(c if c.isalnum() else "-" for c in self.name)[:60]
        odd = f"-budget{self.budget}" if self.budget % self.batch else ""
        return self.folder / f"{plain}-{digest}-seed{self.seed}{odd}.jsonl"

    def header(self, dataset: Dataset) -> dict[str, Any]:
        """Return what must agree for rounds to be taken over."""
        return {
            "session": 1,
            "dataset": dataset.name,
            "fingerprint": dataset.fingerprint,
            "strategy": _recipe(self.strategy),
            "seed": self.seed,
            "batch": self.batch,
        }

    def read(self) -> list[dict[str, Any]]:
        """Return the finished rounds on disk, up to the budget."""
        lines = [line for line in list(self._lines())[1:] if line["queries"] <= self.budget]
        if lines and lines[-1]["queries"] == self.budget:
            # A longer run has gone on from here; this one ends.
            lines[-1] = lines[-1] | {"rows": [], "utility": [float("nan")] * 5}
        return lines

    def run(self, dataset: Dataset) -> None:
        """Play the session to its budget, from where the file ends; each round is on disk."""
        lines = list(self._lines())
        header = self.header(dataset)
        if lines and lines[0] != header:
            raise BadInput(
                f"{self.path} holds the session {lines[0]}; {header} was expected. Choose another "
                "output folder, or another name for the strategy."
            )
        played = lines[1:]
        if any(line["queries"] == self.budget for line in played):
            return
        # The last round of a smaller budget asked for nothing: it is played again.
        kept = [line for line in played if line["rows"]]
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".part")
        partial.write_text("".join(json.dumps(line) + "\n" for line in [header, *kept]))
        partial.replace(self.path)
        asked = [line["rows"] for line in kept]
        options: dict[str, Any] = {"batch": self.batch, "budget": self.budget, "seed": self.seed}
        with self.path.open("a") as file:
            for one in rounds(dataset, self.strategy, asked=asked, **options):
                file.write(json.dumps(one.record()) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        for line in self.path.read_text().split("\n"):
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return


def _recipe(strategy: Recipe | Strategy) -> str:
    """Return what tells a strategy from others: its text, or its repr with a digest of its data."""
    if isinstance(strategy, Recipe):
        return str(strategy)
    return f"{strategy!r} {sha256(pickle.dumps(strategy)).hexdigest()[:16]}"

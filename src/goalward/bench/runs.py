"""Sessions on disk: one file each, one line per finished round.

The first line says which session it is; a line that was cut off by a crash is dropped when
the session is taken up again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from goalward.bench.datasets import Dataset
from goalward.bench.loop import rounds
from goalward.errors import BadInput
from goalward.strategies import Recipe, Strategy

__all__ = ["Session"]


@dataclass(frozen=True)
class Session:
    """One strategy on one split, and the file its rounds are kept in."""

    name: str
    strategy: Recipe | Strategy
    seed: int
    batch: int
    folder: Path

    @property
    def path(self) -> Path:
        """Where the rounds are kept."""
        digest = sha256(self.name.encode()).hexdigest()[:6]
        plain = "".join(c if c.isalnum() else "-" for c in self.name)[:60]
        return self.folder / f"{plain}-{digest}-seed{self.seed}.jsonl"

    def header(self, dataset: Dataset) -> dict[str, Any]:
        """Return what must agree for rounds to be taken over."""
        return {
            "session": 1,
            "dataset": dataset.name,
            "fingerprint": dataset.fingerprint,
            "strategy": str(self.strategy),
            "seed": self.seed,
            "batch": self.batch,
        }

    def read(self) -> list[dict[str, Any]]:
        """Return the finished rounds on disk."""
        return list(self._lines())[1:]

    def run(self, dataset: Dataset, budget: int) -> None:
        """Play the session to its budget, from where the file ends; each round is on disk."""
        lines = list(self._lines())
        header = self.header(dataset)
        if lines and lines[0] != header:
            raise BadInput(
                f"{self.path} holds the session {lines[0]}; {header} was expected. Choose another "
                "output folder, or delete this one."
            )
        # The last round on disk is played again if it was final for a smaller budget.
        kept = [line for line in lines[1:] if line["rows"]]
        kept = [line for line in kept if line["queries"] + len(line["rows"]) <= budget]
        full = [line for line in kept if len(line["rows"]) == self.batch]
        kept = kept if _ends(kept, budget) else full
        asked = [line["rows"] for line in kept]
        if len(lines) > 1 and len(lines) - 1 == len(kept) + 1 and _ends(kept, budget):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".part")
        partial.write_text("".join(json.dumps(line) + "\n" for line in [header, *kept]))
        partial.replace(self.path)
        with self.path.open("a") as file:
            for one in rounds(
                dataset,
                self.strategy,
                batch=self.batch,
                budget=budget,
                seed=self.seed,
                asked=asked,
            ):
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


def _ends(kept: list[dict[str, Any]], budget: int) -> bool:
    """Return whether the rounds kept spend the whole budget."""
    return sum(len(line["rows"]) for line in kept) == budget

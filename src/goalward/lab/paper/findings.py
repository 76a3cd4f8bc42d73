"""Everything a reproduction measured, and how a claim of the paper is judged by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset
from goalward.lab.paper.approximation import ExPred, Scatter
from goalward.lab.statistics import bootstrap

__all__ = ["Claim", "Findings", "Judgement", "asked_rows", "claim", "interval", "merge"]


@dataclass
class Findings:
    """What has been run so far; parts that were not asked for stay empty."""

    serial: dict[str, Scatter] = field(default_factory=dict)
    batch: dict[str, Scatter] = field(default_factory=dict)
    expred: ExPred | None = None
    synth2: dict[int, Curves] = field(default_factory=dict)
    learning: dict[str, Curves] = field(default_factory=dict)
    penalties: pl.DataFrame | None = None
    datasets: dict[str, Dataset] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def asked_rows(curves: Curves, strategy: str, seed: int = 0) -> NDArray[Any]:
    """Return the rows a strategy asked for, in order."""
    mine = curves.table.filter((pl.col("strategy") == strategy) & (pl.col("seed") == seed))
    return np.array([row for rows in mine.sort("round")["rows"] for row in rows], dtype=np.int64)


def merge(runs: dict[int, Curves]) -> Curves:
    """Return runs of several draws as one table, the draw as the seed."""
    drawn = {draw: pl.lit(draw, dtype=pl.Int64).alias("seed") for draw in runs}
    return Curves(pl.concat([run.table.with_columns(drawn[draw]) for draw, run in runs.items()]))


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, in our words, and what was found.

    Parameters
    ----------
    rule
        How the verdict follows from the numbers.
    measured
        The numbers in a sentence, with 95 % intervals where there are several seeds.
    """

    name: str
    says: str
    rule: str
    measured: str
    verdict: str
    figure: str
    numbers: dict[str, Any] = field(repr=False)

    @property
    def command(self) -> str:
        """What reproduces it."""
        return f"goalward reproduce {self.figure}"


class Judgement(NamedTuple):
    """What was measured, and whether it meets a rule in full or in part."""

    measured: str
    full: bool
    part: bool
    numbers: dict[str, Any]


Judge = Callable[[Findings], Claim | None]


def claim(
    name: str, figure: str, *, needs: Callable[[Findings], Any], says: str, rule: str
) -> Callable[[Callable[[Findings], Judgement]], Judge]:
    """Make a claim of a function that judges it.

    Parameters
    ----------
    figure
        What must be run for it; "" stands for the datasets of the learning curves.
    needs
        Whether findings can speak to it at all.
    """

    def made(judge: Callable[[Findings], Judgement]) -> Judge:
        def judged(findings: Findings) -> Claim | None:
            if not needs(findings):
                return None
            measured, full, part, numbers = judge(findings)
            verdict = "reproduced" if full else "partly" if part else "not reproduced"
            run = figure or " ".join(findings.learning) or "synth2"
            return Claim(name, says, rule, measured, verdict, run, numbers)

        return judged

    return made


def interval(values: Any, digits: int = 2) -> str:
    """Return a mean with its 95 % bootstrap interval over seeds."""
    mean, low, high = bootstrap(np.asarray(values, dtype=float))
    ends = f" [{low:.{digits}f}, {high:.{digits}f}]" if len(values) > 1 else ""
    return f"{mean:.{digits}f}{ends}"

"""Everything a reproduction measured, and how a claim of the paper is judged by it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from goalward.lab.benchmark.pipelines import Pipelines
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset
from goalward.lab.paper.approximation import ExPred, Scatter
from goalward.lab.paper.protocol import Size
from goalward.lab.statistics import bootstrap


@dataclass
class Findings:
    """Results so far, by figure or dataset; empty where not run."""

    size: Size = field(default_factory=Size.full)
    scatters: dict[str, Scatter] = field(default_factory=dict)
    expred: ExPred | None = None
    synth2: Curves | None = None
    learning: dict[str, Curves] = field(default_factory=dict)
    penalties: pl.DataFrame | None = None
    pipelines: Pipelines | None = None
    datasets: dict[str, Dataset] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, what was `measured`, and the `rule` that gives the verdict (of a `sample`)."""

    name: str
    says: str
    rule: str
    measured: str
    verdict: str
    figure: str
    numbers: dict[str, Any] = field(repr=False)
    sample: bool = False

    @property
    def command(self) -> str:
        return f"goalward reproduce {self.figure}{' --quick' * self.sample}"


class Judgement(NamedTuple):
    """What was measured, and whether it meets a rule in full or in part."""

    measured: str
    full: bool
    part: bool
    numbers: dict[str, Any]


class Untestable(Exception):
    """Why the data can neither support nor refute a claim: all tie, or too little is there."""


Judge = Callable[[Findings], Claim | None]
CLAIMS: list[Judge] = []  # all claims, in the order of the paper


def claim(
    figure: str,
    *,
    about: Callable[[Findings], Any],
    says: str,
    rule: str,
    needs: Iterable[str] = ("seeds",),
) -> Callable[[Callable[[Any], Judgement]], Judge]:
    """Register a function that judges the findings `about` a part, from a run as large as `needs` says."""

    def add(judge: Callable[[Any], Judgement]) -> Judge:
        name = judge.__name__.replace("_", "-")

        def judged(findings: Findings) -> Claim | None:
            part = about(findings)
            if part is None:
                return None
            try:
                measured, full, partly, numbers = judge(part)
                verdict = "reproduced" if full else "partly" if partly else "not reproduced"
            except Untestable as why:
                verdict, measured, numbers = "untestable", str(why), {}
            if lacks := findings.size.lacks(needs):
                verdict, measured = "not tested", f"{measured}. Too small a run to tell: {lacks}"
            run = figure or " ".join(findings.learning)
            sample = findings.size.samples and not lacks
            return Claim(name, says, rule, measured, verdict, run, numbers, sample)

        judged.__name__ = name
        CLAIMS.append(judged)
        return judged

    return add


def claims(findings: Findings) -> list[Claim]:
    """Return the verdict on every claim that the findings allow."""
    return [claim for judge in CLAIMS if (claim := judge(findings)) is not None]


def interval(values: Any, digits: int = 2, *, correlation: bool = False) -> str:
    """Return a mean with its 95 % interval over seeds; few correlations by Fisher's z, within ±1."""
    values = np.asarray(values, dtype=float)
    if correlation and len(values) < 10:
        _, low, high = np.tanh(bootstrap(np.arctanh(values.clip(-1 + 1e-9, 1 - 1e-9))))
    else:
        _, low, high = bootstrap(values)
    ends = f" [{low:.{digits}f}, {high:.{digits}f}]" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{ends}"

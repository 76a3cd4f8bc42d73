"""What the paper says of synth2: who needs how many labels there, and which rows each asks for."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, hypergeom

from goalward.lab.curves import Curves
from goalward.lab.datasets import synth2
from goalward.lab.paper.findings import Judgement, claim, interval

__all__: list[str] = []

of_synth2 = partial(claim, figure="synth2", about=lambda findings: findings.synth2)


def _asked(curves: Curves, strategy: str, group: str, first: int) -> NDArray[Any]:
    """Return how many of the first queries were in a group of clusters, (draws,)."""
    found = []
    for draw in range(curves.table["seed"].n_unique()):
        groups = synth2(draw).groups
        assert groups is not None
        found.append(np.sum(groups[curves.asked(strategy, draw)[:first]] == group))
    return np.array(found)


@of_synth2(
    says="On synth2, uncertainty sampling spends about 170 queries on the central clusters and "
    "needs about 230 for an accuracy of 0.966.",
    rule="reproduced if on average at least 160 of the first 170 queries are central and the "
    "median of queries to 0.966 lies in 210 to 250; partly if one holds",
)
def synth2_uncertainty(curves: Curves) -> Judgement:
    needed = curves.reach(0.966)["uncertainty"]
    spent = _asked(curves, "uncertainty", "central", 170)
    middle = float(np.median(needed))
    wasted, late = spent.mean() >= 160, 210 <= middle <= 250
    return Judgement(
        f"{interval(spent, 1)} of the first 170 central; median {middle:g} queries to 0.966 "
        f"(reached in {np.isfinite(needed).sum()} of {len(needed)} draws, the others counted as "
        "infinite)",
        wasted and late,
        wasted or late,
        {"central_of_170": spent.tolist(), "queries_to_0.966": needed.tolist()},
    )


@of_synth2(
    says="The dev goal (oracle, average) does not waste queries on synth2 as uncertainty does.",
    rule="reproduced if oracle and average both need fewer queries than uncertainty to 0.95 "
    "(median over draws; never reached counts as infinite), partly if one does",
)
def synth2_dev(curves: Curves) -> Judgement:
    medians = {name: float(np.median(reach)) for name, reach in curves.reach(0.95).items()}
    faster = [medians[f"dev/{op}"] < medians["uncertainty"] for op in ("oracle", "average")]
    named = ("uncertainty", "dev/oracle", "dev/average", "dev/min")
    measured = "; ".join(f"{name} {medians[name]:g}" for name in named)
    return Judgement(measured, all(faster), any(faster), medians)


@of_synth2(
    says="synth2's advantage over uncertainty sampling holds with the 53 dev labels charged.",
    rule="reproduced if dev/average needs fewer labels than uncertainty to 0.95, dev labels "
    "charged, in at least 90 % of the draws; partly in half of them",
)
def synth2_charged(curves: Curves) -> Judgement:
    reach = curves.reach(0.95, with_dev=True)
    share = float(np.mean(reach["dev/average"] < reach["uncertainty"]))
    names = ("dev/average", "uncertainty", "random")
    ours, theirs, chance = (float(np.median(reach[name])) for name in names)
    return Judgement(
        f"fewer in {share:.0%} of the draws (median {ours:g} against {theirs:g}); random sampling "
        f"needs {chance:g}",
        share >= 0.9,
        share >= 0.5,
        {"share": share, "labels_saved_against_random": chance - ours},
    )


def _distracted(curves: Curves, strategy: str, first: int, *, many: bool = False) -> Judgement:
    """Judge how many of the first queries go to the distracting clusters, against chance.

    A sign test over draws, with the chance of a random order to be on that side of its mean.
    """
    mine = _asked(curves, strategy, "distracting", first)
    chance = hypergeom(530, 180, first)
    mean = float(chance.mean())
    below = float(chance.cdf(int(mean)))
    wins = int(np.sum(mine > mean if many else mine < mean))
    p = float(binomtest(wins, len(mine), 1 - below if many else below, "greater").pvalue)
    share = float(mine.mean()) / first
    extreme = share >= 0.9 if many else share <= 0.05
    return Judgement(
        f"{interval(mine, 1)} of the first {first} are distracting, {mean:.1f} by chance (p = {p:.2g})",
        extreme and p < 0.05,
        p < 0.05,
        {"distracting": mine.tolist(), "by_chance": mean, "p": p},
    )


PATTERN = (
    "reproduced if on average {} of its first {} queries are in the distracting clusters, and {} than "
    "a random order has (sign test over draws, 5 %); partly if only the latter"
)


@of_synth2(
    says="On synth2 the oracle (dev goal) asks for the rows that matter right away: central and "
    "definitive ones, not the distracting ones.",
    rule=PATTERN.format("at most 5 %", 30, "fewer"),
)
def synth2_oracle(curves: Curves) -> Judgement:
    return _distracted(curves, "dev/oracle", 30)


@of_synth2(
    says="On synth2 the average leaves the distracting clusters to the end.",
    rule=PATTERN.format("at most 5 %", 200, "fewer"),
)
def synth2_average(curves: Curves) -> Judgement:
    return _distracted(curves, "dev/average", 200)


@of_synth2(
    says="On synth2 the minimum starts with the distracting clusters.",
    rule=PATTERN.format("at least 90 %", 30, "more"),
)
def synth2_minimum(curves: Curves) -> Judgement:
    return _distracted(curves, "dev/min", 30, many=True)

"""What the paper says of synth2: who needs how many labels there, and which rows each asks for."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, hypergeom

from goalward.lab.curves import Curves
from goalward.lab.datasets import synth2
from goalward.lab.paper.findings import Judgement, Untestable, claim, interval

__all__: list[str] = []

of_synth2 = partial(claim, figure="synth2", about=lambda findings: findings.synth2)
LEVEL = 0.966
"""The accuracy that the paper speaks of."""


def _asked(curves: Curves, strategy: str, group: str, first: int) -> NDArray[Any]:
    """Return how many of the first queries were in a group of clusters, (draws,)."""
    found = []
    for draw in range(curves.table["seed"].n_unique()):
        groups = synth2(draw).groups
        assert groups is not None
        found.append(np.sum(groups[_first(curves, strategy, draw, first)] == group))
    return np.array(found)


def _first(curves: Curves, strategy: str, draw: int, first: int) -> NDArray[Any]:
    """Return the first rows that a strategy asked for."""
    rows = curves.asked(strategy, draw)[:first]
    if len(rows) < first:
        raise Untestable(f"{strategy} asked for {len(rows)} rows; {first} were expected")
    return rows


def _reach(curves: Curves, *, with_dev: bool = False) -> dict[str, NDArray[Any]]:
    """Return the labels bought at the paper's level, strategy -> (draws,)."""
    reach = curves.reach(LEVEL, with_dev=with_dev)
    if len(np.unique(list(reach.values()))) == 1:
        raise Untestable(f"All strategies tie in the labels they need for {LEVEL}")
    return reach


@of_synth2(
    says="On synth2, uncertainty sampling spends about 170 queries on the central clusters and "
    "needs about 230 for an accuracy of 0.966.",
    rule="reproduced if on average at least 160 of the first 170 queries are central and the "
    "median of queries to 0.966 lies in 210 to 250; partly if only the former",
)
def synth2_uncertainty(curves: Curves) -> Judgement:
    needed = _reach(curves)["uncertainty"]
    spent = _asked(curves, "uncertainty", "central", 170)
    middle = float(np.median(needed))
    wasted, late = spent.mean() >= 160, 210 <= middle <= 250
    return Judgement(
        f"{interval(spent, 1)} of the first 170 central; median {middle:g} queries to 0.966 "
        f"(reached in {np.isfinite(needed).sum()} of {len(needed)} draws, the others counted as "
        "infinite)",
        wasted and late,
        wasted,
        {"central_of_170": spent.tolist(), "queries_to_0.966": needed.tolist()},
    )


@of_synth2(
    says="The dev goal (oracle, average) does not waste queries on synth2 as uncertainty does.",
    rule="reproduced if oracle and average each need fewer queries than uncertainty to 0.966 in at "
    "least 90 % of the draws (never reached counts as infinite), partly if one does",
)
def synth2_dev(curves: Curves) -> Judgement:
    reach = _reach(curves)
    named = ("dev/oracle", "dev/average")
    shares = {name: float(np.mean(reach[name] < reach["uncertainty"])) for name in named}
    faster = [share >= 0.9 for share in shares.values()]
    medians = "; ".join(
        f"{name} {np.median(reach[name]):g}" for name in ("uncertainty", *named, "dev/min")
    )
    shown = ", ".join(f"{name} in {share:.0%}" for name, share in shares.items())
    measured = f"fewer: {shown} of the draws; medians: {medians}"
    return Judgement(measured, all(faster), any(faster), shares)


@of_synth2(
    says="synth2's advantage over uncertainty sampling holds with the 53 dev labels charged.",
    rule="reproduced if dev/average needs fewer labels than uncertainty to 0.966, dev labels "
    "charged, in at least 90 % of the draws; partly in 75 %",
)
def synth2_charged(curves: Curves) -> Judgement:
    reach = _reach(curves, with_dev=True)
    share = float(np.mean(reach["dev/average"] < reach["uncertainty"]))
    names = ("dev/average", "uncertainty", "random")
    ours, theirs, chance = (float(np.median(reach[name])) for name in names)
    return Judgement(
        f"fewer in {share:.0%} of the draws (median {ours:g} against {theirs:g}); random sampling "
        f"needs {chance:g}",
        share >= 0.9,
        share >= 0.75,
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
    rule=PATTERN.format("at most 5 %", 30, "fewer") + ". Either way half of them are definitive",
)
def synth2_oracle(curves: Curves) -> Judgement:
    found = _distracted(curves, "dev/oracle", 30)
    definitive = _asked(curves, "dev/oracle", "definitive", 30)
    useful = bool(definitive.mean() >= 15)
    return found._replace(
        measured=f"{found.measured}; {interval(definitive, 1)} are definitive",
        full=found.full and useful,
        part=found.part and useful,
    )


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


@of_synth2(
    says="On synth2 the average approximates the oracle's pattern of queries.",
    rule="reproduced if on average at least half of the average's first 30 queries are among the "
    "oracle's first 30, and in at least 90 % of the draws more than random rows of the same groups "
    "would share; partly if only the latter",
)
def synth2_shared(curves: Curves) -> Judgement:
    shared, chance = [], []
    for draw in range(curves.table["seed"].n_unique()):
        oracle, average = (_first(curves, f"dev/{op}", draw, 30) for op in ("oracle", "average"))
        data = synth2(draw)
        assert data.groups is not None
        pool, one, other = (data.groups[rows] for rows in (data.split(0).pool, oracle, average))
        shared.append(len(np.intersect1d(oracle, average)) / 30)
        chance.append(
            sum(np.sum(one == g) * np.sum(other == g) / np.sum(pool == g) for g in set(pool)) / 30
        )
    above = bool(np.mean(np.array(shared) > chance) >= 0.9)
    return Judgement(
        f"{interval(shared)} of the first 30 shared, {np.mean(chance):.2f} by chance",
        above and bool(np.mean(shared) >= 0.5),
        above,
        {"shared": shared, "by_chance": chance},
    )

"""What the paper says of synth2."""

from __future__ import annotations

from functools import partial

import numpy as np

from goalward.lab.datasets import synth2
from goalward.lab.paper.findings import Findings, Judged, asked_rows, claim, interval, merge

__all__ = ["SYNTH2"]

of_synth2 = partial(claim, figure="synth2", needs=lambda f: f.synth2)


@of_synth2(
    "synth2-uncertainty",
    says="On synth2, uncertainty sampling spends about 170 queries on the central clusters and "
    "needs about 230 for an accuracy of 0.966.",
    rule="reproduced if on average at least 160 of the first 170 queries are central and the "
    "median of queries to 0.966 lies in 210 to 250; partly if one holds",
)
def _wasted(findings: Findings) -> Judged:
    spent, needed = [], []
    for draw, curves in findings.synth2.items():
        groups = synth2(draw).groups
        assert groups is not None
        first = asked_rows(curves, "uncertainty")[:170]
        spent.append(int(np.sum(groups[first] == "central")))
        needed.append(float(curves.reach(0.966)["uncertainty"][0]))
    middle = float(np.median(needed))
    wasted, late = float(np.mean(spent)) >= 160, 210 <= middle <= 250
    return Judged(
        f"{interval(spent, 1)} of the first 170 central; median {middle:g} queries to 0.966 "
        f"(reached in {np.isfinite(needed).sum()} of {len(needed)} draws, the others counted as "
        "infinite)",
        wasted and late,
        wasted or late,
        {"central_of_170": spent, "queries_to_0.966": needed},
    )


@of_synth2(
    "synth2-dev",
    says="The dev goal (oracle, average) does not waste queries on synth2 as uncertainty does.",
    rule="reproduced if oracle and average both need fewer queries than uncertainty to 0.95 "
    "(median over draws; never reached counts as infinite), partly if one does",
)
def _spared(findings: Findings) -> Judged:
    reach = merge(findings.synth2).reach(0.95)
    medians = {name: float(np.median(values)) for name, values in reach.items()}
    faster = [medians[f"dev/{op}"] < medians["uncertainty"] for op in ("oracle", "average")]
    named = ("uncertainty", "dev/oracle", "dev/average", "dev/min")
    measured = "; ".join(f"{name} {medians[name]:g}" for name in named)
    return Judged(measured, all(faster), any(faster), medians)


@of_synth2(
    "synth2-charged",
    says="synth2's advantage over uncertainty sampling holds with the 53 dev labels charged.",
    rule="reproduced if dev/average needs fewer labels than uncertainty to 0.95, dev labels "
    "charged, in at least 90 % of the draws; partly in half of them",
)
def _charged(findings: Findings) -> Judged:
    reach = merge(findings.synth2).reach(0.95, with_dev=True)
    share = float(np.mean(reach["uncertainty"] - reach["dev/average"] > 0))
    ours, theirs, chance = (
        float(np.median(reach[name])) for name in ("dev/average", "uncertainty", "random")
    )
    return Judged(
        f"fewer in {share:.0%} of the draws (median {ours:g} against {theirs:g}); random sampling "
        f"needs {chance:g}",
        share >= 0.9,
        share >= 0.5,
        {"share": share, "labels_saved_against_random": chance - ours},
    )


SYNTH2 = (_wasted, _spared, _charged)

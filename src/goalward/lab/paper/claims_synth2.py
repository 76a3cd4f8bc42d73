"""What the paper says of synth2."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from goalward.lab.datasets import synth2
from goalward.lab.paper.claim import Claim, interval, verdict
from goalward.lab.paper.results import Results, asked_rows, merge

__all__ = ["SYNTH2"]


def _wasted(results: Results) -> Claim | None:
    if not results.synth2:
        return None
    spent, needed = [], []
    for draw, curves in results.synth2.items():
        rows = asked_rows(curves, "uncertainty")
        groups = synth2(draw).groups
        assert groups is not None
        spent.append(int(np.sum(groups[rows[:170]] == "central")))
        needed.append(float(curves.reach(0.966)["uncertainty"][0]))
    reached = [n for n in needed if np.isfinite(n)]
    middle = float(np.median(needed))
    mean = float(np.mean(spent))
    return Claim(
        "synth2-uncertainty",
        "On synth2, uncertainty sampling spends about 170 queries on the central clusters and "
        "needs about 230 for an accuracy of 0.966.",
        "reproduced if on average at least 160 of the first 170 queries are central and the "
        "median of queries to 0.966 lies in 210 to 250; partly if one holds",
        f"{interval(spent, 1)} of the first 170 central; median {middle:g} queries to 0.966 "
        f"(reached in {len(reached)} of {len(needed)} draws, the others counted as infinite)",
        verdict(mean >= 160 and 210 <= middle <= 250, mean >= 160 or 210 <= middle <= 250),
        "synth2",
        {"central_of_170": spent, "queries_to_0.966": needed},
    )


def _spared(results: Results) -> Claim | None:
    if not results.synth2:
        return None
    merged = merge(results.synth2)
    level = 0.95
    reach = merged.reach(level)
    medians = {name: float(np.median(values)) for name, values in reach.items()}
    faster = [medians[f"dev/{op}"] < medians["uncertainty"] for op in ("oracle", "average")]
    return Claim(
        "synth2-dev",
        "The dev goal (oracle, average) does not waste queries on synth2 as uncertainty does.",
        f"reproduced if oracle and average both need fewer queries than uncertainty to {level} "
        "(median over draws; never reached counts as infinite), partly if one does",
        "; ".join(
            f"{name} {medians[name]:g}"
            for name in ("uncertainty", "dev/oracle", "dev/average", "dev/min")
        ),
        verdict(all(faster), any(faster)),
        "synth2",
        medians,
    )


def _charged(results: Results) -> Claim | None:
    if not results.synth2:
        return None
    merged = merge(results.synth2)
    reach = merged.reach(0.95, with_dev=True)
    gain = reach["uncertainty"] - reach["dev/average"]
    share = float(np.mean(gain > 0))
    versus_random = float(np.median(reach["random"]) - np.median(reach["dev/average"]))
    return Claim(
        "synth2-charged",
        "synth2's advantage over uncertainty sampling holds with the 53 dev labels charged.",
        "reproduced if dev/average needs fewer labels than uncertainty to 0.95, dev labels "
        "charged, in at least 90 % of the draws; partly in half of them",
        f"fewer in {share:.0%} of the draws (median {np.median(reach['dev/average']):g} against "
        f"{np.median(reach['uncertainty']):g}); random sampling needs "
        f"{np.median(reach['random']):g}",
        verdict(share >= 0.9, share >= 0.5),
        "synth2",
        {"share": share, "labels_saved_against_random": versus_random},
    )


SYNTH2: tuple[Callable[[Results], Claim | None], ...] = (_wasted, _spared, _charged)

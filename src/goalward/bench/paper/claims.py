"""All claims of the paper that some results can speak to."""

from __future__ import annotations

from goalward.bench.paper.claim import Claim
from goalward.bench.paper.claims_approximation import APPROXIMATION
from goalward.bench.paper.claims_learning import LEARNING
from goalward.bench.paper.claims_synth2 import SYNTH2
from goalward.bench.paper.results import Results

__all__ = ["Claim", "claims"]


def claims(results: Results) -> list[Claim]:
    """Return the verdict on every claim that the results can speak to."""
    found = (judge(results) for judge in (*APPROXIMATION, *SYNTH2, *LEARNING))
    return [claim for claim in found if claim is not None]

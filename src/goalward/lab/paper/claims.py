"""All claims of the paper that some results can speak to."""

from __future__ import annotations

from goalward.lab.paper.claim import Claim
from goalward.lab.paper.claims_approximation import APPROXIMATION
from goalward.lab.paper.claims_learning import LEARNING
from goalward.lab.paper.claims_synth2 import SYNTH2
from goalward.lab.paper.results import Results

__all__ = ["Claim", "claims"]


def claims(results: Results) -> list[Claim]:
    """Return the verdict on every claim that the results can speak to."""
    found = (judge(results) for judge in (*APPROXIMATION, *SYNTH2, *LEARNING))
    return [claim for claim in found if claim is not None]

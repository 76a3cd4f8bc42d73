"""The paper's experimental section: studies, claims, report."""

from goalward.bench.paper.claims import Claim, claims
from goalward.bench.paper.reproduce import FIGURES, reproduce
from goalward.bench.paper.results import Results
from goalward.bench.paper.studies import Size

__all__ = ["FIGURES", "Claim", "Results", "Size", "claims", "reproduce"]

"""The paper's experimental section: studies, claims, report."""

from goalward.lab.paper.claims import Claim, claims
from goalward.lab.paper.reproduce import FIGURES, reproduce
from goalward.lab.paper.results import Results
from goalward.lab.paper.studies import Size

__all__ = ["FIGURES", "Claim", "Results", "Size", "claims", "reproduce"]

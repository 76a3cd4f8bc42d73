"""The paper's experimental section: studies, claims, report."""

from goalward.lab.paper.findings import Claim, Findings
from goalward.lab.paper.reproduce import FIGURES, claims, reproduce
from goalward.lab.paper.studies import Size

__all__ = ["FIGURES", "Claim", "Findings", "Size", "claims", "reproduce"]

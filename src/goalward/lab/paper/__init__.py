"""The paper's experimental section: studies, claims, report."""

# The claims add themselves.
from goalward.lab.paper import claims_approximation, claims_learning  # noqa: F401
from goalward.lab.paper.findings import Claim, Findings, claims
from goalward.lab.paper.protocol import Size
from goalward.lab.paper.reproduce import FIGURES, reproduce

__all__ = ["FIGURES", "Claim", "Findings", "Size", "claims", "reproduce"]

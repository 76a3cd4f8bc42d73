"""The paper's experimental section: studies, claims, report."""

# The claims add themselves.
from goalward.lab.paper import (  # noqa: F401
    claims_approximation,
    claims_clusters,
    claims_learning,
)
from goalward.lab.paper.findings import Claim, Findings, claims
from goalward.lab.paper.reproduce import FIGURES, reproduce
from goalward.lab.paper.studies import Size

__all__ = ["FIGURES", "Claim", "Findings", "Size", "claims", "reproduce"]

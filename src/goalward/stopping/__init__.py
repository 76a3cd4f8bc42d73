"""When to stop buying labels: our own rule and published ones, side by side."""

from goalward.stopping.certainty import confidence_variance, max_confidence, overall_uncertainty
from goalward.stopping.gains import Realised, corrected, gain_below_price, realised
from goalward.stopping.measured import accuracy_plateau, budget_spent
from goalward.stopping.predictions import (
    bounded_change,
    classification_change,
    cohen_kappa,
    stabilizing_predictions,
)
from goalward.stopping.report import criteria, first_stops
from goalward.stopping.snapshot import Criterion, Snapshot, seen

__all__ = [
    "Criterion",
    "Realised",
    "Snapshot",
    "accuracy_plateau",
    "bounded_change",
    "budget_spent",
    "classification_change",
    "cohen_kappa",
    "confidence_variance",
    "corrected",
    "criteria",
    "first_stops",
    "gain_below_price",
    "max_confidence",
    "overall_uncertainty",
    "realised",
    "seen",
    "stabilizing_predictions",
]

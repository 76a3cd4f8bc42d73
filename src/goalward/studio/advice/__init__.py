"""When to stop buying labels: our own rule and published ones, side by side."""

from goalward.studio.advice.gains import PRICE, Gain, gain_below_price, next_gain
from goalward.studio.advice.rules import (
    accuracy_plateau,
    bounded_change,
    budget_spent,
    classification_change,
    confidence_variance,
    criteria,
    first_stops,
    max_confidence,
    overall_uncertainty,
    stabilizing_predictions,
)
from goalward.studio.advice.snapshot import Criterion, Snapshot, seen

__all__ = [
    "PRICE",
    "Criterion",
    "Gain",
    "Snapshot",
    "accuracy_plateau",
    "bounded_change",
    "budget_spent",
    "classification_change",
    "confidence_variance",
    "criteria",
    "first_stops",
    "gain_below_price",
    "max_confidence",
    "next_gain",
    "overall_uncertainty",
    "seen",
    "stabilizing_predictions",
]

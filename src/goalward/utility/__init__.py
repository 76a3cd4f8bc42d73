"""Δτ for every (row, label): what a label would do to the goal."""

from goalward.utility.first_order import FirstOrder
from goalward.utility.retrain import Retrain
from goalward.utility.utility import Scored, Scorer, Utility

__all__ = ["FirstOrder", "Retrain", "Scored", "Scorer", "Utility"]

"""Δτ for every (row, label): what a label would do to the goal."""

from goalward.utility.fidelity import Fidelity, fidelity
from goalward.utility.first_order import FirstOrder
from goalward.utility.implicit_step import ImplicitStep
from goalward.utility.information import Covering, Information
from goalward.utility.known_labels import Relabelled, Todo, relabel
from goalward.utility.ladder import Ladder
from goalward.utility.retrain import Retrain
from goalward.utility.utility import Scored, Scorer, Utility

__all__ = [
    "Covering",
    "Fidelity",
    "FirstOrder",
    "ImplicitStep",
    "Information",
    "Ladder",
    "Relabelled",
    "Retrain",
    "Scored",
    "Scorer",
    "Todo",
    "Utility",
    "fidelity",
    "relabel",
]

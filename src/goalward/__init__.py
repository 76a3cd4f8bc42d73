"""Goal-oriented active learning: the best model from the fewest labels.

Say what should get better, a *goal* of your model, and goalward says which unlabelled rows
are worth a label, by predicting what each label would do to the goal without retraining.

    fitted = gw.Logistic().fit(X, y)
    goal = gw.goals.DevLoss(X_dev, y_dev)
    gw.GoalOriented(goal).suggest(fitted, X_pool, batch=10).rows
"""

from importlib import import_module
from importlib.metadata import version
from typing import Any

from goalward import (
    adapters,
    errors,
    goals,
    labels,
    selection,
    solvers,
    stopping,
    strategies,
    testing,
    utility,
)
from goalward.learners import Logistic, LogisticClassifier
from goalward.models import Fitted
from goalward.strategies import GoalOriented, recipe

__all__ = [
    "Fitted",
    "GoalOriented",
    "Logistic",
    "LogisticClassifier",
    "adapters",
    "errors",
    "goals",
    "labels",
    "recipe",
    "selection",
    "solvers",
    "stopping",
    "strategies",
    "testing",
    "utility",
]

__version__ = version("goalward")

LATER = {"bench": "lab", "lab": "lab", "scale": "scale", "tables": "tables"}
"""Rooms that are imported when they are first used; `bench` is the first name of `lab`."""


def __getattr__(name: str) -> Any:
    """Return what is loaded when it is asked for: it brings tables, figures or a database."""
    if name in LATER:
        return import_module(f"goalward.{LATER[name]}")
    if name == "Study":
        return import_module("goalward.study").Study
    raise AttributeError(f"module 'goalward' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "Study", *LATER])

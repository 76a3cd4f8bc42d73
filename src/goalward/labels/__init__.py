"""Beliefs about a row's label, and operators that turn them into one number per row."""

from goalward.labels.beliefs import (
    Belief,
    Geometric,
    Jackknife,
    LabelModel,
    Predicted,
    Truth,
    Uniform,
)
from goalward.labels.operators import (
    BestCase,
    Expected,
    ExpectedImprovement,
    Operator,
    ProbabilityOfImprovement,
    Resolver,
    Spread,
    UpperConfidence,
    WorstCase,
    warn_if_vacuous,
)
from goalward.labels.opinion import Opinion
from goalward.labels.people import Consensus, DawidSkene

__all__ = [
    "Belief",
    "BestCase",
    "Consensus",
    "DawidSkene",
    "Expected",
    "ExpectedImprovement",
    "Geometric",
    "Jackknife",
    "LabelModel",
    "Operator",
    "Opinion",
    "Predicted",
    "ProbabilityOfImprovement",
    "Resolver",
    "Spread",
    "Truth",
    "Uniform",
    "UpperConfidence",
    "WorstCase",
    "warn_if_vacuous",
]

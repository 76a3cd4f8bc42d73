"""Utility, operator and selection assembled; and the baselines they must beat."""

from goalward.strategies.among import Among, Subsampled
from goalward.strategies.badge import Badge
from goalward.strategies.bait import Bait, BaitBackward
from goalward.strategies.bald import Bald
from goalward.strategies.core_set import CoreSet
from goalward.strategies.ensemble import Boss, Refine
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.recipes import Recipe, recipe
from goalward.strategies.regression import Committee, GreedySampling, ModelChange
from goalward.strategies.schedule import InTurn, Then, UnlessSurprised, WhileUnseen, cold_start
from goalward.strategies.strategy import Strategy, Suggestion
from goalward.strategies.typiclust import TypiClust
from goalward.strategies.uncertainty import (
    Entropy,
    LabelMargin,
    LeastConfident,
    Margin,
    Random,
    RowRule,
)

__all__ = [
    "Among",
    "Badge",
    "Bait",
    "BaitBackward",
    "Bald",
    "Boss",
    "Committee",
    "CoreSet",
    "Entropy",
    "GoalOriented",
    "GreedySampling",
    "InTurn",
    "LabelMargin",
    "LeastConfident",
    "Margin",
    "ModelChange",
    "Random",
    "Recipe",
    "Refine",
    "RowRule",
    "Strategy",
    "Subsampled",
    "Suggestion",
    "Then",
    "TypiClust",
    "UnlessSurprised",
    "WhileUnseen",
    "cold_start",
    "recipe",
]

"""Utility, operator and selection assembled; and the baselines they must beat."""

from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.recipe import Recipe, recipe
from goalward.strategies.strategy import Strategy, Suggestion
from goalward.strategies.uncertainty import Entropy, LeastConfident, Margin, Random

__all__ = [
    "Entropy",
    "GoalOriented",
    "LeastConfident",
    "Margin",
    "Random",
    "Recipe",
    "Strategy",
    "Suggestion",
    "recipe",
]

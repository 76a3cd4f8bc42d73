"""Goal-oriented strategies, and baselines."""

from goalward.strategies.batches import (
    Badge,
    Bait,
    BaitBackward,
    CoreSet,
    GreedySampling,
    TypiClust,
)
from goalward.strategies.combined import (
    Among,
    InTurn,
    Then,
    UnlessSurprised,
    WhileUnseen,
    cold_start,
)
from goalward.strategies.ensemble import Boss, Refine
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.recipes import Recipe, recipe
from goalward.strategies.strategy import Strategy, Suggestion
from goalward.strategies.uncertainty import (
    Bald,
    Committee,
    Entropy,
    LabelMargin,
    LeastConfident,
    Margin,
    ModelChange,
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
    "Suggestion",
    "Then",
    "TypiClust",
    "UnlessSurprised",
    "WhileUnseen",
    "cold_start",
    "recipe",
]

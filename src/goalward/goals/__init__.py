"""What should get better: τ, seen through the logits of the goal's rows."""

from goalward.goals.custom import Custom
from goalward.goals.dev_loss import DevLoss
from goalward.goals.entropy import Entropy
from goalward.goals.fisher import Fisher
from goalward.goals.goal import Goal, Kernel, Model, Term, Weighted
from goalward.goals.guard import Rotated, Split
from goalward.goals.parting import Alarm, parting

__all__ = [
    "Alarm",
    "Custom",
    "DevLoss",
    "Entropy",
    "Fisher",
    "Goal",
    "Kernel",
    "Model",
    "Rotated",
    "Split",
    "Term",
    "Weighted",
    "parting",
]

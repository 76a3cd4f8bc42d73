"""What should get better: τ, seen through the logits of the goal's rows."""

from goalward.goals.custom import Custom
from goalward.goals.dev_loss import DevLoss
from goalward.goals.entropy import Entropy
from goalward.goals.fisher import Fisher
from goalward.goals.goal import Goal, Kernel, Model, Term, Weighted

__all__ = [
    "Custom",
    "DevLoss",
    "Entropy",
    "Fisher",
    "Goal",
    "Kernel",
    "Model",
    "Term",
    "Weighted",
]

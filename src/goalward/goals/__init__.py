"""What should get better: τ, seen through the logits of the goal's rows."""

from goalward.goals.custom import Custom
from goalward.goals.decision_risk import DecisionRisk
from goalward.goals.dev_loss import DevLoss
from goalward.goals.entropy import Entropy
from goalward.goals.epig import Epig
from goalward.goals.fisher import Fisher
from goalward.goals.fisher_ratio import FisherRatio
from goalward.goals.goal import Goal, Kernel, Model, Term, Weighted
from goalward.goals.leave_one_out import LeaveOneOut
from goalward.goals.posterior import PosteriorGoal

__all__ = [
    "Custom",
    "DecisionRisk",
    "DevLoss",
    "Entropy",
    "Epig",
    "Fisher",
    "FisherRatio",
    "Goal",
    "Kernel",
    "LeaveOneOut",
    "Model",
    "PosteriorGoal",
    "Term",
    "Weighted",
]

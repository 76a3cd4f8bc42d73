"""What should get better: τ, seen through the logits of the goal's rows."""

from goalward.goals.calibrated_dev_loss import CalibratedDevLoss
from goalward.goals.certainty import Entropy, Fisher
from goalward.goals.coupled import Coupled, Coupling
from goalward.goals.custom import Custom
from goalward.goals.decision_risk import DecisionRisk
from goalward.goals.dev_loss import DevLoss
from goalward.goals.goal import Goal, Kernel, Term, Weighted
from goalward.goals.leave_one_out import LeaveOneOut
from goalward.goals.posterior import Epig, FisherRatio, PosteriorGoal
from goalward.goals.smooth_accuracy import SmoothAccuracy
from goalward.goals.smooth_f1 import SmoothF1
from goalward.goals.soft_pool import SoftPool
from goalward.goals.target_set import TargetSet
from goalward.goals.worst_group import WorstGroup

__all__ = [
    "CalibratedDevLoss",
    "Coupled",
    "Coupling",
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
    "PosteriorGoal",
    "SmoothAccuracy",
    "SmoothF1",
    "SoftPool",
    "TargetSet",
    "Term",
    "Weighted",
    "WorstGroup",
]

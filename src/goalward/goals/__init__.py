"""What should get better: τ, seen through the logits of the goal's rows."""

from goalward.goals.certainty import Entropy, ExpectedAccuracy, Fisher
from goalward.goals.coverage import Coverage
from goalward.goals.custom import Custom
from goalward.goals.dev_loss import CalibratedDevLoss, DevLoss, MeanSquaredError
from goalward.goals.goal import Coupled, Coupling, Goal, Kernel, Term, Weighted
from goalward.goals.leave_one_out import LeaveOneOut
from goalward.goals.posterior import (
    DecisionRisk,
    Epig,
    FisherRatio,
    PosteriorGoal,
    PredictionVariance,
)
from goalward.goals.smooth import SmoothAccuracy, SmoothF1
from goalward.goals.soft_pool import SoftPool
from goalward.goals.target_set import TargetSet
from goalward.goals.worst_group import WorstGroup

__all__ = [
    "CalibratedDevLoss",
    "Coupled",
    "Coupling",
    "Coverage",
    "Custom",
    "DecisionRisk",
    "DevLoss",
    "Entropy",
    "Epig",
    "ExpectedAccuracy",
    "Fisher",
    "FisherRatio",
    "Goal",
    "Kernel",
    "LeaveOneOut",
    "MeanSquaredError",
    "PosteriorGoal",
    "PredictionVariance",
    "SmoothAccuracy",
    "SmoothF1",
    "SoftPool",
    "TargetSet",
    "Term",
    "Weighted",
    "WorstGroup",
]

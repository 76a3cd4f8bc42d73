"""Goals to raise, as functions of the logits of some rows."""

from goalward.goals.coverage import Coverage
from goalward.goals.custom import Custom
from goalward.goals.dev_loss import (
    CalibratedDevLoss,
    DevLoss,
    LeaveOneOut,
    MeanSquaredError,
    TargetSet,
)
from goalward.goals.goal import Goal, Term, Weighted
from goalward.goals.kernels import Coupled, Coupling, Kernel
from goalward.goals.posterior import (
    DecisionRisk,
    Epig,
    FisherRatio,
    PosteriorGoal,
    PredictionVariance,
)
from goalward.goals.smooth import SmoothAccuracy, SmoothF1, WorstGroup
from goalward.goals.unlabelled import Entropy, ExpectedAccuracy, Fisher, SoftPool

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

"""Models, losses and learners."""

from goalward.core.rows import Labelled
from goalward.models.fitted import Fitted, as_fitted
from goalward.models.linear import LinearModel
from goalward.models.logistic import Logistic
from goalward.models.loss import Loss, Softmax
from goalward.models.model import Jacobian, Model
from goalward.models.multi_label import MultiLabel, Sigmoid
from goalward.models.network import Network, Validity, inspected
from goalward.models.objective import Hessian, Objective
from goalward.models.refitted import Refitted
from goalward.models.ridge import Ridge, Squared

__all__ = [
    "Fitted",
    "Hessian",
    "Jacobian",
    "Labelled",
    "LinearModel",
    "Logistic",
    "Loss",
    "Model",
    "MultiLabel",
    "Network",
    "Objective",
    "Refitted",
    "Ridge",
    "Sigmoid",
    "Softmax",
    "Squared",
    "Validity",
    "as_fitted",
    "inspected",
]

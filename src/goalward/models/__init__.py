"""How parameters move logits, what a label costs, and a model at its optimum."""

from goalward.core.rows import Labelled
from goalward.models.fitted import Fitted, as_fitted
from goalward.models.linear import LinearModel
from goalward.models.logistic import CrossValidation, Logistic, cross_validate
from goalward.models.loss import Loss, Separate
from goalward.models.model import Jacobian, Model
from goalward.models.multi_label import MultiLabel
from goalward.models.network import Network
from goalward.models.objective import Hessian, Objective
from goalward.models.refitted import Refitted
from goalward.models.ridge import Ridge
from goalward.models.sigmoid import Sigmoid
from goalward.models.softmax import Softmax
from goalward.models.squared import Squared
from goalward.models.trust import Validity, inspected

__all__ = [
    "CrossValidation",
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
    "Separate",
    "Sigmoid",
    "Softmax",
    "Squared",
    "Validity",
    "as_fitted",
    "cross_validate",
    "inspected",
]

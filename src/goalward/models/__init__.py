"""How parameters move logits, what a label costs, and a model at its optimum."""

from goalward.models.cross_entropy import CrossEntropy, contrasts
from goalward.models.fitted import Fitted, as_fitted
from goalward.models.linear import Linear
from goalward.models.model import Model
from goalward.models.network import Network
from goalward.models.objective import Hessian, Labelled, Objective
from goalward.models.refitted import Refitted
from goalward.models.validity import Validity, inspected

__all__ = [
    "CrossEntropy",
    "Fitted",
    "Hessian",
    "Labelled",
    "Linear",
    "Model",
    "Network",
    "Objective",
    "Refitted",
    "Validity",
    "as_fitted",
    "contrasts",
    "inspected",
]

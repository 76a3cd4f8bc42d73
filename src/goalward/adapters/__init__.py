"""Other libraries at the door."""

from goalward.adapters.classifier import from_classifier
from goalward.adapters.sklearn import from_sklearn
from goalward.adapters.torch import from_torch

__all__ = ["from_classifier", "from_sklearn", "from_torch"]

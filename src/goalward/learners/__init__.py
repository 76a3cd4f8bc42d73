"""Labelled rows -> Fitted."""

from goalward.learners.classifier import LogisticClassifier
from goalward.learners.cross_validation import CrossValidation, cross_validate
from goalward.learners.logistic import Logistic
from goalward.learners.multi_label import MultiLabel
from goalward.learners.opinion import Opinion
from goalward.learners.ridge import Ridge

__all__ = [
    "CrossValidation",
    "Logistic",
    "LogisticClassifier",
    "MultiLabel",
    "Opinion",
    "Ridge",
    "cross_validate",
]

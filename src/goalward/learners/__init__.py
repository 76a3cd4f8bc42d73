"""Labelled rows -> Fitted."""

from goalward.learners.classifier import LogisticClassifier
from goalward.learners.cross_validation import CrossValidation, cross_validate
from goalward.learners.logistic import Logistic

__all__ = ["CrossValidation", "Logistic", "LogisticClassifier", "cross_validate"]

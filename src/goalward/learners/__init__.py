"""Labelled rows -> Fitted."""

from goalward.learners.classifier import LogisticClassifier
from goalward.learners.cross_validation import CrossValidation, cross_validate
from goalward.learners.logistic import Logistic
from goalward.learners.opinion import Opinion

__all__ = ["CrossValidation", "Logistic", "LogisticClassifier", "Opinion", "cross_validate"]

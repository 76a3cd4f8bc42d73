"""Labelled rows -> Fitted; unlabelled ones -> Candidates."""

from goalward.learners.candidates import Candidates
from goalward.learners.classifier import LogisticClassifier
from goalward.learners.cross_validation import CrossValidation, cross_validate
from goalward.learners.fitted import Fitted, as_fitted
from goalward.learners.logistic import Logistic
from goalward.learners.objective import Hessian, Labelled, Objective
from goalward.learners.posterior import Posterior
from goalward.learners.validity import Validity, inspected

__all__ = [
    "Candidates",
    "CrossValidation",
    "Fitted",
    "Hessian",
    "Labelled",
    "Logistic",
    "LogisticClassifier",
    "Objective",
    "Posterior",
    "Validity",
    "as_fitted",
    "cross_validate",
    "inspected",
]

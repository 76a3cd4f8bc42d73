"""Conformance checks: for this project's parts, and for those that others add.

Each check raises `AssertionError` with what differed. They need only the library itself.
"""

from goalward.testing.check_engine import check_engine
from goalward.testing.check_goal import check_goal
from goalward.testing.check_loss import check_loss
from goalward.testing.check_model import check_model
from goalward.testing.check_operator import check_operator
from goalward.testing.check_solver import check_solver
from goalward.testing.check_strategy import check_strategy
from goalward.testing.check_utility import check_utility
from goalward.testing.problem import Problem, problem

__all__ = [
    "Problem",
    "check_engine",
    "check_goal",
    "check_loss",
    "check_model",
    "check_operator",
    "check_solver",
    "check_strategy",
    "check_utility",
    "problem",
]

"""Conformance checks: for this project's parts, and for those that others add.

Each check raises `AssertionError` with what differed. They need only the library itself.
"""

from goalward.testing.choices import check_engine, check_operator, check_strategy, check_utility
from goalward.testing.derivatives import (
    Problem,
    check_goal,
    check_loss,
    check_model,
    check_solver,
    problem,
)

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

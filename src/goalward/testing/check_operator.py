"""What an operator must satisfy."""

from __future__ import annotations

import numpy as np

from goalward.labels import Operator
from goalward.strategies import GoalOriented
from goalward.testing.problem import problem
from goalward.utility import FirstOrder

__all__ = ["check_operator"]


def check_operator(operator: Operator, *, between: bool = True) -> None:
    """Check that `operator` gives one number per row, row by row.

    Parameters
    ----------
    between
        Whether the number must lie between the worst and the best label's utility; not so
        for spreads and probabilities.

    Examples
    --------
    >>> from goalward.labels import WorstCase
    >>> check_operator(WorstCase())
    """
    task = problem()
    fitted, X = task.fitted, task.X_pool
    utility = FirstOrder()(fitted, task.goal, X)
    rows = np.arange(len(X))
    before = utility.copy()
    got = operator(utility, fitted, X, rows=rows)
    assert got.shape == (len(X),), f"{operator!r} returned shape {got.shape}"
    assert np.all(np.isfinite(got)), f"{operator!r} returned numbers that are not finite"
    assert np.array_equal(before, utility), f"{operator!r} changed the utilities"
    order = np.random.default_rng(0).permutation(len(X))
    moved = operator(utility[order], fitted, X[order], rows=rows[order])
    np.testing.assert_allclose(
        moved, got[order], atol=1e-12, err_msg=f"{operator!r} depends on the order of rows"
    )
    scored = GoalOriented(task.goal, operator=operator).suggest(fitted, X, 1).utility
    np.testing.assert_allclose(
        scored, got, atol=1e-10, err_msg=f"{operator!r} is not its statistic {operator.statistic!r}"
    )
    if between:
        slack = 1e-12 * np.abs(utility).max()
        assert np.all(got >= utility.min(axis=1) - slack), f"{operator!r} is below the worst label"
        assert np.all(got <= utility.max(axis=1) + slack), f"{operator!r} is above the best label"

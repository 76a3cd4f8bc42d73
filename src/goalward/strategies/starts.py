"""What is asked while fewer than two classes have labels: rows that cover the pool."""

from __future__ import annotations

from typing import Any

from goalward.goals import Coverage
from goalward.selection import Sequential
from goalward.strategies.among import Subsampled
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.reference import reference_rows
from goalward.strategies.strategy import Strategy

__all__ = ["cold_start"]

CANDIDATES = 4000
"""Rows of a large pool that are looked at, drawn anew each round."""


def cold_start(X: Any, *, seed: int = 0) -> Strategy:
    """Return the strategy of the first rounds, before there is a boundary to speak of.

    Rows near which many others are, each covering another part: MaxHerding (Bae et al. 2024, arXiv
    2407.12212), which `Coverage` is while nothing is known. `Strategy.suggest` takes it by itself.

    Parameters
    ----------
    X
        The pool, or where the model will be used.

    Examples
    --------
    >>> import numpy as np
    >>> import goalward as gw
    >>> from goalward.strategies import Margin, cold_start
    >>> X = [[0.0, 1.0], [0.1, 1.0], [0.2, 1.0], [1.0, 0.0]]
    >>> learner = gw.Logistic(classes=["a", "b"], penalize_intercept="until-seen")
    >>> nothing = learner.fit(np.empty((0, 2)), [])
    >>> cold_start(X).suggest(nothing, X, batch=2).rows
    array([1, 3])
    >>> Margin().suggest(nothing, X, batch=2).rows
    array([1, 3])
    """
    cover = GoalOriented(Coverage(reference_rows(X)), selection=Sequential(), seed=seed)
    return Subsampled(cover, candidates=CANDIDATES, seed=seed)

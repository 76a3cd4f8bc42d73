"""What a study asks before there is a model: rows that cover its pool."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.learners import Logistic
from goalward.strategies import cold_start
from goalward.strategies.reference import drawn_rows
from goalward.study.pools import StudyPool
from goalward.study.prices import prices
from goalward.study.settings import Settings

__all__ = ["first_rows"]

FIRST = 64
"""Rows chosen so; where two classes are not among them, a random order goes on."""
CANDIDATES = 2000


def first_rows(pool: StudyPool, settings: Settings) -> NDArray[Any]:
    """Return the rows to ask first, by the pool and the seed alone; none if random ones are wanted."""
    rows = drawn_rows(pool.n_rows, CANDIDATES, settings.seed, "start")
    rows = rows[~settings.is_dev(rows)]
    if settings.strategy == "random" or not len(rows):
        return np.empty(0, dtype=np.int64)
    X = pool.take(rows)
    nothing = Logistic(classes=[0, 1], penalize_intercept=True).fit(X[:0], [])
    reference = pool.take(drawn_rows(pool.n_rows, settings.goal_rows, settings.seed))
    strategy = cold_start(reference, seed=settings.seed)
    costs = prices(pool, settings.costs)
    costs = None if costs is None else costs[rows]
    chosen = strategy.suggest(nothing, X, batch=min(FIRST, len(rows)), rows=rows, costs=costs)
    return np.asarray(chosen.rows)

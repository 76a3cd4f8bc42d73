"""modAL: a goal as the `query_strategy` of its learners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.adapters.classifier import from_estimator
from goalward.core.pool import n_rows
from goalward.errors import Empty
from goalward.goals import Goal
from goalward.strategies import GoalOriented
from goalward.strategies.strategy import nameless

__all__ = ["modal_query"]


def modal_query(goal: Goal, **options: Any) -> Callable[..., tuple[NDArray[Any], NDArray[Any]]]:
    """Return a `query_strategy(learner, X_pool, n_instances=1)` for modAL's `ActiveLearner`.

    The learner's estimator should be a `LogisticRegression` or a pipeline that ends in one; with
    `utility=Retrain()` anything with `predict_proba` will do. modAL itself is not imported: any
    object with `estimator`, `X_training` and `y_training` is a learner.

    A pool of modAL shrinks and its rows have no names. `Truth(labels)`, which looks rows up, needs
    them: `learner.query(X_pool[left], n_instances=5, rows=left)`. Schedules follow the number of
    labelled rows, or a `round=` that is passed in the same way.

    Parameters
    ----------
    goal
        What should get better.
    options
        operator, utility, selection and seed of `gw.GoalOriented`.

    Examples
    --------
    >>> import goalward as gw
    >>> from types import SimpleNamespace
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = [[0.0], [1.0]], [0, 1]
    >>> learner = SimpleNamespace(estimator=LogisticRegression().fit(X, y), X_training=X, y_training=y)
    >>> query = gw.adapters.modal_query(gw.goals.DevLoss([[2.0], [-1.0]], [1, 0]))
    >>> positions, utilities = query(learner, [[0.5], [3.0]], n_instances=1)
    >>> positions
    array([0])
    """
    strategy = GoalOriented(goal, **options)

    def query_strategy(
        learner: Any,
        X_pool: Any,
        n_instances: int = 1,
        *,
        rows: Any = None,
        round: int | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the positions of the rows worth a label, and their utilities.

        A pair, as modAL's own strategies do: it takes two positions alone for one.
        """
        if learner.X_training is None or not len(np.shape(learner.y_training)):
            raise Empty(
                "The learner has no training rows; some were expected. Pass X_training and "
                "y_training to ActiveLearner, or teach it first."
            )
        fitted = from_estimator(learner.estimator, learner.X_training, learner.y_training)
        ids = nameless("X_pool", n_rows(X_pool)) if rows is None else rows
        found = strategy.suggest(fitted, X_pool, n_instances, rows=ids, round=round)
        return found.positions, found.values

    return query_strategy

"""What a strategy must satisfy."""

from __future__ import annotations

import numpy as np

from goalward.errors import BadParameter, PoolExhausted
from goalward.strategies import Strategy
from goalward.testing.problem import Problem, problem

__all__ = ["check_strategy"]


def check_strategy(strategy: Strategy, task: Problem | None = None) -> None:
    """Check that `strategy` returns distinct free rows, the same for the same seed.

    Parameters
    ----------
    task
        A task that fits the strategy's goal; a random one by default.

    Examples
    --------
    >>> from goalward.strategies import Margin
    >>> check_strategy(Margin())
    """
    task = task or problem()
    fitted, X = task.fitted, task.X_pool
    before = X.copy()
    suggestion = strategy.suggest(fitted, X, batch=5)
    rows = suggestion.rows
    assert rows.shape == (5,), f"{strategy!r} returned {rows.shape} rows for a batch of 5"
    assert len(set(rows.tolist())) == 5, f"{strategy!r} returned a row twice: {rows}"
    assert suggestion.utility.shape == (len(X),), "utility is not one number per row of the pool"
    assert np.array_equal(before, X), f"{strategy!r} changed the pool"
    again = strategy.suggest(fitted, X, batch=5).rows
    assert np.array_equal(rows, again), f"{strategy!r} chose {rows}, then {again}"
    rest = strategy.suggest(fitted, X, batch=5, exclude=rows).rows
    assert not set(rows.tolist()) & set(rest.tolist()), f"{strategy!r} chose an excluded row"
    ids = 1000 + np.arange(len(X))
    named = strategy.suggest(fitted, X, batch=5, rows=ids).rows
    assert set(named.tolist()) <= set(ids.tolist()), f"{strategy!r} ignored the rows' ids"
    everything = strategy.suggest(fitted, X, batch=len(X)).rows
    assert sorted(everything.tolist()) == list(range(len(X))), "the whole pool is not each row once"
    for batch, error in ((0, BadParameter), (len(X) + 1, PoolExhausted)):
        try:
            strategy.suggest(fitted, X, batch=batch)
        except error:
            continue
        raise AssertionError(f"{strategy!r} accepted a batch of {batch} from {len(X)} rows")

"""What an engine must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

from goalward.core.arrays import namespace
from goalward.core.candidates import Candidates
from goalward.errors import Unsupported
from goalward.labels import Expected, Spread, Truth
from goalward.selection import Sequential
from goalward.selection.best import Best
from goalward.strategies import GoalOriented, Margin, Random
from goalward.strategies.engine import Engine, Memory
from goalward.strategies.request import Request
from goalward.strategies.uncertainty import RowRule
from goalward.testing.problem import problem

__all__ = ["check_engine"]

N_POOL = 3_600
"""More rows than the smallest block for ten classes has."""


def check_engine(engine: Engine, stored: Any = None) -> None:
    """Check that `engine` gives the rows of `Memory()`, whatever the strategy.

    It may refuse a strategy with `Unsupported`, but not all of them.

    Parameters
    ----------
    stored
        Makes of an array the pool that the engine reads: a file, for one that reads no arrays.

    Examples
    --------
    >>> from goalward.scale import Threads
    >>> check_engine(Threads(n_jobs=2))
    """
    task = problem(n_classes=10, n_labelled=60, n_pool=N_POOL)
    fitted, goal, X = task.fitted, task.goal, task.X_pool
    pool = X if stored is None else stored(X)
    names = 10_000 + np.arange(N_POOL)
    truth = Truth(dict(zip(names.tolist(), task.y_pool.tolist(), strict=True)))
    served = 0
    for strategy in (
        Margin(),
        Random(),
        GoalOriented(goal),
        GoalOriented(goal, operator=Expected(truth)),
        GoalOriented(goal, operator=Spread(), selection=Sequential()),
    ):
        asked: dict[str, Any] = {"batch": 8, "exclude": names[::3], "rows": names}
        want = strategy.suggest(fitted, X, **asked)
        try:
            got = strategy.suggest(fitted, pool, engine=engine, **asked)
        except Unsupported:
            continue
        served += 1
        assert got.rows.tolist() == want.rows.tolist(), (
            f"{engine!r} gave {got.rows} for {strategy!r}; Memory() gives {want.rows}"
        )
        np.testing.assert_allclose(got.values, want.values, rtol=1e-6, err_msg=repr(engine))
    assert served, f"{engine!r} refused every strategy"
    _check_kept(engine, Request.of(fitted, pool, 1, exclude=range(0, N_POOL, 2)))


def _check_kept(engine: Engine, request: Request) -> None:
    """Check which rows are kept where many score the same, and that the given ones stay."""
    rule = RowRule(_coarse, anywhere=True)
    for count in (1, 300, N_POOL):
        kept = Best(count, np.uint64(7))
        got, want = (each.scan(rule, request, kept) for each in (engine, Memory()))
        assert len(kept.rows) == 0, f"{engine!r} changed the `kept` it was given"
        rows, expected = (r.positions[np.isfinite(r.values)] for r in (got, want))
        assert np.array_equal(rows, expected), (
            f"{engine!r} kept other rows than Memory() of {count}, or in another order: excluded "
            "rows are at -inf, and equal ones come in the order of `Best`"
        )
    if engine.whole:
        everything = engine.scan(rule, request, None)
        assert everything.utility is not None, f"{engine!r} is whole and gave no `utility`"
        assert len(everything.positions) == len(everything.utility) == N_POOL


def _coarse(rows: Candidates) -> Any:
    xp = namespace(rows.proba)
    return xp.round(10.0 * xp.max(rows.proba, axis=1))

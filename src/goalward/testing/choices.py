"""What utilities, operators, strategies and engines must satisfy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from goalward.core.arrays import namespace
from goalward.core.rows import Candidates
from goalward.errors import BadParameter, Unsupported
from goalward.goals import Coverage, DecisionRisk
from goalward.labels import Expected, Operator, Spread, Truth
from goalward.strategies import Among, GoalOriented, Margin, Random, Strategy
from goalward.strategies.engine import Engine, Memory
from goalward.strategies.selectors import Best, Sequential
from goalward.strategies.strategy import Request
from goalward.strategies.uncertainty import RowRule
from goalward.testing.derivatives import Problem, problem, same
from goalward.utility import FirstOrder, Retrain, Utility

N_POOL = 3_600
"""More rows than the smallest block for ten classes has."""


def check_utility(
    utility: Utility, *, rank: float = 0.9, rtol: float | None = None, linear: bool = False
) -> None:
    """Check shapes, independence of blocks, batches, and agreement with retraining.

    The rank correlation with retraining over all (row, label) pairs must reach `rank`; with `rtol`
    the values must agree, to this much of their scale; with `linear` the utility of twice a goal
    must be twice that of the goal.

    Examples
    --------
    >>> from goalward.utility import FirstOrder
    >>> check_utility(FirstOrder(), linear=True)
    """
    for n_classes in (2, 3):
        task = problem(n_classes=n_classes, n_labelled=60, C=0.5)
        fitted, goal, X = task.fitted, task.goal, task.X_pool
        before = X.copy()
        whole = utility(fitted, goal, X)
        assert whole.shape == (len(X), n_classes), f"{utility!r} returned {whole.shape}"
        assert np.all(np.isfinite(whole)), f"{utility!r} returned numbers that are not finite"
        assert np.array_equal(before, X), f"{utility!r} changed the pool"
        scale = np.abs(whole).max()
        parts = np.vstack([utility(fitted, goal, X[:7]), utility(fitted, goal, X[7:])])
        same(parts, whole, f"{utility!r} depends on how the pool is cut", atol=1e-7 * scale)
        if linear:
            message = f"{utility!r} is not linear in the goal"
            same(utility(fitted, 2.0 * goal, X), 2.0 * whole, message, atol=1e-9 * scale)
        _check_batches(utility, task, whole)
        truth = Retrain()(fitted, goal, X)
        reached = spearmanr(truth.ravel(), whole.ravel()).statistic
        message = f"{utility!r} has a rank correlation of {reached:.3f} with retraining, not {rank}"
        assert reached >= rank, message
        if rtol is not None:
            atol = rtol * np.abs(truth).max()
            same(whole, truth, f"{utility!r} differs from retraining", atol=atol)


def _check_batches(utility: Utility, task: Problem, whole: Any) -> None:
    batch, X = partial(utility.batch, task.fitted, task.goal), task.X_pool
    single = whole[:4]
    scale = np.abs(single).max()
    message = f"batches of one row differ from rows, under {utility!r}"
    same(batch(X[:4][:, None, :]), single, message, atol=1e-6 * scale)
    classes = task.fitted.classes
    pairs = batch(X[None, :2])
    assert pairs.shape == (1, len(classes) ** 2), f"{utility!r}.batch returned {pairs.shape}"
    labelings = np.array([[a, b] for a in classes for b in classes])
    message = f"labels=None is not all labelings in order, under {utility!r}"
    same(batch(X[None, :2], labels=labelings), pairs, message, atol=1e-9 * scale)


def check_operator(operator: Operator, *, between: bool = True) -> None:
    """Check that `operator` gives one number per row, row by row.

    With `between` it must lie between the worst and the best label's utility; for spreads and
    probabilities it does not.

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
    same(moved, got[order], f"{operator!r} depends on the order of rows", atol=1e-12)
    scored = GoalOriented(task.goal, operator=operator).suggest(fitted, X, 1).utility
    same(scored, got, f"{operator!r} is not its statistic {operator.statistic!r}", atol=1e-10)
    if between:
        slack = 1e-12 * np.abs(utility).max()
        assert np.all(got >= utility.min(axis=1) - slack), f"{operator!r} is below the worst label"
        assert np.all(got <= utility.max(axis=1) + slack), f"{operator!r} is above the best label"


def check_strategy(strategy: Strategy, task: Problem | None = None) -> None:
    """Check that `strategy` returns distinct free rows, the same for the same seed.

    `task` must fit the strategy's goal; a random one by default.

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
    few = strategy.suggest(fitted, X, batch=5, exclude=range(2, len(X))).rows
    assert sorted(few.tolist()) == [0, 1], f"{strategy!r} chose {few} where rows 0 and 1 were left"
    none = strategy.suggest(fitted, X, batch=5, exclude=range(len(X))).rows
    assert len(none) == 0, f"{strategy!r} chose {none} where no row was left"
    try:
        strategy.suggest(fitted, X, batch=0)
    except BadParameter:
        return
    raise AssertionError(f"{strategy!r} accepted a batch of 0")


def check_engine(engine: Engine, stored: Any = None) -> None:
    """Check that `engine` gives the rows of `Memory()`, whatever the strategy.

    It may refuse a strategy with `Unsupported`, but not all of them. `stored` makes of an array the
    pool that the engine reads: a file, for one that reads no arrays.

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
        Among(GoalOriented(DecisionRisk(X[:100]), selection=Sequential()), most=300),
        Among(GoalOriented(Coverage(X[:100]), selection=Sequential()), by=Random(), most=300),
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

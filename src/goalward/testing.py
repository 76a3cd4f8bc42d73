"""Conformance checks of goals, models, solvers and other parts, which raise `AssertionError`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from goalward.core.arrays import namespace, to_numpy
from goalward.core.rows import Candidates
from goalward.errors import BadParameter, Unsupported
from goalward.goals import Coverage, DecisionRisk, DevLoss, Goal
from goalward.labels import Expected, Operator, Spread, Truth
from goalward.models import Fitted, Loss
from goalward.models.logistic import Logistic
from goalward.strategies import Among, GoalOriented, Margin, Random, Strategy
from goalward.strategies.engine import Engine, Memory
from goalward.strategies.selectors import Best, Sequential
from goalward.strategies.strategy import Request
from goalward.strategies.uncertainty import RowRule
from goalward.utility import FirstOrder, Retrain, Utility

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

STEP = 1e-5  # of central differences, with errors of about 1e-10
N_POOL = 3_600  # more rows than the smallest block for ten classes has


@dataclass(frozen=True)
class Problem:
    """Labelled, pool and dev rows of one random classification task, and a fitted model."""

    X: NDArray[Any] = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    X_pool: NDArray[Any] = field(repr=False)
    y_pool: NDArray[Any] = field(repr=False)
    X_dev: NDArray[Any] = field(repr=False)
    y_dev: NDArray[Any] = field(repr=False)
    learner: Logistic
    fitted: Fitted = field(repr=False)

    @cached_property
    def goal(self) -> DevLoss:
        return DevLoss(self.X_dev, self.y_dev)


def problem(
    *,
    seed: int = 0,
    n_classes: int = 3,
    n_features: int = 4,
    n_labelled: int = 30,
    n_pool: int = 40,
    n_dev: int = 25,
    **options: Any,
) -> Problem:
    """Return a task whose labels follow a random softmax model; `options` go to Logistic.

    Examples
    --------
    >>> problem(n_classes=2).fitted.n_classes
    2
    """
    rng = np.random.default_rng(seed)
    total = n_labelled + n_pool + n_dev
    X = rng.normal(size=(total, n_features))
    noise = rng.gumbel(size=(total, n_classes))
    y = np.argmax(X @ rng.normal(scale=1.5, size=(n_features, n_classes)) + noise, axis=1)
    y[:n_classes] = np.arange(n_classes)
    cuts = [n_labelled, n_labelled + n_pool]
    (X_l, X_p, X_d), (y_l, y_p, y_d) = np.split(X, cuts), np.split(y, cuts)
    learner = Logistic(**{"tol": 1e-11, **options})
    return Problem(X_l, y_l, X_p, y_p, X_d, y_d, learner, learner.fit(X_l, y_l))


def same(got: Any, expected: Any, message: str, rtol: float = 1e-7, atol: float = 0.0) -> None:
    """Raise with the message unless arrays agree."""
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, err_msg=message)


def check_goal(goal: Goal, fitted: Fitted, *, rtol: float = 1e-6, seed: int = 0) -> None:
    """Check value, gradient and curvature of `goal` at a NumPy model, against differences.

    Examples
    --------
    >>> from goalward.goals import Entropy
    >>> task = problem()
    >>> check_goal(Entropy(task.X_pool), task.fitted)
    """
    rng, value = np.random.default_rng(seed), goal.value(fitted)
    assert np.isfinite(value), f"{goal!r} has the value {value}"
    v = rng.normal(size=fitted.params.shape)
    for weight, X, kernel in goal.terms(fitted):
        assert np.isfinite(weight)
        logits = to_numpy(fitted.logits_of(X))
        u, (s, other) = kernel.cotangent(logits), rng.normal(size=(2, *logits.shape))
        if fitted.loss.kind == "class":
            message = f"{goal!r} changes when a constant is added to all logits of a row"
            same(u.sum(axis=1), 0.0, message, atol=1e-9 * max(1.0, np.abs(u).max()))
        bent = kernel.curvature(logits, s)
        scale = max(np.abs(bent).max(), 1e-12)
        message = f"the curvature of {goal!r} is not the slope of its cotangent"
        slope = _slope(kernel.cotangent, logits, s)
        same(bent, slope, message, rtol, max(1e-5, 10 * rtol) * scale)
        turned = np.sum(s * kernel.curvature(logits, other))
        message = f"the curvature of {goal!r} is not symmetric"
        same(np.sum(other * bent), turned, message, max(1e-5, rtol), atol=1e-6 * scale)
        models = np.stack([logits, logits + s])
        message = f"{goal!r} of stacked models differs from one model at a time"
        same(kernel.value(models), [float(kernel.value(f)) for f in models], message, 1e-10)
    # Last: a wrong kernel makes the gradient wrong, and its message says more.
    gradient = to_numpy(goal.gradient(fitted))
    assert gradient.shape == v.shape, f"the gradient of {goal!r} has shape {gradient.shape}"
    h = STEP / float(np.linalg.norm(v))
    slope = _slope(lambda params: goal.value(replace(fitted, params=params)), fitted.params, v, h)
    # Central differences of a value τ carry rounding of τ over h.
    rounding = float(1e-14 * abs(value) / h + 1e-9)
    message = f"the gradient of {goal!r} is not the slope of its value"
    same(np.sum(gradient * v), slope, message, rtol, rounding)


def check_loss(loss: Loss, n_outcomes: int = 3, seed: int = 0) -> None:
    """Check a loss against differences, in NumPy, and its faster methods against the definitions.

    Examples
    --------
    >>> from goalward.models import Softmax
    >>> check_loss(Softmax())
    """
    rng = np.random.default_rng(seed)
    f, s = rng.normal(size=(2, 6, n_outcomes))
    t = loss.proba(rng.normal(size=f.shape))
    p, Q = loss.proba(f), loss.basis(n_outcomes, f)
    units = [np.broadcast_to(e, f.shape) for e in np.eye(len(Q))]

    def agree(got: Any, expected: Any, message: str) -> None:
        same(got, expected, message, rtol=1e-6, atol=1e-8)

    slope = np.sum(loss.slope(f, t) * s, axis=1)
    agree(slope, _slope(lambda f: loss.rows(f, t), f, s), "slope is not that of rows")
    bent = loss.curvature(p, s)
    expected = _slope(lambda f: loss.slope(f, t), f, s)
    agree(bent, expected, "curvature is not the slope of slope")
    expected = _slope(lambda f: loss.blocks(loss.proba(f)), f, s)
    agree(loss.third(p, s), expected, "third is not the slope of blocks")
    answers = np.broadcast_to(loss.answers(p), (len(f), loss.n_answers(n_outcomes), n_outcomes))
    along = [np.sum(loss.slope(f, answers[:, a]) * s, axis=1) for a in range(answers.shape[1])]
    agree(loss.along(p, s), np.stack(along, axis=1), "along is not ⟨slope, motion⟩ of every answer")
    chances, asked = loss.chances(p), 1 if loss.kind == "class" else n_outcomes
    totals = chances.reshape(len(f), asked, -1).sum(axis=2)
    agree(totals, 1.0, "the chances of a question's answers do not sum to 1")
    away = answers - p[:, None, :]
    agree(np.einsum("nl,nlk->nk", chances, away), 0.0, "answers are not p in the mean")
    agree(loss.supposed(chances, p), p, "supposed is not the mean of the answers")
    agree(loss.supposed(loss.standing_for(t, p), p), t, "standing_for does not make the target")

    agree(Q.T @ Q, np.eye(Q.shape[1]), "the basis is not orthonormal")
    unseen = np.broadcast_to(loss.unseen(s), s.shape)
    agree(s - s @ Q @ Q.T, unseen, "unseen is not what lies outside the basis")
    agree(loss.proba(f + unseen), p, "a direction outside the basis changes the law of a label")

    full = np.stack([loss.curvature(p, e) for e in units], axis=2)
    inside = Q.T @ full @ Q
    agree(loss.blocks(p), inside, "blocks are not QᵀΛQ")
    L = loss.factors(p)
    agree(L @ L.transpose(0, 2, 1), inside, "factors do not multiply to blocks")
    agree(loss.diagonal(p), np.diagonal(full, axis1=1, axis2=2), "diagonal is not that of Λ")
    w = rng.uniform(0.5, 2.0, size=len(f))
    mean = np.average(full, axis=0, weights=w)
    agree(loss.mean_curvature(p, w), mean, "mean_curvature is not the weighted mean of Λ")
    agree(loss.weighted(p, w)(s), w[:, None] * bent, "weighted is not wΛs")
    columns = loss.columns(Q)
    law = columns.T @ loss.law(columns @ (f @ Q)[:, :, None])
    agree(law[:, :, 0], loss.proba(f @ Q @ Q.T) @ Q, "law is not Qᵀp at Qf")


def check_model(model: Any, n_features: int = 4, n_classes: int = 3, seed: int = 0) -> None:
    """Check that `vjp` is the adjoint of `jvp`, and `jvp` the slope of `logits`.

    Examples
    --------
    >>> from goalward.models import LinearModel
    >>> check_model(LinearModel(intercept=True))
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(7, n_features))
    params, v = rng.normal(size=(2, model.n_params(n_features), n_classes))
    c = rng.normal(size=(7, n_classes))
    motion = model.jvp(X, v)
    right = np.sum(v * model.vjp(X, c))
    same(np.sum(motion * c), right, "⟨Jv, c⟩ differs from ⟨v, Jᵀc⟩", 1e-12)
    slope = _slope(lambda params: model.logits(params, X), params, v)
    same(motion, slope, "jvp is not the slope of logits", 1e-6, 1e-8)


def check_solver(solver: Any, *, rtol: float = 1e-6) -> None:
    """Check `solver` against the pseudo-inverse, on every kind of intercept and K = 2, 3, 5.

    Examples
    --------
    >>> from goalward.solvers import Cholesky
    >>> check_solver(Cholesky())
    """
    intercepts = ((True, False), (True, True), (False, False))
    for n_classes, (intercept, penalised), n_features in product((2, 3, 5), intercepts, (3, 40)):
        task = problem(
            n_classes=n_classes,
            n_features=n_features,
            fit_intercept=intercept,
            penalize_intercept=penalised,
            seed=n_classes,
        )
        hessian, g = task.fitted.hessian, task.goal.gradient(task.fitted)
        solve = solver.prepare(hessian)
        solution = solve(g)
        exact = (np.linalg.pinv(explicit(hessian), rcond=1e-12) @ g.ravel()).reshape(g.shape)
        scale = np.abs(exact).max()
        message = f"{solver!r} differs from the least-norm solution"
        same(solution.value, exact, message, atol=rtol * scale)
        residual = np.linalg.norm(hessian.matvec(solution.value) - g) / np.linalg.norm(g)
        assert abs(solution.residual - residual) <= 1e-12, (
            f"{solver!r} reports a residual of {solution.residual:.1e}; it is {residual:.1e}"
        )
        twice = 2.0 * solution.value
        same(solve(2.0 * g).value, twice, f"{solver!r} is not linear", atol=10 * rtol * scale)
        assert not np.any(solve(np.zeros_like(g)).value), f"{solver!r} of zero is not zero"


def explicit(hessian: Any) -> NDArray[Any]:
    """Return 𝓗 as a (pK, pK) matrix, column by column from its products."""
    units = np.eye(np.prod(hessian.shape)).reshape(-1, *hessian.shape)
    return np.array([hessian.matvec(unit).ravel() for unit in units]).T


def _slope(values: Callable[[Any], Any], at: Any, along: Any, h: float = STEP) -> Any:
    return (values(at + h * along) - values(at - h * along)) / (2 * h)


def check_utility(
    utility: Utility, *, rank: float = 0.9, rtol: float | None = None, linear: bool = False
) -> None:
    """Check shapes, independence of blocks, batches, and agreement with retraining.

    The rank correlation must reach `rank`, and values agree to `rtol` of their scale; `linear` utilities
    double with the goal.

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
        assert reached >= rank, f"{utility!r} has rank correlation {reached:.3f} with retraining"
        if rtol is not None:
            message, atol = f"{utility!r} differs from retraining", rtol * np.abs(truth).max()
            same(whole, truth, message, atol=atol)


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
    """Check that `operator` gives one number per row: with `between`, from the worst to the best label's.

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
    """Check that `strategy` returns distinct free rows of `task`, the same for the same seed.

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
    """Check that `engine` gives the rows of `Memory()`, or refuses a strategy with `Unsupported`.

    `stored` turns an array into the pool that the engine reads, such as a file.

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
    rule = RowRule(_coarse, parallel=True)
    for count in (1, 300, N_POOL):
        kept = Best(count, np.uint64(7))
        got, want = (each.scan(rule, request, kept) for each in (engine, Memory()))
        assert len(kept.rows) == 0, f"{engine!r} changed the `kept` it was given"
        rows, expected = (r.positions[np.isfinite(r.values)] for r in (got, want))
        assert np.array_equal(rows, expected), (
            f"{engine!r} kept other rows of {count} than Memory(), or in another order than `Best`"
        )
    if engine.whole:
        everything = engine.scan(rule, request, None)
        assert everything.utility is not None, f"{engine!r} is whole and gave no `utility`"
        assert len(everything.positions) == len(everything.utility) == N_POOL


def _coarse(rows: Candidates) -> Any:
    xp = namespace(rows.proba)
    return xp.round(10.0 * xp.max(rows.proba, axis=1))

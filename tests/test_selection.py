import numpy as np
import pytest
import scipy.sparse as sp

import goalward as gw
from goalward.core.arrays import to_numpy
from goalward.labels import BestCase, Expected, Predicted, Spread, Truth, WorstCase
from goalward.solvers import Cholesky, Updated, fits
from goalward.strategies import Margin
from goalward.strategies.selectors import Sequential, Shortlist, Stochastic, Top
from goalward.testing import check_strategy, explicit, problem
from goalward.utility import FirstOrder, ImplicitStep
from goalward.utility.utility import LookAhead

TASK = problem(n_pool=60)
SELECTORS = [
    Sequential(),
    Sequential(update="curvature"),
    Sequential(shortlist=None),
    Stochastic(),
]


def strategy(selection, operator=None, **options):
    return gw.GoalOriented(TASK.goal, operator=operator or Spread(), selection=selection, **options)


@pytest.mark.parametrize("selection", SELECTORS, ids=repr)
def test_selectors_conform_within_a_strategy(selection):
    check_strategy(strategy(selection), TASK)


@pytest.mark.parametrize("update", ["believed", "curvature"])
@pytest.mark.parametrize("utility", [FirstOrder(), ImplicitStep()], ids=repr)
def test_sequential_is_refitting_with_what_was_supposed(update, utility):
    """Against a plain loop: fit with the soft labels so far, score everything, take the best."""
    belief = Predicted(2.0)
    operator = Spread(belief)
    got = strategy(Sequential(update=update, shortlist=None), operator, utility=utility)
    got = got.suggest(TASK.fitted, TASK.X_pool, 4).rows
    fitted, taken = TASK.fitted, []
    X, T = TASK.X, np.eye(3)[TASK.y]
    for _ in range(4):
        values = operator(utility(fitted, TASK.goal, TASK.X_pool), fitted, TASK.X_pool)
        values[taken] = -np.inf
        taken.append(int(values.argmax()))
        x = TASK.X_pool[taken[-1] :][:1]
        p = fitted.predict_proba(x)
        target = p if update == "curvature" else np.sqrt(p) / np.sqrt(p).sum()
        X, T = np.vstack([X, x]), np.vstack([T, target])
        fitted = gw.Logistic(tol=1e-11).fit(X, T)
    assert got.tolist() == taken


def test_absorbing_a_prediction_adds_curvature_and_moves_nothing():
    """𝓗 + J_xᵀΛJ_x, and the same parameters: the row's slope p - p is zero."""
    row = TASK.fitted.candidates(TASK.X_pool, np.arange(60)).at(7)
    supposed = LookAhead(TASK.fitted, TASK.goal, FirstOrder())
    moved = supposed.after(row, None).fitted
    np.testing.assert_array_equal(moved.params, TASK.fitted.params)
    p = TASK.fitted.predict_proba(TASK.X_pool[7:8])[0]
    x = np.append(TASK.X_pool[7], 1.0)
    grown = explicit(TASK.fitted.hessian) + np.kron(np.outer(x, x), np.diag(p) - np.outer(p, p))
    np.testing.assert_allclose(explicit(moved.hessian), grown, atol=1e-10)
    assert moved.flatness() < 1e-9


COPIED = [Spread(), Expected(), Expected(Predicted(2.0)), WorstCase(), BestCase()]


@pytest.mark.parametrize("operator", COPIED, ids=repr)
@pytest.mark.parametrize("update", ["believed", "curvature"])
@pytest.mark.parametrize(("n_classes", "n_labelled"), [(2, 15), (3, 50)])
def test_near_copies_of_the_best_row_are_not_taken_again(operator, update, n_classes, n_labelled):
    """20 near-copies (noise 1e-3) of the best row: at most two in a batch of 10, in every draw."""
    taken = []
    for seed in range(10):
        task = problem(n_labelled=n_labelled, n_pool=80, n_classes=n_classes, seed=seed)
        rng = np.random.default_rng(seed)
        plain = gw.GoalOriented(task.goal, operator=operator)
        best = plain.suggest(task.fitted, task.X_pool, 1).rows[0]
        copies = task.X_pool[best] + 1e-3 * rng.normal(size=(20, task.X_pool.shape[1]))
        pool = np.vstack([task.X_pool, copies])
        family = {best, *range(80, 100)}
        for selection in (Top(), Sequential(update=update)):
            strategy = gw.GoalOriented(task.goal, operator=operator, selection=selection)
            rows = strategy.suggest(task.fitted, pool, 10).rows.tolist()
            taken.append(len(family & set(rows)))
    top, sequential = taken[::2], taken[1::2]
    assert np.mean(top) >= 9
    assert max(sequential) <= 2


def test_a_pool_of_near_copies_alone_is_still_served():
    rng = np.random.default_rng(0)
    pool = TASK.X_pool[0] + 1e-6 * rng.normal(size=(6, 4))
    far = np.vstack([pool, TASK.X_pool[1:2] * 100])
    rows = strategy(Sequential()).suggest(TASK.fitted, far, 4).rows
    assert len(set(rows.tolist())) == 4
    only = strategy(Sequential(radius=0.0))
    assert len(only.suggest(TASK.fitted, far, 4).rows) == 4


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, np.ndarray.tolist])
def test_rows_equal_to_one_in_the_batch_come_last(make):
    pool = np.vstack([TASK.X_pool[:6]] * 3)
    rows = strategy(Sequential()).suggest(TASK.fitted, make(pool), 14).rows
    assert len({tuple(pool[r]) for r in rows[:6]}) == 6
    assert len(set(rows.tolist())) == 14
    assert len(strategy(Sequential()).suggest(TASK.fitted, make(pool), 19).rows) == 18


def test_the_shortlist_gives_the_rows_of_the_full_rescan():
    """Where it holds the rows that matter: 1,000 of 3,000 here."""
    task = problem(n_pool=3000, n_labelled=40)
    short, full = (
        gw.GoalOriented(task.goal, operator=Spread(), selection=Sequential(shortlist=size))
        .suggest(task.fitted, task.X_pool, 8)
        .rows
        for size in (50, None)
    )
    np.testing.assert_array_equal(short, full)


def test_beliefs_follow_the_rows_ids():
    """The oracle's labels stay aligned when rows are left out and ids are given."""
    ids = np.arange(60) + 100
    labels = dict(zip(ids.tolist(), TASK.y_pool.tolist(), strict=True))
    operator = Expected(Truth(labels))
    by_id = strategy(Sequential(), operator).suggest(TASK.fitted, TASK.X_pool, 5, rows=ids).rows
    plain = strategy(Sequential(), Expected(Truth(TASK.y_pool)))
    np.testing.assert_array_equal(by_id - 100, plain.suggest(TASK.fitted, TASK.X_pool, 5).rows)


def test_stochastic_draws_by_rank():
    """The first pick is the row of rank r with probability proportional to 1/r."""
    values = np.linspace(1, 0, 50)

    fixed = Shortlist(None, np.arange(50), values, None)
    draws = [Stochastic()(fixed, 1, np.random.default_rng(s))[0] for s in range(4000)]
    share = np.bincount(draws, minlength=50)[:3] / 4000
    chance = 1.0 / np.arange(1, 51)
    np.testing.assert_allclose(share, (chance / chance.sum())[:3], atol=0.03)
    greedy = Stochastic(beta=1e6)(fixed, 5, np.random.default_rng(0))
    assert greedy.tolist() == [0, 1, 2, 3, 4]


def test_wrong_options_and_strategies_without_a_goal_are_refused():
    with pytest.raises(gw.errors.BadParameter, match="got 'hope'"):
        Sequential(update="hope")
    with pytest.raises(gw.errors.BadParameter, match="beta must be 0 or more, got -1"):
        Stochastic(beta=-1)
    with pytest.raises(gw.errors.BadParameter, match="got -5"):
        Sequential(shortlist=-5)
    with pytest.raises(gw.errors.BadParameter, match="radius must be 0 or more, got -1"):
        Sequential(radius=-1)

    class Greedy(Margin):
        selection = Sequential()

    with pytest.raises(gw.errors.BadParameter, match="needs a strategy that looks ahead"):
        Greedy().suggest(TASK.fitted, TASK.X_pool, 3)


def test_recipes_name_the_selections():
    for name in ("sequential", "sequential-curvature", "stochastic"):
        built = gw.recipe(f"dev/spread/first-order/{name}").build(dev=(TASK.X_dev, TASK.y_dev))
        assert len(built.suggest(TASK.fitted, TASK.X_pool, 3).rows) == 3


def test_the_inverse_follows_added_rows_and_solves_exactly(to_xp):
    """Woodbury against a fresh inverse; and a solve with a Hessian that has moved on."""
    task = problem(n_features=30, n_labelled=60)
    fitted = task.learner.fit(to_xp(task.X), task.y)
    p = task.fitted.predict_proba(task.X_pool[:1])
    block = to_xp(task.fitted.loss.blocks(p)[0])
    row = to_xp(task.X_pool[:1])
    before = Updated.of(fitted.hessian)
    after = to_numpy(before.added(row, block).inverse.matrix)
    J = np.kron(np.append(task.X_pool[0], 1.0)[None, :], np.eye(2))
    grown = np.linalg.inv(to_numpy(before.inverse.matrix)) + J.T @ to_numpy(block) @ J
    np.testing.assert_allclose(after, np.linalg.inv(grown), atol=1e-9)
    g = task.goal.gradient(task.fitted)
    moved = gw.Logistic(C=0.7).fit(to_xp(task.X), task.y).hessian
    solution = before.prepare(moved)(to_xp(g))
    exact = Cholesky().prepare(gw.Logistic(C=0.7).fit(task.X, task.y).hessian)(g)
    np.testing.assert_allclose(to_numpy(solution.value), exact.value, atol=1e-6)
    assert solution.residual <= 2e-8


@pytest.mark.parametrize("update", ["believed", "curvature"])
def test_following_the_inverse_changes_no_pick(update, monkeypatch):
    task = problem(n_features=60, n_labelled=80, n_pool=300)
    sequential = gw.GoalOriented(task.goal, operator=Spread(), selection=Sequential(update=update))
    assert fits(task.fitted.hessian)
    followed = sequential.suggest(task.fitted, task.X_pool, 8).rows
    monkeypatch.setattr("goalward.utility.utility.fits", lambda hessian: False)
    plain = sequential.suggest(task.fitted, task.X_pool, 8).rows
    np.testing.assert_array_equal(followed, plain)

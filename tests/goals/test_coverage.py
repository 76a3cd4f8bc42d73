"""Coverage: what uncertain rows have a labelled row near them, and what one more would bring."""

import numpy as np
import pytest
import scipy.sparse as sp

import goalward as gw
from goalward.core.arrays import softmax, to_numpy
from goalward.errors import BadParameter, Unsupported
from goalward.goals import Coverage, Entropy
from goalward.strategies import InTurn, Margin, Random
from goalward.strategies.selectors import Sequential, Top
from goalward.testing import check_strategy, problem
from goalward.utility import Covering, FirstOrder, Retrain

TASK = problem(n_classes=3, n_pool=60)
GOAL = Coverage(TASK.X_dev, radius=0.7)


def by_hand(known, goal=GOAL, fitted=TASK.fitted, T=1.0):
    """Return Σ u_r max_l k(r, l) / m in loops."""
    R = to_numpy(goal.X)
    p = np.sort(softmax(to_numpy(fitted.logits(R)) / T), axis=1)
    total = 0.0
    for row, u in zip(R, 1.0 - (p[:, -1] - p[:, -2]), strict=True):
        gaps = [np.linalg.norm(row / np.linalg.norm(row) - x / np.linalg.norm(x)) for x in known]
        total += u * max(np.exp(-(gap**2) / goal.radius**2) for gap in gaps)
    return total / len(R)


def test_value_and_gains_are_those_of_the_definition(monkeypatch):
    monkeypatch.setattr("goalward.goals.coverage._temperatures", lambda fitted: np.ones(1))
    known = to_numpy(TASK.fitted.labelled.X)
    before = by_hand(known)
    assert GOAL.value(TASK.fitted) == pytest.approx(before, rel=1e-12)
    gains = Covering()(TASK.fitted, GOAL, TASK.X_pool[:8])
    for row, gain in zip(TASK.X_pool[:8], gains, strict=True):
        exact = by_hand([*known, row]) - before
        np.testing.assert_allclose(gain, exact, atol=1e-12)


def test_a_batch_is_greedy_on_the_value(monkeypatch):
    """Each row taken is the one that raises the value of all taken before the most."""
    monkeypatch.setattr("goalward.goals.coverage._temperatures", lambda fitted: np.ones(1))
    strategy = gw.GoalOriented(GOAL, selection=Sequential(radius=None))
    found = strategy.suggest(TASK.fitted, TASK.X_pool, 4).rows
    known = list(to_numpy(TASK.fitted.labelled.X))
    for row in found:
        values = [by_hand([*known, x]) for x in TASK.X_pool]
        assert values[row] == pytest.approx(max(values), rel=1e-12)
        known.append(TASK.X_pool[row])
    repeated = gw.GoalOriented(GOAL, selection=Top()).suggest(TASK.fitted, TASK.X_pool, 4).rows
    assert by_hand(known) > by_hand([*known[:-4], *TASK.X_pool[repeated]])


def test_max_herding_counts_all_rows_alike():
    """Greedy on Σ max_l k(r, l), each row taken the best of all by brute force; no model asked."""
    strategy = gw.recipe("max-herding").build(pool=TASK.X_dev)
    found = strategy.suggest(TASK.fitted, TASK.X_pool, 4).rows
    unit = [X / np.linalg.norm(X, axis=1)[:, None] for X in (TASK.X_dev, TASK.X_pool)]
    k = np.exp(-((unit[0][:, None, :] - unit[1][None]) ** 2).sum(axis=2))
    known = TASK.fitted.labelled.X / np.linalg.norm(TASK.fitted.labelled.X, axis=1)[:, None]
    best = np.exp(-((unit[0][:, None, :] - known[None]) ** 2).sum(axis=2)).max(axis=1)
    assert strategy.goal.value(TASK.fitted) == pytest.approx(best.mean(), rel=1e-9)
    for row in found:
        values = np.maximum(best[:, None], k).mean(axis=0)
        assert values[row] == pytest.approx(values.max(), rel=1e-12)
        best = np.maximum(best, k[:, row])
    again = gw.Logistic(C=0.01).fit(TASK.fitted.labelled.X, np.arange(len(known)) % 2)
    np.testing.assert_array_equal(strategy.suggest(again, TASK.X_pool, 4).rows, found)
    check_strategy(strategy)


def test_the_temperature_is_the_one_that_fits_rows_left_out():
    """Overfitted rows are predicted too surely, so they are made less sure."""
    from goalward.goals.coverage import _temperatures

    loose = problem(n_classes=2, n_features=20, n_labelled=30, C=100.0)
    assert _temperatures(loose.fitted) > 1.5
    tight = problem(n_features=2, n_labelled=400, C=1.0)
    assert _temperatures(tight.fitted) == pytest.approx(1.0, abs=0.25)


def several(n=60, K=3, missing=0.0):
    """Return rows with K labels of a random model, a part of which is not answered."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4))
    y = (X @ rng.normal(size=(4, K)) + rng.logistic(size=(n, K)) > 0.0).astype(float)
    y[rng.random(y.shape) < missing] = np.nan
    return X, y


def test_one_label_counts_as_two_classes_do():
    X, y = several(K=1)
    goal = Coverage(X[30:], radius=0.7)
    one = gw.MultiLabel(tol=1e-11).fit(X[:30], y[:30])
    two = gw.Logistic(C=0.5, tol=1e-11).fit(X[:30], y[:30, 0].astype(int))
    weights = goal.cover(one).weights
    np.testing.assert_allclose(weights, goal.cover(two).weights, atol=1e-9)
    assert weights.std() > 0.1 * weights.mean()


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_rows_of_several_labels_count_by_the_mean_of_what_each_label_alone_would_say(missing):
    X, y = several(missing=missing)
    goal, learner = Coverage(X[40:], radius=0.7), gw.MultiLabel(C=5.0, tol=1e-11)
    alone = []
    for k in range(3):
        told = ~np.isnan(y[:40, k])
        alone.append(goal.cover(learner.fit(X[:40][told], y[:40, [k]][told])).weights)
    together = goal.cover(learner.fit(X[:40], y[:40])).weights
    np.testing.assert_allclose(together, np.mean(alone, axis=0), atol=1e-9)
    assert not np.allclose(alone[0], alone[1], atol=1e-3)


def test_before_two_rows_have_labels_and_for_numbers_all_rows_count_alike():
    X, y = several()
    goal = Coverage(X[30:])
    for fitted in (
        gw.MultiLabel(labels=range(3)).fit(X[:0], y[:0]),
        gw.MultiLabel().fit(X[:1], y[:1]),
        gw.Ridge().fit(X[:30], y[:30]),
    ):
        np.testing.assert_allclose(goal.cover(fitted).weights, 1.0 / 30.0, rtol=1e-12)


def test_sparse_rows_float32_and_zeros():
    X = to_numpy(TASK.X_pool).copy()
    X[3] = 0.0
    plain = Covering()(TASK.fitted, Coverage(X[:30]), X)
    wide = sp.csr_array(X)
    np.testing.assert_allclose(Covering()(TASK.fitted, Coverage(wide[:30]), wide), plain, atol=1e-9)
    small = Covering()(TASK.fitted, Coverage(X[:30].astype(np.float32)), X.astype(np.float32))
    np.testing.assert_allclose(small, plain, atol=1e-5)
    assert np.isfinite(plain).all()


def test_it_is_an_ordinary_strategy_and_recipe():
    check_strategy(gw.GoalOriented(GOAL, selection=Sequential()))
    built = gw.recipe("coverage").build(pool=TASK.X_pool)
    assert str(gw.recipe("coverage")) == "coverage/average/covering/sequential"
    assert isinstance(built.utility, Covering)
    assert built.progress(TASK.fitted) > 0.0
    threads = built.suggest(TASK.fitted, TASK.X_pool, 3, engine=gw.scale.Threads(n_jobs=2))
    np.testing.assert_array_equal(threads.rows, built.suggest(TASK.fitted, TASK.X_pool, 3).rows)


def test_what_it_refuses():
    with pytest.raises(BadParameter, match="radius=0"):
        Coverage(TASK.X_pool, radius=0.0)
    with pytest.raises(BadParameter, match="every label of a row brings the same"):
        gw.GoalOriented(GOAL, operator=gw.labels.Spread())
    with pytest.raises(Unsupported, match="a gradient is needed"):
        FirstOrder()(TASK.fitted, GOAL, TASK.X_pool)
    with pytest.raises(Unsupported, match="a gradient is needed"):
        Retrain()(TASK.fitted, GOAL, TASK.X_pool)
    with pytest.raises(Unsupported, match="Coverage alone"):
        Covering()(TASK.fitted, Entropy(TASK.X_pool), TASK.X_pool)
    with pytest.raises(Unsupported, match="labelings to compare"):
        Covering().batch(TASK.fitted, GOAL, TASK.X_pool[None, :2])
    with pytest.raises(BadParameter, match="coverage/average/covering"):
        gw.recipe("coverage/average/information")
    with pytest.raises(BadParameter, match="cannot predict the goal 'dev' with 'covering'"):
        gw.recipe("dev/average/covering")


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 9, 10])
def test_every_strategy_has_its_turn_whatever_the_batch(batch):
    """Rounds are counted in batches of labelled rows where nothing else is said."""
    parts = (Random(1), Margin(), Random(2))
    labels = np.arange(60) % 3
    for number in range(3, 7):
        few = slice(0, number * batch)
        fitted = gw.Logistic().fit(TASK.X_pool[few], labels[few])
        found, *each = (
            one.suggest(fitted, TASK.X_pool, batch).rows.tolist() for one in (InTurn(parts), *parts)
        )
        assert each.index(found) == number % 3


def test_turns_within_a_turn_all_come():
    """Those inside go on when it is their turn, not with every round."""
    inner = InTurn((Random(1), Random(2)))
    turns = InTurn((Margin(), inner))
    asked = [turns.turn(TASK.fitted, round) for round in range(6)]
    assert asked == [Margin(), Random(1), Margin(), Random(2), Margin(), Random(1)]


def test_turns_as_a_recipe_and_in_suggest():
    text = "decision-risk, coverage, margin in turn"
    recipe = gw.recipe(text)
    assert gw.recipe(str(recipe)) == recipe
    assert recipe.needs == {"pool"}
    built = recipe.build(pool=TASK.X_pool)
    check_strategy(built)
    for round in range(12):
        part = built.turn(TASK.fitted, round)
        found = built.suggest(TASK.fitted, TASK.X_pool, 3, round=round)
        alone = part.suggest(TASK.fitted, TASK.X_pool, 3, round=round)
        np.testing.assert_array_equal(found.rows, alone.rows)
    assert InTurn((Random(), gw.GoalOriented(TASK.goal))).labels_held > 0
    with pytest.raises(BadParameter, match="at least 2"):
        InTurn((Random(),))
    with pytest.raises(BadParameter, match="warp"):
        gw.recipe("margin, warp in turn")

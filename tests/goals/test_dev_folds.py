"""The recipe words that look at parts of the dev rows: dev-rotated, dev-split and cautious."""

import numpy as np
import pytest
from scipy.stats import spearmanr

import goalward as gw
from goalward.errors import BadInput, Unsupported
from goalward.goals import DevLoss, Entropy
from goalward.goals.dev_folds import Rotated, half, in_folds, steering
from goalward.testing import check_goal, problem
from goalward.utility import FirstOrder, ImplicitStep, Retrain
from goalward.utility.cautious import Cautious

WEIGHTS = np.linspace(0.5, 2.0, 25)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_mean_over_the_rounds_is_the_dev_loss(weights):
    task = problem()
    goal = Rotated(task.X_dev, task.y_dev, weights=weights)
    whole = DevLoss(task.X_dev, task.y_dev, weights=weights)
    rounds = [goal.settled(task.fitted, r) for r in range(5)]
    values = [one.value(task.fitted) for one in rounds]
    assert np.mean(values) == pytest.approx(whole.value(task.fitted), rel=1e-12)
    assert np.ptp(values) > 1e-3
    gradients = np.mean([one.gradient(task.fitted) for one in rounds], axis=0)
    np.testing.assert_allclose(gradients, whole.gradient(task.fitted), atol=1e-12)
    assert goal.value(task.fitted) == whole.value(task.fitted)


def test_folds_come_in_turn_and_share_out_classes():
    task = problem(n_dev=40)
    goal = Rotated(task.X_dev, task.y_dev)
    masks = np.array([goal.settled(task.fitted, r).weights > 0 for r in range(5)])
    assert np.all(masks.sum(axis=0) == 1)
    assert np.all(masks.sum(axis=1) == 8)
    for k in range(3):
        each = masks[:, task.y_dev == k].sum(axis=1)
        assert np.ptp(each) <= 1
    again = Rotated(task.X_dev, task.y_dev)
    np.testing.assert_array_equal(again.settled(task.fitted, 7).weights > 0, masks[2])


@pytest.mark.parametrize("ids", [None, np.arange(25) * 7])
def test_half_of_the_rows_steer_in_the_units_of_all(ids):
    task = problem()
    goal = half(task.X_dev, task.y_dev, ids=ids)
    steers = goal.weights > 0
    share = steers.mean()
    assert abs(share - 0.5) < (0.03 if ids is None else 0.2)
    mine = DevLoss(task.X_dev[steers], task.y_dev[steers]).value(task.fitted)
    assert goal.value(task.fitted) == pytest.approx(mine / share, rel=1e-12)
    moved = half(task.X_dev, task.y_dev, ids=ids, seed=1)
    assert not np.array_equal(steers, moved.weights > 0)


def test_a_row_stays_on_its_side_while_the_dev_set_grows():
    ids = np.random.default_rng(0).permutation(1000)[:25]
    np.testing.assert_array_equal(steering(ids[5:], 0), steering(ids, 0)[5:])


@pytest.mark.parametrize("kind", [Rotated, half])
def test_they_pass_the_checks_and_predict_retraining(kind):
    task = problem(n_labelled=120, C=0.5)
    goal = kind(task.X_dev, task.y_dev)
    check_goal(goal, task.fitted)
    settled = goal.settled(task.fitted, 2)
    check_goal(settled, task.fitted)
    truth = Retrain()(task.fitted, settled, task.X_pool)
    for utility, most in ((FirstOrder(), 0.2), (ImplicitStep(), 0.01)):
        guess = utility(task.fitted, settled, task.X_pool)
        assert np.median(np.abs(guess - truth)) < most * np.abs(truth).max()
        assert spearmanr(guess.ravel(), truth.ravel()).statistic > 0.97


def test_any_labels_will_do():
    task = problem()
    names = ["abc"[k] for k in task.y_dev]
    soft = np.eye(3)[task.y_dev]
    plain = Rotated(task.X_dev, task.y_dev).settled(task.fitted, 1)
    for y in (names, soft, tuple(map(int, task.y_dev))):
        np.testing.assert_array_equal(
            Rotated(task.X_dev, y).settled(task.fitted, 1).weights, plain.weights
        )
    assert Rotated(task.X_dev, soft).settled(task.fitted, 1).value(task.fitted) == pytest.approx(
        plain.value(task.fitted)
    )
    # Every fold of one class: nothing is refused.
    one = Rotated(task.X_dev, np.zeros(25, dtype=int))
    assert one.settled(task.fitted, 3).value(task.fitted) < 0


def test_bad_input_is_refused():
    task = problem()
    with pytest.raises(BadInput, match="4 dev rows for 5 folds"):
        Rotated(task.X_dev[:4], task.y_dev[:4])
    with pytest.raises(BadInput, match="would steer"):
        half(task.X_dev[:1], task.y_dev[:1])
    other = gw.goals.SmoothF1(task.X_dev, task.y_dev)
    for goal in (Entropy(task.X_pool), other, task.goal + other):
        with pytest.raises(Unsupported, match="cannot be cut"):
            Cautious()(task.fitted, goal, task.X_pool)


@pytest.mark.parametrize("kind", ["dev", "half", "round"])
def test_the_mean_over_folds_is_the_goal(kind):
    task = problem(n_dev=40)
    goal = {
        "dev": task.goal,
        "half": half(task.X_dev, task.y_dev),
        "round": Rotated(task.X_dev, task.y_dev).settled(task.fitted, 1),
    }[kind]
    values = [part.value(task.fitted) for part in in_folds(goal)]
    assert np.mean(values) == pytest.approx(goal.value(task.fitted), rel=1e-12)
    assert np.ptp(values) > 0


def test_cautious_is_the_mean_less_its_standard_error():
    task = problem()
    readings = [FirstOrder()(task.fitted, g, task.X_pool) for g in in_folds(task.goal)]
    u, se = np.mean(readings, axis=0), np.std(readings, axis=0, ddof=1) / 5**0.5
    close = {"atol": 1e-9 * np.abs(u).max()}
    np.testing.assert_allclose(u, FirstOrder()(task.fitted, task.goal, task.X_pool), **close)
    got = Cautious()(task.fitted, task.goal, task.X_pool)
    np.testing.assert_allclose(got, u - se, **close)
    shrunk = Cautious(toward_zero=True)(task.fitted, task.goal, task.X_pool)
    np.testing.assert_allclose(shrunk, np.sign(u) * np.maximum(np.abs(u) - se, 0.0), **close)


def test_cautious_doubts_what_one_dev_row_says():
    # Rows of zeros are where the model cannot move. If all rests on one dev row, its fold says F u
    # and the others 0: the standard error is u, whatever F.
    task = problem(n_classes=2, n_features=2, fit_intercept=False)
    X = np.zeros((20, 2))
    X[0] = [3.0, 0.0]
    lone = DevLoss(X, np.r_[1, np.arange(19) % 2])
    many = DevLoss(np.tile([3.0, 0.0], (20, 1)), np.ones(20, dtype=int))
    pool = np.array([[3.0, 0.0]])
    kept = [
        Cautious()(task.fitted, g, pool)[0, 1] / FirstOrder()(task.fitted, g, pool)[0, 1]
        for g in (lone, many)
    ]
    assert kept[1] == pytest.approx(1.0, abs=1e-9)
    assert kept[0] == pytest.approx(0.0, abs=1e-9)


def test_recipes_name_them():
    task = problem()
    data = {"dev": (task.X_dev, task.y_dev), "truth": task.y_pool}
    for text, kind in (("dev-rotated/oracle", Rotated), ("dev-split/oracle", DevLoss)):
        assert type(gw.recipe(text).build(**data).goal) is kind
        assert gw.recipe(text).needs == {"dev", "truth"}
    doubting = gw.recipe("dev/spread/cautious-spread/sequential-curvature").build(**data)
    assert doubting.utility == Cautious(toward_zero=True)
    assert len(set(doubting.suggest(task.fitted, task.X_pool, 5).rows.tolist())) == 5


def test_rounds_of_a_rotated_goal_ask_for_other_rows():
    task = problem(n_pool=300)
    chooser = gw.recipe("dev-rotated/spread").build(dev=(task.X_dev, task.y_dev))
    picks = [chooser.suggest(task.fitted, task.X_pool, 5, round=r).rows.tolist() for r in (0, 1, 5)]
    assert picks[0] == picks[2] != picks[1]

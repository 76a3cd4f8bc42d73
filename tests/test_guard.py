"""Dev goals that leave rows out, and the utility that doubts them."""

import numpy as np
import pytest
from scipy.stats import spearmanr

import goalward as gw
from goalward.errors import BadInput, BadParameter, Unsupported
from goalward.goals import DevLoss, Entropy, Rotated, Split
from goalward.goals.guard import folded
from goalward.testing import check_goal, check_utility, problem
from goalward.utility import Cautious, FirstOrder, ImplicitStep, Ladder, Retrain

WEIGHTS = np.linspace(0.5, 2.0, 25)


@pytest.mark.parametrize("all_but_one", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_mean_over_the_rounds_is_the_dev_loss(all_but_one, weights):
    task = problem()
    options = {"folds": 4, "all_but_one": all_but_one, "weights": weights}
    goal = Rotated(task.X_dev, task.y_dev, **options)
    whole = DevLoss(task.X_dev, task.y_dev, weights=weights)
    rounds = [goal.at(task.fitted, r) for r in range(4)]
    values = [one.value(task.fitted) for one in rounds]
    assert np.mean(values) == pytest.approx(whole.value(task.fitted), rel=1e-12)
    assert np.ptp(values) > 1e-3
    gradients = np.mean([one.gradient(task.fitted) for one in rounds], axis=0)
    np.testing.assert_allclose(gradients, whole.gradient(task.fitted), atol=1e-12)
    assert goal.value(task.fitted) == whole.value(task.fitted)


def test_folds_come_in_turn_share_out_classes_and_follow_the_seed():
    task = problem(n_dev=40)
    goal = Rotated(task.X_dev, task.y_dev, folds=4)
    masks = np.array([goal.at(task.fitted, r).weights > 0 for r in range(4)])
    assert np.all(masks.sum(axis=0) == 1)
    assert np.all(masks.sum(axis=1) == 10)
    for k in range(3):
        each = masks[:, task.y_dev == k].sum(axis=1)
        assert np.ptp(each) <= 1
    again = Rotated(task.X_dev, task.y_dev, folds=4)
    np.testing.assert_array_equal(again.at(task.fitted, 6).weights > 0, masks[2])
    other = Rotated(task.X_dev, task.y_dev, folds=4, seed=1)
    assert not np.array_equal(other.at(task.fitted, 2).weights > 0, masks[2])


@pytest.mark.parametrize("share", [0.5, 0.8])
@pytest.mark.parametrize("ids", [None, np.arange(25) * 7])
def test_steering_and_witness_add_up_and_share_no_row(share, ids):
    task = problem()
    goal = Split(task.X_dev, task.y_dev, share=share, ids=ids)
    part = goal.steers.mean()
    assert abs(part - share) < (0.03 if ids is None else 0.2)
    both = part * goal.steering.value(task.fitted) + (1 - part) * goal.witness.value(task.fitted)
    assert both == pytest.approx(task.goal.value(task.fitted), rel=1e-12)
    assert not np.any((goal.steering.weights > 0) & (goal.witness.weights > 0))
    assert goal.value(task.fitted) == goal.steering.value(task.fitted)
    np.testing.assert_array_equal(
        goal.gradient(task.fitted), goal.at(task.fitted, 3).gradient(task.fitted)
    )
    moved = Split(task.X_dev, task.y_dev, share=share, ids=ids, seed=1)
    assert not np.array_equal(goal.steers, moved.steers)


def test_what_the_witness_says_does_not_steer():
    task = problem()
    goal = Split(task.X_dev, task.y_dev, ids=np.arange(25))
    lies = np.where(goal.steers, task.y_dev, (task.y_dev + 1) % 3)
    lying = Split(task.X_dev, lies, ids=np.arange(25))
    plain, told = (FirstOrder()(task.fitted, g, task.X_pool) for g in (goal, lying))
    np.testing.assert_array_equal(plain, told)
    assert goal.witness.value(task.fitted) != lying.witness.value(task.fitted)


def test_a_row_stays_on_its_side_while_the_dev_set_grows():
    task = problem()
    ids = np.random.default_rng(0).permutation(1000)[:25]
    small = Split(task.X_dev[5:], task.y_dev[5:], ids=ids[5:])
    large = Split(task.X_dev, task.y_dev, ids=ids)
    np.testing.assert_array_equal(small.steers, large.steers[5:])


@pytest.mark.parametrize("kind", [Rotated, Split])
def test_they_pass_the_checks_and_predict_retraining(kind):
    task = problem(n_labelled=120, C=0.5)
    goal = kind(task.X_dev, task.y_dev)
    check_goal(goal, task.fitted)
    settled = goal.at(task.fitted, 2)
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
    plain = Rotated(task.X_dev, task.y_dev).at(task.fitted, 1)
    for y in (names, soft, tuple(map(int, task.y_dev))):
        np.testing.assert_array_equal(
            Rotated(task.X_dev, y).at(task.fitted, 1).weights, plain.weights
        )
    assert Rotated(task.X_dev, soft).at(task.fitted, 1).value(task.fitted) == pytest.approx(
        plain.value(task.fitted)
    )
    # Every fold of one class: nothing is refused.
    one = Rotated(task.X_dev, np.zeros(25, dtype=int), folds=25)
    assert one.at(task.fitted, 3).value(task.fitted) < 0


def test_bad_input_is_refused():
    task = problem()
    X, y = task.X_dev, task.y_dev
    with pytest.raises(BadInput, match="4 dev rows for 5 folds"):
        Rotated(X[:4], y[:4])
    for folds in (1, 0, True):
        with pytest.raises(BadParameter, match="at least 2"):
            Rotated(X, y, folds=folds)
    for share in (0.0, 1.0, float("nan")):
        with pytest.raises(BadParameter, match="between 0 and 1"):
            Split(X, y, share=share)
    with pytest.raises(BadInput, match="would steer"):
        Split(X[:1], y[:1])
    with pytest.raises(BadInput, match="3 entries for 25"):
        Split(X, y, ids=[1, 2, 3])
    with pytest.raises(BadParameter, match="kappa=-1"):
        Cautious(kappa=-1.0)
    with pytest.raises(BadParameter, match="the same in every fold"):
        Cautious(Ladder())
    with pytest.raises(Unsupported, match="Entropy cannot be cut"):
        Cautious()(task.fitted, Entropy(task.X_pool), task.X_pool)


@pytest.mark.parametrize("kind", ["dev", "sum", "split", "round"])
def test_the_mean_over_folds_is_the_goal(kind):
    task = problem()
    goal = {
        "dev": task.goal,
        "sum": 2.0 * task.goal + 0.3 * Entropy(task.X_pool),
        "split": Split(task.X_dev, task.y_dev),
        "round": Rotated(task.X_dev, task.y_dev, folds=2).at(task.fitted, 1),
    }[kind]
    parts = folded(goal, 5)
    values = [part.value(task.fitted) for part in parts]
    assert np.mean(values) == pytest.approx(goal.value(task.fitted), rel=1e-12)
    assert np.ptp(values) > 0


@pytest.mark.parametrize("kind", ["calibrated", "f1", "group"])
def test_labels_that_folds_cannot_share_out_are_refused(kind):
    """They would be the same in every fold, and their noise would not be doubted."""
    task = problem()
    X, y = task.X_dev, task.y_dev
    other = {
        "calibrated": gw.goals.CalibratedDevLoss(X, y),
        "f1": gw.goals.SmoothF1(X, y),
        "group": gw.goals.WorstGroup(X, y, y),
    }[kind]
    for goal in (task.goal + other, task.goal + Entropy(task.X_pool) + 2.0 * other):
        with pytest.raises(Unsupported, match=f"{type(other).__name__} cannot .* holds 25 dev"):
            Cautious()(task.fitted, goal, task.X_pool)
    with pytest.raises(Unsupported, match="cannot be cut"):
        Cautious()(task.fitted, other + Entropy(task.X_pool), task.X_pool)


@pytest.mark.parametrize("inner", [FirstOrder(), ImplicitStep()])
def test_cautious_is_the_mean_less_its_standard_error(inner):
    task = problem()
    readings = [inner(task.fitted, g, task.X_pool) for g in folded(task.goal, 4)]
    u, se = np.mean(readings, axis=0), np.std(readings, axis=0, ddof=1) / 2.0
    scale = np.abs(u).max()
    np.testing.assert_allclose(u, inner(task.fitted, task.goal, task.X_pool), atol=1e-9 * scale)
    got = Cautious(inner, folds=4, kappa=1.5)(task.fitted, task.goal, task.X_pool)
    np.testing.assert_allclose(got, u - 1.5 * se, atol=1e-9 * scale)
    shrunk = Cautious(inner, folds=4, toward_zero=True)(task.fitted, task.goal, task.X_pool)
    np.testing.assert_allclose(
        shrunk, np.sign(u) * np.maximum(np.abs(u) - se, 0.0), atol=1e-9 * scale
    )


def test_cautious_conforms_and_doubts_what_one_dev_row_says():
    check_utility(Cautious(kappa=0.0))
    check_utility(Cautious(kappa=0.2), rank=0.85)
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
    truth = task.y_pool
    for text, kind in (("dev-rotated/oracle", Rotated), ("dev-split/oracle", Split)):
        built = gw.recipe(text).build(dev=(task.X_dev, task.y_dev), truth=truth)
        assert type(built.goal) is kind
        assert gw.recipe(text).needs == {"dev", "truth"}
    data = {"dev": (task.X_dev, task.y_dev)}
    text = "dev/spread/cautious-spread/sequential-curvature"
    doubting = gw.recipe(text).build(**data)
    assert doubting.utility == Cautious(toward_zero=True)
    assert len(set(doubting.suggest(task.fitted, task.X_pool, 5).rows.tolist())) == 5


def test_rounds_of_a_rotated_goal_ask_for_other_rows():
    task = problem(n_pool=300)
    chooser = gw.recipe("dev-rotated/spread").build(dev=(task.X_dev, task.y_dev))
    picks = [chooser.suggest(task.fitted, task.X_pool, 5, round=r).rows.tolist() for r in (0, 1, 5)]
    assert picks[0] == picks[2] != picks[1]

"""Every rule against values computed by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import linregress, t

from goalward.stopping import (
    Snapshot,
    accuracy_plateau,
    bounded_change,
    budget_spent,
    classification_change,
    confidence_variance,
    corrected,
    criteria,
    first_stops,
    gain_below_price,
    max_confidence,
    overall_uncertainty,
    realised,
    seen,
    stabilizing_predictions,
)
from goalward.stopping.gains import rise


def rounds(step=10, **columns):
    """Snapshots from columns of equal length, `step` labels apart."""
    lines = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return [
        Snapshot(labels=step * (i + 1), bought=step * (i + 1) + 5, **line)
        for i, line in enumerate(lines)
    ]


def test_stabilizing_predictions_takes_the_mean_of_three_changes():
    same, other = (0, 0, 1, 1), (0, 0, 1, 0)
    found = stabilizing_predictions(rounds(predicted=[other, same, same, same]))
    assert found.value == pytest.approx((0.5 + 1 + 1) / 3)
    assert found.stop is False
    assert stabilizing_predictions(rounds(predicted=[other, same, same, same, same])).stop is True
    # Models that know one class only agree, though chance alone would have it so.
    assert stabilizing_predictions(rounds(predicted=[(2, 2)] * 4)).value == 1.0
    unknown = stabilizing_predictions(rounds(predicted=[same, same, same]))
    assert (unknown.value, unknown.stop, unknown.verdict) == (None, None, "not known")
    # A round without predictions, as old journals have, breaks the chain.
    assert stabilizing_predictions(rounds(predicted=[same, None, same, same])).stop is None


def test_changes_of_class_are_counted_and_bound_the_change_of_accuracy(rng):
    predicted = [(0, 0, 1, 1), (0, 0, 1, 0), (0, 1, 1, 0), (0, 1, 1, 0)]
    found = rounds(predicted=predicted)
    assert classification_change(found[:3]).value == 0.25
    assert classification_change(found[:3]).stop is False
    assert classification_change(found).stop is True
    assert bounded_change(found).value == 0.25
    assert bounded_change(found, threshold=0.25).stop is True
    assert bounded_change(found[:3]).stop is None
    # Whatever the true labels, accuracy moves no further than the bound says.
    before, after = rng.integers(3, size=(2, 50))
    bound = classification_change(rounds(predicted=[tuple(before), tuple(after)])).value
    for _ in range(200):
        truth = rng.integers(3, size=50)
        assert abs(np.mean(after == truth) - np.mean(before == truth)) <= bound + 1e-12


def test_how_sure_a_model_is():
    proba = np.array([[0.5, 0.5], [1.0, 0.0], [0.8, 0.2]])
    kept = seen(proba, np.array([[0.9, 0.1], [0.6, 0.4]]))
    entropy = [np.log(2), 0.0, -(0.8 * np.log(0.8) + 0.2 * np.log(0.2))]
    assert kept["uncertainty"] == pytest.approx(np.mean(entropy))
    assert kept["variance"] == pytest.approx(np.var([0.5, 1.0, 0.8]))
    assert kept["doubt"] == pytest.approx(-(0.6 * np.log(0.6) + 0.4 * np.log(0.4)))
    assert kept["predicted"] == (0, 0, 0)
    assert seen(proba, np.empty((0, 2)))["doubt"] is None
    assert overall_uncertainty(rounds(uncertainty=[0.5, 0.0099])).stop is True
    assert overall_uncertainty(rounds(uncertainty=[0.5, 0.01])).stop is False
    assert max_confidence(rounds(doubt=[0.0009])).stop is True
    assert max_confidence(rounds(doubt=[0.001])).stop is False
    assert max_confidence(rounds(doubt=[None])).stop is None


def test_the_variance_must_fall_twice_in_a_row():
    assert confidence_variance(rounds(variance=[0.1, 0.3, 0.2])).value == 1
    assert confidence_variance(rounds(variance=[0.1, 0.3, 0.2, 0.1])).stop is True
    assert confidence_variance(rounds(variance=[0.3, 0.2, 0.25, 0.2])).stop is False
    assert confidence_variance(rounds(variance=[0.3])).stop is None


def test_a_plateau_is_a_best_that_does_not_rise():
    curve = [0.5, 0.8, 0.8, 0.79, 0.803, 0.8, 0.804]
    found = accuracy_plateau(rounds(accuracy=curve, metric=["dev"] * 7))
    assert found.value == pytest.approx(0.804 - 0.8)
    assert found.stop is True
    assert accuracy_plateau(rounds(accuracy=curve, metric=["dev"] * 7), least=0.001).stop is False
    mixed = ["cross-validated"] * 5 + ["dev"] * 2
    assert accuracy_plateau(rounds(accuracy=curve, metric=mixed)).stop is None


def test_the_budget_counts_dev_labels():
    assert budget_spent(rounds(accuracy=[0.1, 0.2]), budget=25).stop is True
    assert budget_spent(rounds(accuracy=[0.1, 0.2]), budget=26).stop is False
    assert budget_spent(rounds(accuracy=[0.1]), budget=None).stop is None


def test_the_realised_ratio_is_the_slope_through_the_origin_with_its_interval():
    """By hand for two rounds; and as weighted least squares for five."""
    # p = 10 x 0.02, 10 x 0.01 and r = 0.1, 0.02: slope 0.4, e = 0.02, -0.02.
    found = realised(rounds(gain=[0.02, 0.01, 0.01], goal=[-1.0, -0.9, -0.88]))
    assert found.ratio == pytest.approx(0.4)
    variance = (0.02**2 / 0.2 + 0.02**2 / 0.1) / 1 / 0.3
    half = t.ppf(0.975, 1) * variance**0.5
    assert found.low == pytest.approx(0.4 - half)
    assert found.high == pytest.approx(0.4 + half)
    assert found.rounds == 2
    rng = np.random.default_rng(3)
    gain = rng.uniform(0.01, 0.05, size=6)
    goal = np.cumsum(rng.normal(0.1, 0.05, size=6))
    p, r = 10 * gain[:5], np.diff(goal)
    # Divided by sqrt(p), the line through the origin has equal variances: ordinary least squares.
    x, z = np.sqrt(p), r / np.sqrt(p)
    mirrored = linregress(np.concatenate([x, -x]), np.concatenate([z, -z]))
    found = realised(rounds(gain=gain.tolist(), goal=goal.tolist()))
    assert found.ratio == pytest.approx(mirrored.slope)


def test_the_interval_covers_the_true_ratio():
    """95 % by Student's t, where the errors are what the derivation says."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(1000):
        gain = rng.uniform(0.01, 0.05, size=6)
        steps = 0.3 * 10 * gain[:5] + rng.normal(size=5) * 0.1 * np.sqrt(10 * gain[:5])
        goal = np.concatenate([[0.0], np.cumsum(steps)])
        found = realised(rounds(gain=gain.tolist(), goal=goal.tolist()))
        hits += found.low <= 0.3 <= found.high
    # Two standard errors of a share of 0.95 over 1000 draws.
    assert abs(hits / 1000 - 0.95) < 0.014


def test_rounds_that_cannot_be_compared_are_left_out():
    columns = {"gain": [0.1, 0.1, 0.1], "goal": [0.0, 5.0, 5.5]}
    found = realised(rounds(**columns, metric=["cross-validated", "dev", "dev"]))
    assert (found.ratio, found.low, found.rounds) == (pytest.approx(0.5), None, 1)
    assert realised(rounds(gain=[0.1], goal=[0.0])) is None
    # The same labels ranked twice are one round: the newer.
    twice = rounds(gain=[0.1, 0.1, 0.1], goal=[0.0, 0.2, 0.5])
    twice[1] = replace(twice[1], labels=10)
    assert realised(twice).ratio == pytest.approx((0.5 - 0.2) / 2.0)
    assert classification_change([replace(r, predicted=(0,)) for r in twice[:2]]).stop is None


def test_a_rise_is_measured_on_the_same_rows():
    """Dev rows that are easier than those before lift the goal of any model: that is no gain."""
    easier = {"metric": ["dev"] * 3, "gain": [0.1] * 3, "goal": [-1.0, -0.5, -0.2]}
    measured = rounds(**easier, goal_before=[None, -0.6, -0.1])
    assert [rise(*pair) for pair in pairwise(measured)] == pytest.approx([0.1, -0.1])
    assert realised(measured).ratio == pytest.approx(0.0)
    # Not measured again: as many dev labels count as the same ones, more of them do not.
    older = rounds(**easier)
    assert realised(older).ratio == pytest.approx(0.8 / 2.0)
    grown = [replace(r, bought=r.bought + i) for i, r in enumerate(older)]
    assert realised(grown) is None
    assert realised([*older[:2], grown[2]]).rounds == 1
    # Rows of the pool are the same in all rounds, however many dev labels there are.
    pool = [replace(r, metric="cross-validated") for r in grown]
    assert realised(pool).ratio == pytest.approx(0.8 / 2.0)


def test_the_gain_is_discounted_and_must_stay_below_the_price():
    gain, goal = [0.1] * 5, [0.0, 0.5, 0.6, 0.62, 0.63]
    found = rounds(gain=gain, goal=goal)
    assert corrected(found[:1]) == (0.1, None, None)
    assert corrected(found[:2])[0] == pytest.approx(0.05)
    # Ratios 0.5, 0.3, 0.62/3, 0.63/4.
    assert [corrected(found[:n])[0] for n in (3, 4, 5)] == pytest.approx([0.03, 0.062 / 3, 0.01575])
    assert gain_below_price(found, price=0.031).stop is True
    assert gain_below_price(found, price=0.029).stop is False
    assert gain_below_price(found[:2], price=1.0).stop is False
    assert gain_below_price(found, price=None).stop is None
    # A goal that fell brings nothing; one that rose more than predicted is not trusted beyond it.
    assert corrected(rounds(gain=[0.1, 0.1], goal=[0.0, -1.0]))[0] == 0.0
    assert corrected(rounds(gain=[0.1, 0.2], goal=[0.0, 9.0]))[0] == 0.2


def test_two_percent_of_the_prediction_is_two_percent_of_it():
    """A run in which 2 % came true used to be told to go on by a floor of 10 %."""
    goal = [0.02 * 0.1 * 10 * i for i in range(6)]
    found = rounds(gain=[0.1] * 6, goal=goal)
    assert corrected(found)[0] == pytest.approx(0.002)
    assert gain_below_price(found, price=0.005).stop is True


def test_all_rules_are_asked_and_say_where_they_come_from():
    found = criteria([])
    assert all(one.stop is None for one in found)
    assert len({one.name for one in found}) == 9
    assert all(one.says for one in found)
    predicted = [(0, 1), (0, 0), (0, 0), (0, 0)]
    where = first_stops(rounds(predicted=predicted), budget=25)
    assert where["classification change"] == 2
    assert where["budget"] == 1
    assert where["max confidence"] is None

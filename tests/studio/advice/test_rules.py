"""Every rule against values computed by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from goalward.studio.advice import (
    Snapshot,
    accuracy_plateau,
    bounded_change,
    budget_spent,
    classification_change,
    confidence_variance,
    criteria,
    first_stops,
    gain_below_price,
    max_confidence,
    next_gain,
    overall_uncertainty,
    seen,
    stabilizing_predictions,
)
from goalward.studio.advice.gains import rise


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


def test_a_rise_is_measured_on_the_same_rows():
    """Dev rows that are easier than those before lift the goal of any model: that is no gain."""
    easier = {"metric": ["dev"] * 3, "gain": [0.1] * 3, "goal": [-1.0, -0.5, -0.2]}
    measured = rounds(**easier, goal_before=[None, -0.6, -0.1])
    assert [rise(*pair) for pair in pairwise(measured)] == pytest.approx([0.1, -0.1])
    # Not measured again: as many dev labels count as the same ones, more of them do not.
    older = rounds(**easier)
    assert [rise(*pair) for pair in pairwise(older)] == pytest.approx([0.5, 0.3])
    grown = [replace(r, bought=r.bought + i) for i, r in enumerate(older)]
    assert [rise(*pair) for pair in pairwise(grown)] == [None, None]
    # Rows of the pool are the same in all rounds, however many dev labels there are.
    pool = [replace(r, metric="cross-validated") for r in grown]
    assert [rise(*pair) for pair in pairwise(pool)] == pytest.approx([0.5, 0.3])
    assert rise(pool[0], older[1]) is None


def predictions(changed, of=100):
    """Predictions of rounds, of which so many differ from the first round's."""
    return [(1,) * n + (0,) * (of - n) for n in changed]


def test_a_gain_is_told_by_the_predictions_that_changed_in_fifty_labels():
    found = rounds(predicted=predictions([40, 30, 20, 10, 6, 3, 1]))
    gain = next_gain(found)
    # 70 labels now, 20 then.
    assert (gain.labels, gain.since, gain.changed) == (70, 50, pytest.approx(0.29))
    assert gain.high == pytest.approx(0.29 * 0.45)
    # No accuracy rises beyond 1.
    assert next_gain([*found[:-1], replace(found[-1], low=0.97)]).high == pytest.approx(0.03)
    early = next_gain(found[:3])
    assert (early.since, early.changed, early.high) == (20, pytest.approx(0.2), None)
    assert next_gain(found[:1]) is None
    assert next_gain(rounds(predicted=[None, None])) is None
    # The same labels ranked twice are one round: the newer.
    assert next_gain([found[0], replace(found[1], labels=10)]) is None


def test_a_price_is_compared_with_the_upper_end_of_the_gain():
    found = rounds(predicted=predictions([40, 4, 4, 4, 4, 4, 0]))
    assert gain_below_price(found, price=0.00019).stop is True
    assert gain_below_price(found, price=0.00017).stop is False
    assert gain_below_price(found, price=None).stop is None
    assert gain_below_price(found[:5], price=1.0).stop is None


@pytest.mark.parametrize(("least", "bought", "stop"), [(5, 30, True), (4, 30, None), (5, 29, None)])
def test_no_rule_says_stop_before_thirty_answers_and_five_of_each_class(least, bought, stop):
    found = rounds(predicted=predictions([0] * 7))
    found[-1] = replace(found[-1], least=least, bought=bought)
    said = {one.name: one.stop for one in criteria(found, price=0.0002, budget=20)}
    assert said["gain below price"] is stop
    assert said["classification change"] is stop
    assert said["budget"] is True


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


def test_labels_are_compared_by_what_f1_can_notice():
    before, after = np.array([[1, 1, 0, 0], [0, 0, 0, 0]]), np.array([[1, 0, 0, 0], [0, 0, 0, 0]])
    told = rounds(step=50, predicted=[before.tolist(), after.tolist()], kind=["labels"] * 2)
    gain = next_gain(told)
    # (1 + 1) / (3 + 2), and of a label that neither says one half: nothing is known of it.
    assert gain.changed == pytest.approx((2 / 5 + 1 / 2) / 2)
    assert bounded_change(told, window=1).value == pytest.approx(1 / 8)
    kept = seen(np.array([[0.9, 0.2], [0.4, 0.6]]), np.empty((0, 2)), "labels")
    assert kept["predicted"] == ((1, 0), (0, 1))
    assert kept["doubt"] is None


def test_numbers_are_compared_in_standard_deviations_and_bound_the_error(rng):
    truth, before, after = rng.normal(size=(3, 50))
    told = rounds(step=50, predicted=[before, after], kind=["numbers"] * 2, scale=[None, 4.0])
    moved = np.sqrt(np.mean((before - after) ** 2))
    assert next_gain(told).changed == pytest.approx(moved / 2)
    bound = bounded_change(told, window=1).value
    errors = [np.sqrt(np.mean((truth - said) ** 2)) for said in (before, after)]
    assert abs(errors[0] - errors[1]) / 2 <= bound
    assert classification_change(told).verdict == "has no meaning here"
    assert next_gain(told).high == pytest.approx(0.3 * moved / 2)


def test_models_of_other_rows_or_labels_are_not_compared():
    told = rounds(step=50, predicted=[(0, 1), (0, 1, 1), (0, 1, 0)])
    assert next_gain(told).since == 50
    assert next_gain(told[:2]) is None
    assert classification_change(told[:2]).value is None

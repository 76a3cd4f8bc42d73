"""Every rule against values computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from goalward.studio.stopping import (
    Snapshot,
    budget_spent,
    criteria,
    gain_below_price,
    next_gain,
    stabilizing_predictions,
)


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


def test_the_budget_counts_dev_labels():
    assert budget_spent(rounds(low=[0.1, 0.2]), budget=25).stop is True
    assert budget_spent(rounds(low=[0.1, 0.2]), budget=26).stop is False
    assert budget_spent(rounds(low=[0.1]), budget=None).stop is None


def predictions(changed, of=100):
    """Predictions of rounds, of which so many differ from the first round's."""
    return [(1,) * n + (0,) * (of - n) for n in changed]


def test_a_gain_is_told_by_the_predictions_that_changed_in_fifty_labels():
    found = rounds(predicted=predictions([40, 30, 20, 10, 6, 3, 1]))
    gain = next_gain(found)
    # 70 labels now, 20 then.
    assert (gain.since, gain.changed) == (50, pytest.approx(0.29))
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
    assert said["stabilizing predictions"] is stop
    assert said["budget"] is True


def test_all_rules_are_asked_and_say_where_they_come_from():
    found = criteria([])
    assert all(rule.stop is None for rule in found)
    assert [rule.name for rule in found] == [
        "gain below price",
        "stabilizing predictions",
        "budget",
    ]
    assert all(rule.says for rule in found)


def test_labels_are_compared_by_what_f1_can_notice():
    before, after = np.array([[1, 1, 0, 0], [0, 0, 0, 0]]), np.array([[1, 0, 0, 0], [0, 0, 0, 0]])
    told = rounds(step=50, predicted=[before.tolist(), after.tolist()], kind=["labels"] * 2)
    gain = next_gain(told)
    # (1 + 1) / (3 + 2), and of a label that neither says one half: nothing is known of it.
    assert gain.changed == pytest.approx((2 / 5 + 1 / 2) / 2)
    agree = stabilizing_predictions(told, window=1)
    assert agree.value == pytest.approx((0.5 + 1.0) / 2)


def test_numbers_are_compared_in_standard_deviations(rng):
    before, after = rng.normal(size=(2, 50))
    told = rounds(step=50, predicted=[before, after], kind=["numbers"] * 2, scale=[None, 4.0])
    moved = np.sqrt(np.mean((before - after) ** 2))
    assert next_gain(told).changed == pytest.approx(moved / 2)
    assert next_gain(told).high == pytest.approx(0.3 * moved / 2)
    # Kappa counts classes.
    assert [rule.name for rule in criteria(told)] == ["gain below price", "budget"]


def test_models_of_other_rows_or_labels_are_not_compared():
    told = rounds(step=50, predicted=[(0, 1), (0, 1, 1), (0, 1, 0)])
    assert next_gain(told).since == 50
    assert next_gain(told[:2]) is None
    assert stabilizing_predictions(told[:2], window=1).value is None

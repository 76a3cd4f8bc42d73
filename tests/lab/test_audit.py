import numpy as np
import polars as pl
import pytest

import goalward as gw
from goalward.errors import BadInput, BadParameter, NotFinite, ShapeMismatch
from goalward.goals import parting
from goalward.lab import Curves, audit, simulate
from goalward.lab.audit import fall
from goalward.lab.datasets import wine

CURVES = 2000
RISING = np.arange(40.0)


def noise(kind, seeds, rounds, rng):
    if kind == "walk":
        return np.cumsum(rng.normal(size=(seeds, rounds)), axis=1)
    level = rng.normal(size=(seeds, rounds))
    if kind == "heavy":
        return np.cumsum(rng.standard_t(3, size=(seeds, rounds)), axis=1)
    if kind == "lagged":  # noise about a level that fades over some rounds
        for r in range(1, rounds):
            level[:, r] += 0.8 * level[:, r - 1]
    if kind == "common":  # what all seeds share, and a part of their own
        return np.cumsum(rng.normal(size=(1, rounds)) + 0.5 * level, axis=1)
    return level


@pytest.mark.parametrize("seeds", [1, 5])
@pytest.mark.parametrize("kind", ["walk", "common", "heavy", "lagged", "level"])
def test_noise_raises_an_alarm_in_at_most_one_curve_in_twenty(kind, seeds):
    """2,000 curves against a threshold from 10,000: three standard errors are 0.016."""
    rng = np.random.default_rng(0)
    fired = sum(
        parting(np.tile(RISING, (seeds, 1)), noise(kind, seeds, 40, rng)).fired
        for _ in range(CURVES)
    )
    rate = fired / CURVES
    assert rate <= 0.05 + 0.016
    if kind in ("walk", "common"):
        assert rate >= 0.05 - 0.016


def test_a_fall_is_found_after_it_began_and_only_while_the_goal_rises():
    rng = np.random.default_rng(1)
    trend = np.minimum(np.arange(60), 30) - 1.0 * np.maximum(np.arange(60) - 30, 0)
    measure = trend + np.cumsum(rng.normal(size=(4, 60)), axis=1) * 0.3
    goal = np.tile(np.arange(60.0), (4, 1))
    alarm = parting(goal, measure, window=10)
    assert 30 < alarm.round <= 43
    assert abs(alarm.best - 30) <= 3
    assert alarm.t < alarm.threshold < 0
    assert not parting(goal, np.cumsum(np.abs(measure), axis=1), window=10).fired
    falls_too = np.minimum(goal, 60 - goal)
    assert not parting(falls_too, measure, window=10).fired
    assert parting(goal[0], measure[0], window=10).fired


def test_it_does_not_depend_on_units_and_a_level_is_no_fall():
    rng = np.random.default_rng(2)
    measure = np.cumsum(rng.normal(-0.5, 1.0, size=(3, 40)), axis=1)
    goal = np.tile(RISING, (3, 1))
    one, other = parting(goal, measure), parting(7 * goal - 3, 1e-4 * measure)
    assert one.round == other.round is not None
    assert one.t == pytest.approx(other.t, rel=1e-9)
    assert parting(goal, np.ones((3, 40))).t == 0.0
    assert parting(goal, -goal).fired  # a straight line down has no noise at all


def test_bad_curves_are_refused():
    with pytest.raises(ShapeMismatch, match="the same were expected"):
        parting(RISING, RISING[:-1])
    with pytest.raises(BadInput, match="5 rounds for a window of 5"):
        parting(RISING[:5], RISING[:5])
    with pytest.raises(BadParameter, match="at least 5"):
        parting(RISING, RISING, window=3)
    with pytest.raises(BadParameter, match="between 0 and 1"):
        parting(RISING, RISING, level=0.0)
    with pytest.raises(NotFinite, match="curve of the goal"):
        parting(RISING * np.nan, RISING)


def test_the_fall_of_noise_is_nothing_on_average():
    """Each seed's best round is chosen by the others; its own choice would find a fall in noise."""
    rng = np.random.default_rng(3)
    falls = np.array([fall(rng.normal(size=(4, 50))).mean() for _ in range(400)])
    assert abs(falls.mean()) < 3 * falls.std() / 20


def test_the_fall_of_a_single_seed_is_not_known():
    """Its own noise would choose the place, and find a fall where there is only noise."""
    bump = -np.abs(np.arange(50.0) - 25)[None]
    assert np.isnan(fall(bump)).tolist() == [True]
    line = audit(made(0.01 * bump, -0.02 * bump, np.arange(50.0)[None]), window=10).row(
        0, named=True
    )
    assert np.isnan([line["lost"], line["low"], line["high"]]).all()
    assert line["alarm_at"] is not None


def made(accuracy, log_loss, goal):
    seeds, rounds = accuracy.shape
    lines = [
        {
            "strategy": "made",
            "seed": s,
            "round": r,
            "queries": 10 * r,
            "accuracy": accuracy[s, r],
            "log_loss": log_loss[s, r],
            "goal": float("nan"),
            "goal_dev": goal[s, r],
        }
        for s in range(seeds)
        for r in range(rounds)
    ]
    return Curves(pl.DataFrame(lines))


def test_an_audit_knows_which_way_a_measure_is_good():
    rng = np.random.default_rng(4)
    bump = -np.abs(np.arange(50) - 25) + rng.normal(size=(3, 50))
    curves = made(0.01 * bump, -0.02 * bump, np.tile(np.arange(50.0), (3, 1)))
    table = curves.audit(window=10)
    assert table["measure"].to_list() == ["log_loss", "accuracy"]
    for line in table.iter_rows(named=True):
        assert 250 < line["alarm_at"] <= 450
        assert abs(line["best_at"] - 250) <= 30
        assert line["lost"] > 0
        assert line["low"] > 0
        assert line["goal_rise_since"] > 0
    assert table["lost"][0] == pytest.approx(2 * table["lost"][1], rel=1e-9)
    rising = made(0.01 * np.arange(50.0) + 0 * bump, -np.arange(50.0) + 0 * bump, bump)
    assert audit(rising)["alarm_at"].to_list() == [None, None]
    assert audit(curves, goal="goal").is_empty()


def test_the_witness_of_a_split_goal_is_measured_each_round():
    names = ["dev-split/spread", "dev/spread"]
    curves = simulate(wine(), names, batch=4, budget=28, seeds=2, n_jobs=1, progress=False)
    _, witness = curves.curve("dev-split/spread", "witness")
    _, own = curves.curve("dev-split/spread", "goal")
    _, whole = curves.curve("dev-split/spread", "goal_dev")
    dataset = wine()
    shares = [
        gw.goals.Split(*(a[dataset.split(s).dev] for a in (dataset.X, dataset.y))).steers.mean()
        for s in range(2)
    ]
    for s, share in enumerate(shares):
        np.testing.assert_allclose(share * own[s] + (1 - share) * witness[s], whole[s], rtol=1e-9)
    table = audit(curves, goal="goal", measures=("witness",))
    assert table["strategy"].to_list() == ["dev-split/spread"]

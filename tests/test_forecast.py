"""Forecasts of the learning curve: kin decide, and the interval holds what it says."""

import numpy as np
import pytest

from goalward.errors import BadParameter
from goalward.stopping import forecast
from goalward.stopping.forecasts import STEP, Run, end_of_rise, kin

N = STEP * np.arange(21)


def rising(rate, top=0.9):
    return top - 0.4 * np.exp(-N / rate)


def ends(rate):
    return end_of_rise(rising(rate), 0) * STEP


@pytest.mark.parametrize("rate", [10, 20, 40])
def test_the_end_of_the_rise_is_where_fifty_labels_bring_a_point(rate):
    """0.4 exp(-n/r) (1 - exp(-50/r)) = 0.01, but for steps of ten and a mean of three."""
    exact = rate * np.log(0.4 * (1 - np.exp(-50 / rate)) / 0.01)
    assert ends(rate) == pytest.approx(exact, abs=10.0)


def test_a_curve_that_rises_to_its_end_has_none():
    assert end_of_rise(np.linspace(0, 1, 21), 3) == np.inf


def test_runs_that_went_alike_decide():
    runs = [Run("quick", rising(10))] * 20 + [Run("slow", rising(40))] * 20
    for rate, other in ((10, 40), (40, 10)):
        seen = rising(rate)[1:6]
        told = forecast([10, 20, 30, 40, 50], seen, runs=runs)
        assert told.labels + 50 == max(ends(rate), 50)
        assert told.labels + 50 != max(ends(other), 50)
        assert told.low <= told.labels <= told.high
        assert told.runs == pytest.approx(20, rel=0.2)


def test_noise_widens_the_interval():
    rng = np.random.default_rng(0)
    runs = [Run(str(i), rising(rng.uniform(10, 40))) for i in range(200)]
    seen = rising(30)[1:6]
    sure, unsure = (forecast([10, 20, 30, 40, 50], seen, spread=s, runs=runs) for s in (0.0, 0.07))
    assert sure.high - sure.low < unsure.high - unsure.low


def test_the_interval_holds_four_fifths_of_exchangeable_runs():
    rng = np.random.default_rng(1)
    runs = [
        Run(str(i), rising(rng.uniform(10, 60), rng.uniform(0.7, 0.9)) + rng.normal(0, 0.004, 21))
        for i in range(300)
    ]
    held = []
    for i in range(0, 300, 3):
        told = forecast(N[1:7].tolist(), runs[i].curve[1:7], runs=runs[:i] + runs[i + 1 :])
        truth = STEP * (end_of_rise(runs[i].curve, 6) - 6)
        high = np.inf if told.high is None else told.high
        held.append(told.low is not None and told.low <= truth <= high)
    assert np.mean(held) > 0.7


def test_what_cannot_be_told():
    assert forecast([10], [0.5]) is None
    assert forecast([5, 10], [0.5, 0.6]) is None
    assert forecast([10_000, 20_000], [0.5, 0.6]) is None
    with pytest.raises(BadParameter, match="rising number of labels"):
        forecast([20, 10], [0.5, 0.6])


def test_the_sentence_says_what_the_numbers_say():
    flat = forecast([100, 120, 140], [0.9, 0.9, 0.9], runs=[Run("flat", np.full(21, 0.9))])
    assert (flat.labels, flat.low, flat.high) == (0, 0, 0)
    assert flat.says == "The next 50 labels are expected to bring less than a point of accuracy."
    rising_on = forecast([10, 20, 30], [0.3, 0.4, 0.5], runs=[Run("on", np.linspace(0.2, 1, 21))])
    assert rising_on.labels is None
    assert "many more labels" in rising_on.says


def test_the_runs_of_the_package_are_those_of_its_datasets():
    from goalward.lab.datasets.collection import CONFIRM, DESIGN

    assert {run.dataset for run in kin()} == {*DESIGN, *CONFIRM}
    for run in kin():
        assert len(run.curve) <= 21
        assert ((run.curve >= 0) & (run.curve <= 1)).all()

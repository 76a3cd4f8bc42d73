"""SmoothAccuracy and SmoothF1: what they are at a temperature of 1, and near 0."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

import goalward as gw
from goalward.errors import BadInput, BadParameter, ShapeMismatch, UnknownLabel
from goalward.goals import SmoothAccuracy, SmoothF1
from goalward.testing import problem
from tests.conftest import need

TASK = problem(n_dev=200)
GUESS = TASK.fitted.predict(TASK.X_dev)


def test_the_mean_probability_of_the_label_is_accuracy_at_temperature_one():
    p = TASK.fitted.predict_proba(TASK.X_dev)[np.arange(200), TASK.y_dev]
    goal = SmoothAccuracy(TASK.X_dev, TASK.y_dev)
    assert goal.value(TASK.fitted) == pytest.approx(p.mean(), rel=1e-12)
    w = np.linspace(0, 2, 200)
    weighted = SmoothAccuracy(TASK.X_dev, TASK.y_dev, weights=w)
    assert weighted.value(TASK.fitted) == pytest.approx(np.average(p, weights=w), rel=1e-12)


def test_cold_is_accuracy_and_f1():
    """With three classes: a margin against the sum of the others would count p > 1/2 only."""
    accuracy = SmoothAccuracy(TASK.X_dev, TASK.y_dev, temperature=1e-4).value(TASK.fitted)
    assert accuracy == pytest.approx(accuracy_score(TASK.y_dev, GUESS), abs=1e-6)
    assert accuracy > np.mean(TASK.fitted.predict_proba(TASK.X_dev)[range(200), TASK.y_dev] > 0.5)
    macro = SmoothF1(TASK.X_dev, TASK.y_dev, temperature=1e-4).value(TASK.fitted)
    assert macro == pytest.approx(f1_score(TASK.y_dev, GUESS, average="macro"), abs=1e-6)
    for k in range(3):
        one = SmoothF1(TASK.X_dev, TASK.y_dev, positive=k, temperature=1e-4).value(TASK.fitted)
        expected = f1_score(TASK.y_dev, GUESS, labels=[k], average="macro")
        assert one == pytest.approx(expected, abs=1e-6)


def test_f1_weighs_rows_as_copies_would():
    copies = np.arange(200) % 3
    goal = SmoothF1(TASK.X_dev, TASK.y_dev, weights=copies)
    repeated = SmoothF1(np.repeat(TASK.X_dev, copies, axis=0), np.repeat(TASK.y_dev, copies))
    assert goal.value(TASK.fitted) == pytest.approx(repeated.value(TASK.fitted), rel=1e-12)
    np.testing.assert_allclose(
        goal.gradient(TASK.fitted), repeated.gradient(TASK.fitted), atol=1e-12
    )


def test_macro_counts_the_classes_that_have_dev_rows():
    some = TASK.y_dev != 1
    macro = SmoothF1(TASK.X_dev[some], TASK.y_dev[some])
    each = [SmoothF1(TASK.X_dev[some], TASK.y_dev[some], positive=k) for k in (0, 2)]
    mean = sum(goal.value(TASK.fitted) for goal in each) / 2
    assert macro.value(TASK.fitted) == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda X, y: SmoothAccuracy(X, y[:-1]), ShapeMismatch, "y of SmoothAccuracy"),
        (lambda X, y: SmoothAccuracy(X, y, weights=0 * y), BadInput, "all 0"),
        (lambda X, y: SmoothAccuracy(X, y, temperature=-1.0), BadParameter, r"temperature=-1\.0"),
        (lambda X, y: SmoothF1(X, y, temperature=np.inf), BadParameter, "temperature=inf"),
        (lambda X, y: SmoothF1(X, y, positive="eight"), UnknownLabel, "positive of SmoothF1"),
        (lambda X, y: SmoothF1(X[y > 0], y[y > 0], positive=0), BadInput, "at least 1 dev row"),
    ],
)
def test_bad_input_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make(TASK.X_dev, TASK.y_dev).value(TASK.fitted)


def test_labels_of_every_dev_goal_are_counted():
    X, y = TASK.X_dev, TASK.y_dev
    goals = gw.goals
    for goal in (
        goals.CalibratedDevLoss(X, y),
        goals.WorstGroup(X, y, y),
        goals.SmoothAccuracy(X, y.tolist()),
        goals.SmoothF1(X, y),
        goals.TargetSet(X, y, X),
        goals.Entropy(X) + goals.DevLoss(X, y),
    ):
        assert goal.labels_held == 200
    assert goals.Entropy(X).labels_held == 0


@pytest.mark.parametrize(
    "missing",
    [None, float("nan"), np.float64("nan"), np.datetime64("NaT"), ("north", float("nan"))],
    ids=repr,
)
def test_a_row_without_a_group_is_refused(missing):
    """Each NaN would be a group of its own, since it is not equal to itself."""
    groups = ["north", missing, ("south", 1), 2, 0.5, np.float64(0.5)]
    goal = gw.goals.WorstGroup(TASK.X_dev[:6], TASK.y_dev[:6], groups)
    with pytest.raises(BadInput, match=r"WorstGroup needs a group .* 1 of 6 missing .* at row 1"):
        goal.value(TASK.fitted)
    with pytest.raises(BadInput, match="1 of 6 missing"):
        goal.by_group(TASK.fitted)
    groups[1] = "north"
    whole = gw.goals.WorstGroup(TASK.X_dev[:6], TASK.y_dev[:6], groups)
    assert list(whole.by_group(TASK.fitted)) == ["north", ("south", 1), 2, 0.5]
    times = np.array(["2020-01-01", "NaT"] * 3, dtype="datetime64[D]")
    with pytest.raises(BadInput, match="3 of 6 missing"):
        gw.goals.WorstGroup(TASK.X_dev[:6], TASK.y_dev[:6], times).value(TASK.fitted)


def test_a_missing_value_of_pandas_is_no_group_either():
    need("pandas")
    import pandas as pd

    groups = pd.Series(["north", None, "south"], dtype="string")
    goal = gw.goals.WorstGroup(TASK.X_dev[:3], TASK.y_dev[:3], groups)
    with pytest.raises(BadInput, match="1 of 3 missing"):
        goal.value(TASK.fitted)

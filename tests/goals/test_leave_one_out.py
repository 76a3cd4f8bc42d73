"""Leave-one-out against leaving out, and its slope against differences."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

import goalward as gw
from goalward.errors import BadInput, BadParameter
from goalward.goals import DevLoss, LeaveOneOut
from goalward.testing import problem


def left_out(learner, X, y, rows=None):
    """The log-likelihood of every row under the model that was trained without it."""
    total = 0.0
    for i in range(len(y)) if rows is None else rows:
        rest = np.arange(len(y)) != i
        fitted = learner.fit(X[rest], y[rest])
        total += np.log(fitted.predict_proba(X[i : i + 1])[0, list(fitted.classes).index(y[i])])
    return total


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_value_is_close_to_leaving_each_row_out(n_classes):
    task = problem(n_classes=n_classes, n_labelled=80)
    truth = left_out(task.learner, task.X, task.y)
    plain = DevLoss(task.X, task.y).value(task.fitted)
    found = LeaveOneOut().value(task.fitted)
    # It closes most of the gap between training and leaving out.
    assert abs(found - truth) < 0.05 * abs(plain - truth) + 0.02 * abs(truth)


def test_the_error_falls_faster_than_the_correction():
    """Per row the correction is of the order 1/n and its error of the order 1/n²."""
    errors = []
    for n in (40, 160):
        gaps = []
        for seed in range(3):
            task = problem(n_labelled=n, seed=seed)
            rows = np.arange(0, n, 4)
            truth = left_out(task.learner, task.X, task.y, rows)
            found = LeaveOneOut(task.X[rows], task.y[rows]).value(task.fitted)
            gaps.append(abs(found - truth) / len(rows))
        errors.append(np.mean(gaps))
    # Four times the rows: the correction falls by 4, the error by up to 16.
    assert errors[1] < errors[0] / 6


def test_named_rows_are_those_rows():
    task = problem()
    whole = LeaveOneOut(task.X, task.y).value(task.fitted)
    assert whole == pytest.approx(LeaveOneOut().value(task.fitted))
    halves = [LeaveOneOut(task.X[p], task.y[p]) for p in (slice(0, 15), slice(15, None))]
    assert sum(goal.value(task.fitted) for goal in halves) == pytest.approx(whole)


def test_named_rows_keep_the_weight_they_were_trained_with(rng):
    task = problem()
    weights = rng.uniform(0.2, 3.0, size=30)
    fitted = task.learner.fit(task.X, task.y, sample_weight=weights)
    named = LeaveOneOut(task.X[::-1], task.y[::-1]).value(fitted)
    assert named == pytest.approx(LeaveOneOut().value(fitted))


def test_rows_that_were_not_trained_on_cannot_be_left_out():
    task = problem()
    with pytest.raises(BadInput, match="got 25 of 25 others"):
        LeaveOneOut(task.X_dev, task.y_dev).value(task.fitted)
    other = (task.y + 1) % 3
    with pytest.raises(BadInput, match="with that label"):
        LeaveOneOut(task.X, other).value(task.fitted)
    with pytest.raises(BadParameter, match="never trains on"):
        gw.Study.create(
            "sqlite://", pool=task.X, classes=[0, 1], strategy="dev-left-out/spread", dev=0.2
        )


def test_settled_for_a_round_it_has_the_gradient_of_its_value(rng):
    task = problem()
    goal = LeaveOneOut().for_round(task.fitted)
    step = rng.normal(size=task.fitted.params.shape)
    slope = np.sum(goal.gradient(task.fitted) * (step - step.mean(axis=1, keepdims=True)))
    h = 1e-6
    ends = [
        goal.value(replace(task.fitted, params=task.fitted.params + s * h * step)) for s in (1, -1)
    ]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)
    np.testing.assert_allclose(
        LeaveOneOut().gradient(task.fitted), goal.gradient(task.fitted), rtol=1e-12
    )


def test_first_order_ranks_rows_as_retraining_does_for_the_rows_left_out():
    """Truth: the rows named are left out for real, with a row added."""
    task = problem(n_labelled=80, n_pool=10, n_classes=2)
    X, y = task.X, task.y
    named = np.arange(0, 80, 8)
    found = gw.utility.FirstOrder()(task.fitted, LeaveOneOut(X[named], y[named]), task.X_pool)
    truth = np.zeros_like(found)
    for i, x in enumerate(task.X_pool):
        for k in range(2):
            more_X, more_y = np.vstack([X, x]), np.append(y, k)
            for j in named:
                rest = np.arange(81) != j
                fitted = task.learner.fit(more_X[rest], more_y[rest])
                truth[i, k] += np.log(fitted.predict_proba(X[j : j + 1])[0, y[j]])
    assert spearmanr(found.ravel(), truth.ravel()).statistic > 0.9

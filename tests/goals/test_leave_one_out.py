"""Leave-one-out against leaving out, and its slope against differences."""

import numpy as np
import pytest
from scipy.stats import spearmanr

import goalward as gw
from goalward.goals import DevLoss, LeaveOneOut
from goalward.testing import problem


def left_out(learner, X, y):
    """The log-likelihood of every row under the model that was trained without it."""
    total = 0.0
    for i in range(len(y)):
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
    for n in (60, 240):
        gaps = []
        for seed in range(3):
            task = problem(n_labelled=n, seed=seed)
            truth = left_out(task.learner, task.X, task.y)
            gaps.append(abs(LeaveOneOut().value(task.fitted) - truth) / n)
        errors.append(np.mean(gaps))
    assert errors[1] < errors[0] / 8


def test_named_rows_are_those_rows():
    task = problem()
    whole = LeaveOneOut(task.X, task.y).value(task.fitted)
    assert whole == pytest.approx(LeaveOneOut().value(task.fitted))
    halves = [LeaveOneOut(task.X[p], task.y[p]) for p in (slice(0, 15), slice(15, None))]
    assert sum(goal.value(task.fitted) for goal in halves) == pytest.approx(whole)
    other = gw.Logistic(class_weight={0: 2.0, 1: 1.0, 2: 0.5}).fit(task.X, task.y)
    named = LeaveOneOut(task.X, task.y).value(other)
    assert named == pytest.approx(LeaveOneOut().value(other))


def test_settled_for_a_round_it_has_the_gradient_of_its_value(rng):
    task = problem()
    goal = LeaveOneOut().at(task.fitted)
    step = rng.normal(size=task.fitted.params.shape)
    slope = np.sum(goal.gradient(task.fitted) * (step - step.mean(axis=1, keepdims=True)))
    from dataclasses import replace

    h = 1e-6
    ends = [
        goal.value(replace(task.fitted, params=task.fitted.params + s * h * step)) for s in (1, -1)
    ]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)
    np.testing.assert_allclose(
        LeaveOneOut().gradient(task.fitted), goal.gradient(task.fitted), rtol=1e-12
    )


def test_first_order_ranks_rows_as_retraining_does_for_the_rows_left_out():
    """Truth: the rows named are left out for real, before and after a row is added."""
    task = problem(n_labelled=80, n_pool=25, n_classes=2)
    X, y = task.X, task.y
    goal = LeaveOneOut()
    found = gw.utility.FirstOrder()(task.fitted, goal, task.X_pool)
    before = left_out(task.learner, X, y)
    truth = np.empty_like(found)
    for i, x in enumerate(task.X_pool):
        for k in range(2):
            grown_X, grown_y = np.vstack([X, x]), np.append(y, k)
            value = 0.0
            for j in range(0, 80, 2):
                rest = np.arange(81) != j
                fitted = task.learner.fit(grown_X[rest], grown_y[rest])
                value += np.log(fitted.predict_proba(X[j : j + 1])[0, y[j]])
            truth[i, k] = value
    assert np.isfinite(before)
    assert spearmanr(found.ravel(), truth.ravel()).statistic > 0.9

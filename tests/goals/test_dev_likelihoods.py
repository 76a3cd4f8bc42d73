"""CalibratedDevLoss, WorstGroup and TargetSet against what they say they are."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import goalward as gw
from goalward.errors import (
    BadInput,
    BadParameter,
    Empty,
    NotFinite,
    ShapeMismatch,
    UnknownLabel,
    WeakGoal,
)
from goalward.goals import CalibratedDevLoss, DevLoss, TargetSet, WorstGroup
from goalward.goals.dev_loss import CalibratedLikelihood
from goalward.testing import problem

TASK = problem(n_dev=200)
GROUPS = np.array(["a", "b", "c"])[np.arange(200) % 3]


def log_likelihoods(logits, y):
    top = logits - logits.max(axis=1, keepdims=True)
    return (top - np.log(np.exp(top).sum(axis=1, keepdims=True)))[np.arange(len(y)), y]


def test_the_temperature_is_the_best_one():
    logits = TASK.fitted.logits(TASK.X_dev)
    found = minimize_scalar(
        lambda T: -log_likelihoods(logits / T, TASK.y_dev).sum(),
        bounds=(0.05, 20.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    goal = CalibratedDevLoss(TASK.X_dev, TASK.y_dev)
    assert goal.temperature(TASK.fitted) == pytest.approx(found.x, abs=1e-6)
    assert goal.value(TASK.fitted) == pytest.approx(-found.fun, rel=1e-12)
    assert goal.value(TASK.fitted) > TASK.goal.value(TASK.fitted)


@pytest.mark.parametrize("factor", [0.3, 2.0])
def test_confidence_alone_does_not_pay(factor):
    """τ(c g) = τ(g): so a motion along the logits themselves has no slope either."""
    kernel = CalibratedDevLoss(TASK.X_dev, TASK.y_dev).terms(TASK.fitted)[0].kernel
    logits = TASK.fitted.logits(TASK.X_dev)
    assert kernel.value(factor * logits) == pytest.approx(kernel.value(logits), rel=1e-12)
    assert np.sum(kernel.cotangent(logits) * logits) == pytest.approx(0.0, abs=1e-9)
    assert (
        np.sum(
            DevLoss(TASK.X_dev, TASK.y_dev).terms(TASK.fitted)[0].kernel.cotangent(logits) * logits
        )
        > 1
    )


def test_models_side_by_side_have_temperatures_of_their_own(rng):
    """Stacked models at both bounds and between them: each as if it were alone."""
    kernel = CalibratedLikelihood(np.eye(3)[TASK.y_dev])
    logits = TASK.fitted.logits(TASK.X_dev)
    right = 9.0 * np.eye(3)[TASK.y_dev]
    models = np.stack([logits, -logits, right, 5 * logits, 1e-3 * logits, 0 * logits])
    together = kernel.sharpness(models)
    np.testing.assert_allclose(together, [kernel.sharpness(m) for m in models], rtol=1e-10)
    assert together[1] == 0.05
    assert together[2] == pytest.approx(20.0)
    assert together[3] == pytest.approx(together[0] / 5, rel=1e-9)
    assert kernel.value(models)[5] == pytest.approx(-200 * np.log(3))


def test_dev_rows_that_are_all_right_give_a_warning():
    easy = TASK.fitted.predict(TASK.X_dev)
    goal = CalibratedDevLoss(TASK.X_dev, easy)
    with pytest.warns(WeakGoal, match=r"all classified right.*use DevLoss"):
        terms = goal.terms(TASK.fitted)
    assert goal.temperature(TASK.fitted) == 0.05
    assert np.isfinite(terms[0].kernel.value(TASK.fitted.logits(TASK.X_dev)))


def test_the_worst_group_lies_between_the_minimum_and_the_mean_of_the_groups():
    right = log_likelihoods(TASK.fitted.logits(TASK.X_dev), TASK.y_dev)
    means = np.array([right[g == GROUPS].mean() for g in "abc"])
    values = {
        T: WorstGroup(TASK.X_dev, TASK.y_dev, GROUPS, temperature=T).value(TASK.fitted)
        for T in (1e-4, 0.1, 1e4)
    }
    assert values[1e-4] == pytest.approx(means.min(), abs=1e-3)
    assert values[1e4] == pytest.approx(means.mean(), abs=1e-4)
    assert means.min() < values[0.1] < means.mean()
    found = WorstGroup(TASK.X_dev, TASK.y_dev, GROUPS).by_group(TASK.fitted)
    assert found == pytest.approx(dict(zip("abc", means, strict=True)))


def test_one_group_is_the_mean_dev_loss_at_any_temperature():
    one = WorstGroup(TASK.X_dev, TASK.y_dev, ["all"] * 200, temperature=0.3)
    dev = DevLoss(TASK.X_dev, TASK.y_dev) * (1 / 200)
    assert one.value(TASK.fitted) == pytest.approx(dev.value(TASK.fitted), rel=1e-12)
    np.testing.assert_allclose(
        one.gradient(TASK.fitted), dev.gradient(TASK.fitted), rtol=1e-10, atol=1e-13
    )


def test_only_the_worst_group_pulls_when_it_is_cold():
    goal = WorstGroup(TASK.X_dev, TASK.y_dev, GROUPS, temperature=1e-4)
    (term,) = goal.terms(TASK.fitted)
    u = term.kernel.cotangent(TASK.fitted.logits(TASK.X_dev))
    by_group = goal.by_group(TASK.fitted)
    worst = min(by_group, key=by_group.get)
    assert np.abs(u[worst != GROUPS]).max() < 1e-6 * np.abs(u[worst == GROUPS]).max()


def test_target_weights_are_the_density_ratio():
    """Gaussians at 0 and at 1: the ratio is exp(x - 1/2), which logistic regression can say."""
    rng = np.random.default_rng(0)
    X, target = rng.normal(size=(3000, 1)), rng.normal(size=(4000, 1)) + 1.0
    y = (X[:, 0] > 0).astype(int)
    fitted = gw.Logistic().fit(X[:50], y[:50])
    settled = TargetSet(X, y, target).for_round(fitted)
    truth = np.exp(X[:, 0] - 0.5)
    assert settled.weights.mean() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(np.log(settled.weights), np.log(truth), atol=0.5)
    assert settled.effective_rows == pytest.approx(truth.sum() ** 2 / (truth**2).sum(), rel=0.1)
    # The weighted mean of a feature is the target's.
    assert np.mean(settled.weights * X[:, 0]) == pytest.approx(1.0, abs=0.1)


def test_no_shift_is_the_dev_loss():
    rng = np.random.default_rng(1)
    X, target = rng.normal(size=(2, 1000, 4))
    y = TASK.fitted.predict(X)
    settled = TargetSet(X, y, target).for_round(TASK.fitted)
    assert settled.effective_rows > 950
    assert DevLoss(X, y).effective_rows == 1000
    assert settled.labels_held == TargetSet(X, y, target).labels_held == 1000


def test_few_effective_rows_give_a_warning():
    """A narrow target that dev rows reach, but few of them."""
    rng = np.random.default_rng(0)
    X, target = rng.normal(size=(300, 1)), 0.2 * rng.normal(size=(300, 1)) + 2.5
    fitted = gw.Logistic().fit(X, X[:, 0] > 0)
    goal = TargetSet(X, X[:, 0] > 0, target)
    with pytest.warns(WeakGoal, match="got 300 dev rows that count like"):
        settled = goal.for_round(fitted)
    assert settled.effective_rows < 30


def test_a_target_apart_from_the_dev_rows_gives_a_warning():
    """Ratios may then be even, and the effective rows many: it is their mean that says so."""
    goal = TargetSet(TASK.X_dev, TASK.y_dev, TASK.X_pool + 6.0)
    with pytest.warns(WeakGoal, match=r"p_target/p_dev 0\.0.* instead of 1"):
        settled = goal.for_round(TASK.fitted)
    assert settled.effective_rows > 20


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda X, y: CalibratedDevLoss(X, y[:-1]), ShapeMismatch, "y of CalibratedDevLoss"),
        (lambda X, y: CalibratedDevLoss(X[:0], y[:0]), Empty, "X of CalibratedDevLoss"),
        (lambda X, y: CalibratedDevLoss(X, y, weights=0.0), BadInput, "all 0"),
        (lambda X, y: WorstGroup(X * np.nan, y, y), NotFinite, "X of WorstGroup"),
        (
            lambda X, y: WorstGroup(X, y, y[:3]),
            ShapeMismatch,
            "groups of WorstGroup must have 200 entries.*got 3",
        ),
        (
            lambda X, y: WorstGroup(X, y, y, weights=y > 0),
            BadInput,
            "group 0 of WorstGroup needs a row with weight above 0",
        ),
        (lambda X, y: WorstGroup(X, y, y, temperature=0.0), BadParameter, r"temperature=0\.0"),
        (lambda X, y: WorstGroup(X, y + 7, y), UnknownLabel, "y of WorstGroup"),
        (lambda X, y: TargetSet(X, y, X[:, :2]), ShapeMismatch, "X_target of TargetSet"),
        (lambda X, y: TargetSet(X, y, X[:1]), BadInput, "2 target rows, got"),
    ],
)
def test_bad_input_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make(TASK.X_dev, TASK.y_dev).value(TASK.fitted)

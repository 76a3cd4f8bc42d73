"""Certificates hold: no retrained model is farther away than its bound says."""

import numpy as np
import pytest
import scipy.sparse as sp

import goalward as gw
from goalward.core.arrays import to_numpy
from goalward.errors import Unsupported
from goalward.goals import Custom, DevLoss, Entropy, Fisher
from goalward.testing import problem
from goalward.utility import FirstOrder, ImplicitStep, Retrain

GOALS = {
    "dev": lambda task: task.goal,
    "entropy": lambda task: Entropy(task.X_pool),
    "fisher": lambda task: Fisher(task.X_pool),
    "sum": lambda task: task.goal - 0.3 * Entropy(task.X_pool),
}


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("n_features", [4, 60])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_no_retrained_model_is_farther_than_its_bound(n_classes, n_features, goal):
    """Penalties strong and weak, features few and many; 0 violations, and bounds that say something."""
    ratios, finite = [], []
    for C in (0.03, 1.0, 30.0):
        task = problem(n_classes=n_classes, n_features=n_features, n_labelled=40, C=C, n_pool=25)
        tau = GOALS[goal](task)
        truth = Retrain(tol=1e-11)(task.fitted, tau, task.X_pool)
        for corrections in (1, 2):
            utility = ImplicitStep(corrections=corrections)
            got = utility.certified(task.fitted, tau, task.X_pool)
            np.testing.assert_allclose(
                got.utility, utility(task.fitted, tau, task.X_pool), atol=1e-9
            )
            error = np.abs(got.utility - truth)
            assert np.all(error <= got.bound + 1e-9 * np.abs(truth).max())
            known = np.isfinite(got.bound) & (error > 1e-8 * np.abs(truth).max())
            ratios.append((got.bound / np.maximum(error, 1e-300))[known])
            finite.append(np.isfinite(got.bound).mean())
    assert np.median(np.concatenate(ratios)) <= 10.0
    assert finite[0] == 1.0  # a strong penalty: everything is certified after one step


def test_bounds_shrink_with_every_step():
    task = problem(n_classes=3, n_features=10, C=1.0)
    medians = [
        np.median(ImplicitStep(corrections=k).certified(task.fitted, task.goal, task.X_pool).bound)
        for k in (1, 2, 3, 4)
    ]
    assert np.all(np.diff(medians) < 0.0)
    exact = Retrain().certified(task.fitted, task.goal, task.X_pool)
    assert exact.bound.max() < 1e-6 * np.abs(exact.utility).max()


def test_free_intercepts_need_no_penalty():
    """The bound is one of the curvature's norm, so an unpenalised intercept is certified too."""
    task = problem(n_classes=3, C=0.1)
    assert float(task.fitted.penalty[-1]) == 0.0
    got = ImplicitStep(corrections=2).certified(task.fitted, task.goal, task.X_pool)
    assert np.isfinite(got.bound).all()


def test_where_there_is_no_proof_the_bound_is_infinite():
    """A goal of one's own does not say how much it bends."""
    task = problem()
    goal = Custom(
        task.X_dev, lambda logits: np.sum((logits[..., 0] - logits[..., 1]) ** 2, axis=-1)
    )
    got = ImplicitStep(corrections=1).certified(task.fitted, goal, task.X_pool)
    assert np.isinf(got.bound).all()
    assert np.isfinite(got.utility).all()


@pytest.mark.parametrize("utility", [FirstOrder(), ImplicitStep()])
def test_utilities_without_steps_have_none(utility):
    task = problem()
    with pytest.raises(Unsupported, match="corrections"):
        utility.certified(task.fitted, task.goal, task.X_pool)


def test_a_suggestion_reports_the_certificate_of_its_rows():
    task = problem(C=0.1)
    utility = ImplicitStep(corrections=1)
    strategy = gw.GoalOriented(task.goal, utility=utility)
    got = strategy.suggest(task.fitted, task.X_pool, 3)
    whole = utility.certified(task.fitted, task.goal, task.X_pool)
    np.testing.assert_allclose(got.certificate, whole.bound[got.rows], rtol=1e-6)
    assert gw.GoalOriented(task.goal).suggest(task.fitted, task.X_pool, 3).certificate is None


def test_every_array_library_and_sparse_rows_give_the_same(to_xp):
    task = problem(n_features=50, n_pool=8)
    utility = ImplicitStep(corrections=1)
    plain = utility.certified(task.fitted, task.goal, task.X_pool)
    fitted = task.learner.fit(to_xp(task.X), task.y)
    got = utility.certified(fitted, DevLoss(to_xp(task.X_dev), task.y_dev), to_xp(task.X_pool))
    np.testing.assert_allclose(to_numpy(got.bound), plain.bound, rtol=1e-4)
    thin = utility.certified(
        task.learner.fit(sp.csr_array(task.X), task.y),
        DevLoss(sp.csr_array(task.X_dev), task.y_dev),
        sp.csr_array(task.X_pool),
    )
    np.testing.assert_allclose(thin.bound, plain.bound, rtol=1e-4)

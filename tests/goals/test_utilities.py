"""What utilities make of the goals: against retraining, and against the matrices formed."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import goalward as gw
from goalward.errors import Unsupported
from goalward.goals import (
    CalibratedDevLoss,
    Coupled,
    Custom,
    DevLoss,
    SmoothAccuracy,
    SmoothF1,
    SoftPool,
    TargetSet,
    WorstGroup,
)
from goalward.models import Softmax
from goalward.scale import open_pool
from goalward.testing import explicit, problem
from goalward.utility import FirstOrder, ImplicitStep, Retrain
from goalward.utility.implicit_step import couplings_of
from goalward.utility.neighbours import Neighbours

BAYES = gw.labels.LabelModel(GaussianNB())
GOALS = {
    "soft pool": lambda X, y: SoftPool(X, BAYES),
    "calibrated": CalibratedDevLoss,
    "target": lambda X, y: TargetSet(X, y, X[X[:, 0] > 0]),
    "worst group": lambda X, y: WorstGroup(X, y, np.arange(len(y)) % 3),
    "accuracy": SmoothAccuracy,
    "f1": lambda X, y: SmoothF1(X, y, positive=y[0]),
    "macro f1": SmoothF1,
}
COUPLED = ["calibrated", "worst group", "f1", "macro f1"]


@pytest.fixture(scope="module")
def digits():
    """Four digits in 10 features: 250 labelled, 200 dev rows, 50 candidates."""
    X, y = load_digits(return_X_y=True)
    some = np.isin(y, [3, 5, 8, 9])
    order = np.random.default_rng(0).permutation(some.sum())
    X = PCA(10, random_state=0).fit_transform(X[some][order] / 16.0)
    y = y[some][order]
    fitted = gw.Logistic(C=1.0).fit(X[:250], y[:250])
    return fitted, X[250:450], y[250:450], X[450:500]


@pytest.mark.parametrize("name", GOALS)
def test_utilities_rank_as_retraining_does(name, digits):
    fitted, X_dev, y_dev, pool = digits
    goal = GOALS[name](X_dev, y_dev).for_round(fitted)
    truth = Retrain()(fitted, goal, pool)
    first, second = (u(fitted, goal, pool) for u in (FirstOrder(), ImplicitStep()))
    assert spearmanr(first.ravel(), truth.ravel()).statistic > 0.9
    assert spearmanr(second.ravel(), truth.ravel()).statistic > 0.98
    # Where the row's label is the likely one, steps are small and the second order counts.
    small = np.abs(truth) < np.quantile(np.abs(truth), 0.5)
    errors = [np.median(np.abs(u - truth)[small]) for u in (first, second)]
    assert errors[1] < 0.3 * errors[0]


@pytest.mark.parametrize("name", GOALS)
def test_retraining_is_the_change_of_the_goal(name):
    task = problem(n_labelled=40, n_pool=4, n_dev=100)
    goal = GOALS[name](task.X_dev, task.y_dev).for_round(task.fitted)
    utility = Retrain()(task.fitted, goal, task.X_pool)
    for i in range(4):
        more = task.learner.fit(np.vstack([task.X, task.X_pool[i]]), [*task.y, 1])
        change = goal.value(more) - goal.value(task.fitted)
        assert utility[i, 1] == pytest.approx(change, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("n_features", [4, 60])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", COUPLED)
def test_coupled_rows_add_their_part_to_n(name, n_classes, n_features):
    """Σ_ij C_ij y_i y_jᵀ is J 𝓗⁻¹ J_gᵀ (W - W_rows) J_g 𝓗⁻¹ Jᵀ, with all of them formed."""
    task = problem(n_classes=n_classes, n_features=n_features, n_labelled=30, n_pool=5)
    fitted = task.fitted
    goal = 0.7 * GOALS[name](task.X_dev, task.y_dev)
    family = Neighbours.of(fitted, goal)
    solve = gw.solvers.Auto().prepare(fitted.hessian)
    (coupling,) = couplings_of(family, solve)
    found = coupling(family, task.X_pool)

    ((weight, X, kernel),) = goal.terms(fitted)
    assert isinstance(kernel, Coupled)
    logits = fitted.logits_of(X)
    basis = np.eye(logits.size).reshape(-1, *logits.shape)
    W = np.stack([(kernel.curvature(logits, e) - kernel.own(logits, e)).ravel() for e in basis])
    assert np.abs(W).max() > 1e-6

    def jacobian(X):
        return np.vstack([np.kron(np.append(x, 1.0)[None, :], np.eye(n_classes)) for x in X])

    H = np.linalg.pinv(explicit(fitted.hessian), rcond=1e-12)
    pulled = H @ jacobian(X).T
    S = weight * pulled @ W @ pulled.T
    Q = Softmax().basis(n_classes, fitted.params)
    for row, N in zip(task.X_pool, found, strict=True):
        J = Q.T @ jacobian(row[None])
        np.testing.assert_allclose(N, J @ S @ J.T, rtol=1e-6, atol=1e-8 * np.abs(found).max())


@pytest.mark.parametrize("name", COUPLED)
def test_the_error_of_the_implicit_step_falls_as_fast_as_for_other_goals(name):
    """O(n⁻³) with the coupling where first order's falls like n⁻²; slopes of medians."""
    sizes = [200, 1600]
    errors = []
    for n in sizes:
        found = []
        for seed in range(6):
            task = problem(n_labelled=n, n_pool=10, n_dev=60, seed=seed)
            goal = GOALS[name](task.X_dev, task.y_dev)
            truth = Retrain(tol=1e-12)(task.fitted, goal, task.X_pool)
            utilities = [u(task.fitted, goal, task.X_pool) for u in (FirstOrder(), ImplicitStep())]
            found.append([np.median(np.abs(u - truth)) for u in utilities])
        errors.append(np.median(found, axis=0))
    first, second = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert second < -2.3, (first, second)
    assert second - first < -0.6, (first, second)


def test_a_custom_goal_that_couples_rows_is_not_taken_row_by_row(digits):
    """It would be wrong, silently: the goal evaluated, or retraining, are right."""
    fitted, X_dev, y_dev, pool = digits
    kernel = SmoothF1(X_dev, y_dev).terms(fitted)[0].kernel
    custom = Custom(X_dev, lambda f: float(kernel.value(f)), derivatives="differences")
    with pytest.raises(Unsupported, match=r"depend on one another.*exact_goal=True"):
        ImplicitStep()(fitted, custom, pool[:5])
    exact = ImplicitStep(exact_goal=True)
    np.testing.assert_allclose(
        exact(fitted, custom, pool[:5]),
        exact(fitted, SmoothF1(X_dev, y_dev), pool[:5]),
        rtol=1e-5,
        atol=1e-9,
    )


@pytest.mark.parametrize("name", GOALS)
def test_a_goal_of_rows_on_disk_is_the_same(name, tmp_path):
    task = problem(n_dev=200)
    np.save(tmp_path / "dev.npy", task.X_dev)
    on_disk = open_pool(tmp_path / "dev.npy")
    make = {**GOALS, "target": lambda X, y: TargetSet(X, y, task.X_pool)}[name]
    memory = make(task.X_dev, task.y_dev)
    expected = memory.for_round(task.fitted)
    whole = make(on_disk, task.y_dev).for_round(task.fitted)
    assert whole.value(task.fitted) == pytest.approx(expected.value(task.fitted), rel=1e-12)


@pytest.mark.parametrize("name", GOALS)
def test_goals_are_the_same_in_every_library(name, to_xp):
    task = problem(n_labelled=60, n_dev=100)
    goal = GOALS[name](task.X_dev, task.y_dev)
    fitted = task.learner.fit(to_xp(task.X), task.y)
    if name == "target" or name == "soft pool":
        goal = goal.for_round(task.fitted)
    assert goal.value(fitted) == pytest.approx(goal.value(task.fitted), rel=1e-8)
    for utility in (FirstOrder(), ImplicitStep()):
        np.testing.assert_allclose(
            np.asarray(utility(fitted, goal, to_xp(task.X_pool[:5]))),
            utility(task.fitted, goal, task.X_pool[:5]),
            rtol=1e-5,
            atol=1e-7,
        )


@pytest.mark.parametrize("name", GOALS)
def test_goals_of_models_without_derivatives(name):
    """A tree is refitted, and the goal of its logits taken."""
    task = problem(n_labelled=60, n_dev=100)
    tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(task.X, task.y)
    fitted = gw.adapters.from_classifier(tree, task.X, task.y)
    goal = GOALS[name](task.X_dev, task.y_dev).for_round(fitted)
    found = Retrain()(fitted, goal, task.X_pool[:2])
    again = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
    again.fit(np.vstack([task.X, task.X_pool[1]]), [*task.y, 2])
    after = gw.adapters.from_classifier(again, np.vstack([task.X, task.X_pool[1]]), [*task.y, 2])
    assert found[1, 2] == pytest.approx(goal.value(after) - goal.value(fitted), rel=1e-9, abs=1e-12)


def test_a_dev_loss_is_left_as_it_was(digits):
    fitted, X_dev, y_dev, pool = digits
    settled = SoftPool(X_dev, gw.labels.Truth(y_dev)).for_round(fitted)
    for utility in (FirstOrder(), ImplicitStep()):
        np.testing.assert_allclose(
            utility(fitted, settled, pool), utility(fitted, DevLoss(X_dev, y_dev), pool), atol=1e-10
        )

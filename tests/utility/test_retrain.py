import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import goalward as gw
from goalward.goals import DevLoss, Entropy, Fisher
from goalward.testing import check_utility, problem
from goalward.utility import Retrain, neighbours
from goalward.utility import retrain as moved_models

KINDS = [(True, False), (True, True), (False, False)]


def by_scikit_learn(task, rows, labels):
    """The dev goal after scikit-learn has refitted with the added rows."""
    X, y = np.vstack([task.X, rows]), np.append(task.y, labels)
    C = task.learner.C * (2 if task.fitted.n_classes == 2 else 1)
    model = LogisticRegression(C=C, tol=1e-12, solver="newton-cholesky").fit(X, y)
    log_p = model.predict_log_proba(task.X_dev)
    return log_p[np.arange(len(log_p)), task.y_dev].sum()


def test_it_conforms():
    check_utility(Retrain(), rank=1.0 - 1e-12, rtol=1e-9)


@pytest.mark.parametrize("n_features", [4, 60])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_it_agrees_with_scikit_learn_refits(n_classes, n_features):
    task = problem(n_classes=n_classes, n_features=n_features, seed=n_features)
    before = by_scikit_learn(task, np.empty((0, n_features)), [])
    got = Retrain()(task.fitted, task.goal, task.X_pool[:5])
    exact = [
        [by_scikit_learn(task, x[None], [k]) - before for k in range(n_classes)]
        for x in task.X_pool[:5]
    ]
    np.testing.assert_allclose(got, exact, atol=2e-6 * max(1.0, np.abs(exact).max()))


@pytest.mark.parametrize(("intercept", "penalised"), KINDS)
@pytest.mark.parametrize("n_features", [4, 60])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_it_is_what_refitting_gives(n_classes, n_features, intercept, penalised):
    """Any kind of intercept, more or fewer features than rows, weights and a sum of goals."""
    options = {"fit_intercept": intercept, "penalize_intercept": penalised}
    task = problem(n_classes=n_classes, n_features=n_features, **options)
    weights = np.linspace(0.5, 2.0, len(task.X))
    fitted = task.learner.fit(task.X, task.y, sample_weight=weights)
    goal = task.goal + 0.5 * Entropy(task.X_pool) + Fisher(task.X_dev)
    got = Retrain()(fitted, goal, task.X_pool[:4])
    for i, x in enumerate(task.X_pool[:4]):
        for k in range(n_classes):
            again = task.learner.fit(
                np.vstack([task.X, x]), np.append(task.y, k), sample_weight=np.append(weights, 1.0)
            )
            change = goal.value(again) - goal.value(fitted)
            assert got[i, k] == pytest.approx(change, abs=1e-6 * np.abs(got).max())


@pytest.mark.parametrize(("n_classes", "n_features"), [(2, 4), (2, 60), (3, 4), (3, 60)])
def test_batches_are_what_refitting_gives(n_classes, n_features):
    task = problem(n_classes=n_classes, n_features=n_features)
    batches = task.X_pool[:6].reshape(2, 3, -1)
    got = Retrain().batch(task.fitted, task.goal, batches)
    assert got.shape == (2, n_classes**3)
    for i in range(2):
        for j, labels in enumerate(np.ndindex(*[n_classes] * 3)):
            again = task.learner.fit(np.vstack([task.X, batches[i]]), np.append(task.y, labels))
            change = task.goal.value(again) - task.goal.value(task.fitted)
            assert got[i, j] == pytest.approx(change, abs=1e-6 * np.abs(got).max())


def test_sparse_rows_are_retrained_as_they_are(rng):
    task = problem(n_features=60, n_classes=3)
    mask = rng.random(60) < 0.3
    X, pool, dev = task.X * mask, task.X_pool[:6] * mask, task.X_dev * mask
    goal, thin = DevLoss(dev, task.y_dev), DevLoss(sp.csr_array(dev), task.y_dev)
    dense = Retrain()(task.learner.fit(X, task.y), goal, pool)
    sparse = task.learner.fit(sp.csr_array(X), task.y)
    np.testing.assert_allclose(Retrain()(sparse, thin, sp.csr_array(pool)), dense, atol=1e-7)
    batches = [sp.csr_array(pool[:2]), sp.csr_array(pool[2:4])]
    np.testing.assert_allclose(
        Retrain().batch(sparse, thin, batches),
        Retrain().batch(task.learner.fit(X, task.y), goal, pool[:4].reshape(2, 2, -1)),
        atol=1e-7,
    )


@pytest.mark.parametrize("n_classes", [2, 4])
def test_stalled_models_are_finished_by_newton(n_classes, monkeypatch):
    """A weak penalty on separable rows: a few steps do not suffice, and the numbers stay right."""
    task = problem(n_classes=n_classes, n_features=60, n_labelled=25, C=1e4)
    calls = []
    newton = moved_models.MovedModels._polished
    monkeypatch.setattr(
        moved_models.MovedModels,
        "_polished",
        lambda self, *args: calls.append(1) or newton(self, *args),
    )
    got = Retrain(max_sweeps=5)(task.fitted, task.goal, task.X_pool[:3])
    assert calls
    for i, x in enumerate(task.X_pool[:3]):
        for k in range(n_classes):
            again = task.learner.fit(np.vstack([task.X, x]), np.append(task.y, k))
            change = task.goal.value(again) - task.goal.value(task.fitted)
            assert got[i, k] == pytest.approx(change, abs=1e-5 * np.abs(got).max())
    both = Retrain(max_sweeps=2).batch(task.fitted, task.goal, task.X_pool[None, :2])
    again = task.learner.fit(np.vstack([task.X, task.X_pool[:2]]), np.append(task.y, [0, 1]))
    change = task.goal.value(again) - task.goal.value(task.fitted)
    assert both[0, 1] == pytest.approx(change, abs=1e-5 * np.abs(both).max())


def test_chunks_and_threads_change_nothing(monkeypatch):
    task = problem(n_classes=3, n_features=50)
    whole = Retrain()(task.fitted, task.goal, task.X_pool)
    monkeypatch.setattr(neighbours, "CHUNK", 2000)
    np.testing.assert_allclose(
        Retrain()(task.fitted, task.goal, task.X_pool), whole, atol=1e-7 * np.abs(whole).max()
    )
    np.testing.assert_allclose(
        Retrain(n_jobs=2)(task.fitted, task.goal, task.X_pool),
        whole,
        atol=1e-7 * np.abs(whole).max(),
    )
    pairs = task.X_pool[:4].reshape(2, 2, -1)
    np.testing.assert_allclose(
        Retrain(n_jobs=2).batch(task.fitted, task.goal, pairs),
        Retrain().batch(task.fitted, task.goal, pairs),
        atol=1e-7,
    )


def test_a_row_that_is_labelled_already_may_be_labelled_again():
    task = problem(n_features=60)
    got = Retrain()(task.fitted, task.goal, task.X[:2])
    again = task.learner.fit(np.vstack([task.X, task.X[0]]), np.append(task.y, task.y[0]))
    change = task.goal.value(again) - task.goal.value(task.fitted)
    assert got[0, task.y[0]] == pytest.approx(change, rel=1e-6)


def test_custom_goals_are_retrained_too():
    task = problem()

    def brier(f):
        p = np.exp(f - f.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return -np.sum((p - np.eye(3)[task.y_dev]) ** 2)

    goal = gw.goals.Custom(task.X_dev, brier, derivatives="differences")
    got = Retrain()(task.fitted, goal, task.X_pool[:2])
    again = task.learner.fit(np.vstack([task.X, task.X_pool[1]]), np.append(task.y, 2))
    assert got[1, 2] == pytest.approx(goal.value(again) - goal.value(task.fitted), abs=1e-7)

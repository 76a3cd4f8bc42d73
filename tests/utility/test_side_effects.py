"""Labels that change more than their own row, against the learner fitted again with them."""

import warnings

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression

import goalward as gw
from goalward.adapters import from_sklearn
from goalward.errors import UnseenClass, Unsupported
from goalward.testing import problem
from goalward.utility import FirstOrder, ImplicitStep, Ladder, Retrain

TIGHT = {"tol": 1e-12, "solver": "newton-cholesky", "max_iter": 1000}


def balanced(task, rows, weights=None):
    """Return the adapted model, and Δτ of rows by scikit-learn's own refits."""
    K, n = task.fitted.n_classes, len(task.X)

    def refit(X, y, w):
        model = LogisticRegression(C=0.5, class_weight="balanced", **TIGHT).fit(X, y, w)
        value = model.predict_log_proba(task.X_dev)[np.arange(25), task.y_dev].sum()
        return model, value

    known = np.ones(n) if weights is None else weights
    before, base = refit(task.X, task.y, weights)
    exact = [
        [
            refit(np.vstack([task.X, x]), np.append(task.y, k), np.append(known, 1.0))[1] - base
            for k in range(K)
        ]
        for x in rows
    ]
    return from_sklearn(before, task.X, task.y, weights), np.array(exact)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_classes", "n_features"), [(2, 4), (3, 4), (3, 60)])
def test_balanced_weights_are_balanced_anew_with_each_label(n_classes, n_features, weighted):
    task = problem(n_classes=n_classes, n_features=n_features)
    weights = np.linspace(0.5, 2.0, len(task.X)) if weighted else None
    fitted, exact = balanced(task, task.X_pool[:4], weights)
    got = Retrain()(fitted, task.goal, task.X_pool[:4])
    np.testing.assert_allclose(got, exact, atol=1e-6 * np.abs(exact).max())


def test_approximations_know_balanced_weights_too():
    """With the weights of the fit the median error was 40 %, and 17 to 20 % of the signs wrong."""
    task = problem(n_classes=3, n_labelled=300)
    fitted, exact = balanced(task, task.X_pool[:10])
    implicit = ImplicitStep()(fitted, task.goal, task.X_pool[:10])
    assert np.median(np.abs(implicit / exact - 1.0)) < 0.002
    first = FirstOrder()(fitted, task.goal, task.X_pool[:10])
    assert spearmanr(first.ravel(), exact.ravel()).statistic > 0.97
    assert np.array_equal(np.sign(first), np.sign(exact))
    np.testing.assert_allclose(
        gw.GoalOriented(task.goal, utility=ImplicitStep()).suggest(fitted, task.X_pool[:10]).per_label,
        implicit,
    )  # fmt: skip


def test_rows_taken_in_balance_the_weights():
    task = problem(n_classes=3)
    fitted, _ = balanced(task, [])
    with_one = fitted.with_rows(task.X_pool[:1], np.eye(3)[:1]).polished(tol=1e-10)
    X, y = np.vstack([task.X, task.X_pool[:1]]), np.append(task.y, 0)
    refit = LogisticRegression(C=0.5, class_weight="balanced", **TIGHT).fit(X, y)
    np.testing.assert_allclose(
        with_one.predict_proba(task.X_dev), refit.predict_proba(task.X_dev), atol=1e-7
    )
    strategy = gw.GoalOriented(task.goal, selection=gw.selection.Sequential())
    assert len(set(strategy.suggest(fitted, task.X_pool, 3).rows.tolist())) == 3
    with pytest.raises(Unsupported, match="as a dict"):
        Retrain().batch(fitted, task.goal, task.X_pool[None, :2])


@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("utility", [FirstOrder(), ImplicitStep(), Retrain()], ids=repr)
def test_the_first_label_of_a_class_is_what_the_learner_makes_of_it(utility, missing):
    """The last class to come frees the intercepts: penalised, utilities had the other sign."""
    task = problem(n_classes=4, n_labelled=60)
    known = task.y < 4 - missing
    X, y = task.X[known], task.y[known]
    learner = gw.Logistic(C=0.3, classes=range(4), tol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenClass)
        fitted = learner.fit(X, y)
        exact = np.array(
            [
                [
                    task.goal.value(learner.fit(np.vstack([X, x]), np.append(y, k)))
                    - task.goal.value(fitted)
                    for k in range(4)
                ]
                for x in task.X_pool[:5]
            ]
        )
    got = utility(fitted, task.goal, task.X_pool[:5])
    first = slice(4 - missing, 4)
    if missing == 1 or utility == Retrain():
        np.testing.assert_allclose(got[:, first], exact[:, first], rtol=1e-5)
    elif utility == ImplicitStep():
        assert np.median(np.abs(got[:, first] / exact[:, first] - 1.0)) < 0.1
    if utility == Retrain():
        np.testing.assert_allclose(got, exact, atol=1e-5)
    with pytest.raises(Unsupported, match="penalize_intercept=True"):
        utility.batch(fitted, task.goal, task.X_pool[None, :2])


@pytest.mark.parametrize("n_features", [4, 60])
@pytest.mark.parametrize("C", [1e4, 1e6])
def test_separated_classes_that_are_hardly_penalised_are_retrained_or_refused(C, n_features):
    task = problem(n_classes=2, n_features=n_features)
    direction = np.random.default_rng(0).normal(size=n_features)
    y, y_dev = (task.X @ direction > 0).astype(int), (task.X_dev @ direction > 0).astype(int)
    goal = gw.goals.DevLoss(task.X_dev, y_dev)
    fitted = gw.Logistic(C=C).fit(task.X, y)
    for utility in (FirstOrder(), ImplicitStep(), ImplicitStep(exact_goal=True)):
        with pytest.raises(Unsupported, match=r"separable.*Use Retrain\(\)"):
            utility(fitted, goal, task.X_pool)

    tight = gw.Logistic(C=C, tol=1e-11)
    exact = [
        [
            goal.value(tight.fit(np.vstack([task.X, x]), np.append(y, k))) - goal.value(fitted)
            for k in (0, 1)
        ]
        for x in task.X_pool[:3]
    ]
    # Retrain stops by the decrement of F, which says less of the goal the weaker the penalty.
    scale = 5e-4 * np.abs(exact).max()
    np.testing.assert_allclose(Retrain()(fitted, goal, task.X_pool[:3]), exact, atol=scale)
    auto = gw.GoalOriented(goal, utility=Ladder(rows=3)).suggest(fitted, task.X_pool[:9], 1)
    assert auto.solver is not None

"""Cases that once went wrong, or would have: each a promise kept."""

import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

import goalward as gw
from goalward import errors
from goalward.core.arrays import to_numpy
from goalward.testing import problem
from goalward.utility import FirstOrder, Retrain
from tests.conftest import need

TASK = problem()


@pytest.mark.parametrize("n_features", [4, 60])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_row_labelled_now_gets_the_weight_of_its_class(n_classes, n_features):
    """Against scikit-learn refits with class_weight, sample_weight, and batches."""
    task = problem(n_classes=n_classes, n_features=n_features)
    weight = {0: 5.0, 1: 0.5, 2: 1.5}
    options = {"C": 0.5, "class_weight": {k: weight[k] for k in range(n_classes)}}
    options |= {"tol": 1e-12, "solver": "newton-cholesky"}

    def refit(rows, labels):
        X, y = np.vstack([task.X, rows]), np.append(task.y, labels).astype(int)
        model = LogisticRegression(**options).fit(X, y)
        return model, model.predict_log_proba(task.X_dev)[np.arange(25), task.y_dev].sum()

    before, base = refit(np.empty((0, n_features)), [])
    fitted = gw.adapters.from_sklearn(before, task.X, task.y)
    got = Retrain()(fitted, task.goal, task.X_pool[:3])
    cheap = FirstOrder()(fitted, task.goal, task.X_pool[:3])
    for i, x in enumerate(task.X_pool[:3]):
        for k in range(n_classes):
            exact = refit(x[None], [k])[1] - base
            assert got[i, k] == pytest.approx(exact, abs=1e-6 * np.abs(got).max())
    plain = FirstOrder()(replace(fitted, class_weights=None), task.goal, task.X_pool[:3])
    np.testing.assert_allclose(cheap, plain * [weight[k] for k in range(n_classes)])
    pair = Retrain().batch(fitted, task.goal, task.X_pool[None, :2], labels=[[0, 1]])
    exact = refit(task.X_pool[:2], [0, 1])[1] - base
    assert pair[0, 0] == pytest.approx(exact, abs=1e-6 * abs(exact) + 1e-8)


@pytest.mark.parametrize("C", [1.0, 1e3, 1e5])
def test_weak_penalties_are_fitted_to_the_optimum_all_the_same(C):
    """A gradient of 1e-8 says little along directions of curvature 1/C; the last step does."""
    task = problem(n_classes=2, n_features=60, n_labelled=30, C=C, tol=1e-8)
    tight = gw.Logistic(C=C, tol=1e-13).fit(task.X, task.y)
    np.testing.assert_allclose(
        task.fitted.predict_proba(task.X_dev), tight.predict_proba(task.X_dev), atol=1e-8
    )
    got = Retrain()(task.fitted, task.goal, task.X_pool[:2])
    again = gw.Logistic(C=C, tol=1e-13).fit(
        np.vstack([task.X, task.X_pool[:1]]), np.append(task.y, 1)
    )
    change = task.goal.value(again) - task.goal.value(tight)
    assert got[0, 1] == pytest.approx(change, rel=1e-6)


def test_random_keeps_its_order_in_a_shrinking_pool():
    ids, whole = np.arange(1000), gw.strategies.Random(0)
    X = np.zeros((1000, 4))
    order = whole.suggest(TASK.fitted, X, 50).rows
    taken = []
    for number in range(10):
        left = np.setdiff1d(ids, taken)
        picked = whole.suggest(TASK.fitted, X[left], 5, rows=left, round=number).rows
        taken += picked.tolist()
    np.testing.assert_array_equal(taken, order)
    assert np.min(np.abs(np.diff(np.sort(order)))) >= 1
    assert np.std(np.diff(np.sort(order))) > 10  # not in steps, as neighbours would be
    words = [f"row {i}" for i in range(1000)]
    assert len(set(whole.suggest(TASK.fitted, X, 5, rows=words).rows)) == 5
    other = gw.strategies.Random(1).suggest(TASK.fitted, X, 50).rows
    assert len(set(order) & set(other)) < 20


def test_exclude_refuses_what_is_not_an_id_of_the_pool():
    suggest = gw.strategies.Margin().suggest
    with pytest.raises(errors.BadParameter, match="40 booleans among 40"):
        suggest(TASK.fitted, TASK.X_pool, 1, exclude=np.arange(40) < 39)
    with pytest.raises(errors.BadParameter, match="'1' \\(str\\)"):
        suggest(TASK.fitted, TASK.X_pool, 1, exclude=["1"])
    ids = [("a", i) for i in range(40)]
    got = suggest(TASK.fitted, TASK.X_pool, 39, exclude=[("a", 3)], rows=ids).rows
    assert ("a", 3) not in list(got)
    mixed = suggest(TASK.fitted, TASK.X_pool[:3], 3, rows=["a", 1, 2.5]).rows
    assert set(mixed.tolist()) == {"a", 1, 2.5}
    generator = (i for i in (0, 1))
    assert not {0, 1} & set(suggest(TASK.fitted, TASK.X_pool, 38, exclude=generator).rows.tolist())


def test_truth_of_a_series_is_in_order_whatever_its_index():
    shuffled = pd.Series(TASK.y_pool, index=np.random.default_rng(0).permutation(40))
    u = FirstOrder()(TASK.fitted, TASK.goal, TASK.X_pool)
    got = gw.labels.Expected(gw.labels.Truth(shuffled))(u, TASK.fitted, TASK.X_pool)
    np.testing.assert_array_equal(got, u[np.arange(40), TASK.y_pool])


def test_frames_must_keep_their_columns():
    frame = pd.DataFrame(TASK.X, columns=list("abcd"))
    fitted = gw.Logistic().fit(frame, TASK.y)
    pool = pd.DataFrame(TASK.X_pool, columns=list("abcd"))
    np.testing.assert_array_equal(fitted.predict(pool), fitted.predict(TASK.X_pool))
    with pytest.raises(errors.ShapeMismatch, match="got d, c, b, a"):
        fitted.predict_proba(pool[list("dcba")])


def test_a_custom_goal_cannot_hide_behind_an_offset():
    with pytest.raises(errors.BadInput, match="constant is added"):
        gw.goals.Custom(TASK.X_dev, lambda f: 1e6 + 0.05 * f[:, 0].sum()).value(TASK.fitted)


def test_threads_are_given_back_after_overlapping_calls():
    before = [pool["num_threads"] for pool in threadpool_info()]
    pools = [np.tile(TASK.X_pool, (n, 1)) for n in (5, 40)]
    calls = [
        threading.Thread(target=Retrain(), args=(TASK.fitted, TASK.goal, pool)) for pool in pools
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_a_model_does_not_change_when_the_callers_rows_do():
    X = TASK.X.copy()
    fitted = gw.Logistic().fit(X, TASK.y)
    X[:] = 0.0
    exact = FirstOrder()(gw.Logistic().fit(TASK.X, TASK.y), TASK.goal, TASK.X_pool)
    np.testing.assert_array_equal(FirstOrder()(fitted, TASK.goal, TASK.X_pool), exact)


def test_retraining_refuses_uneven_penalties():
    uneven = TASK.fitted.penalty.copy()
    uneven[0] = 7.0
    with pytest.raises(errors.Unsupported, match="must have one penalty"):
        Retrain()(replace(TASK.fitted, penalty=uneven), TASK.goal, TASK.X_pool)


@pytest.mark.parametrize("utility", [FirstOrder(), Retrain()], ids=repr)
def test_batches_run_on_every_array_library(utility, to_xp):
    fitted = TASK.learner.fit(to_xp(TASK.X), TASK.y)
    goal = gw.goals.Entropy(to_xp(TASK.X_pool)) + gw.goals.Fisher(to_xp(TASK.X_dev))
    plain = gw.goals.Entropy(TASK.X_pool) + gw.goals.Fisher(TASK.X_dev)
    batches = TASK.X_pool[:4].reshape(2, 2, -1)
    np.testing.assert_allclose(
        to_numpy(utility.batch(fitted, goal, to_xp(batches))),
        utility.batch(TASK.fitted, plain, batches),
        atol=1e-7,
    )


def test_labels_of_batches_are_any_hashables():
    names = [(0, 1), "b", 7]
    fitted = gw.Logistic(classes=names).fit(TASK.X, [names[k] for k in TASK.y])
    goal = gw.goals.DevLoss(TASK.X_dev, [names[k] for k in TASK.y_dev])
    every = FirstOrder().batch(fitted, goal, TASK.X_pool[None, :2])
    got = FirstOrder().batch(fitted, goal, TASK.X_pool[None, :2], labels=[["b", (0, 1)], [7, "b"]])
    np.testing.assert_allclose(got[0], every[0, [3, 7]])
    with pytest.raises(errors.ShapeMismatch, match="Use X\\[None\\] for a single batch"):
        FirstOrder().batch(fitted, goal, TASK.X_pool[:2])


@pytest.mark.heavy
def test_half_precision_tensors_are_widened():
    need("torch")
    import torch

    X = torch.tensor(TASK.X, requires_grad=True)
    fitted = gw.Logistic().fit(X, TASK.y)
    assert not fitted.params.requires_grad
    pool = torch.as_tensor(TASK.X_pool)
    exact = gw.GoalOriented(TASK.goal).suggest(fitted, pool, 3)
    for dtype in (torch.float16, torch.bfloat16):
        got = gw.GoalOriented(TASK.goal).suggest(fitted, pool.to(dtype), 3)
        np.testing.assert_allclose(
            got.utility, exact.utility, atol=0.05 * exact.utility.std() + 0.05
        )
    with pytest.raises(errors.Unsupported, match="array library"):
        fitted.predict_proba(sp.csr_array(TASK.X_pool))


def test_a_model_at_zero_is_not_called_loose():
    X = np.vstack([TASK.X[:10]] * 2)
    y = np.repeat([0, 1], 10)
    estimator = LogisticRegression(tol=1e-12, max_iter=1000).fit(X, y)
    assert gw.adapters.from_sklearn(estimator, X, y).gradient < 1e-6


def test_the_adapter_takes_nested_pipelines_columns_of_labels_and_our_classifier():
    inner = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10, max_iter=9999))
    nested = make_pipeline(StandardScaler(), inner).fit(TASK.X, TASK.y)
    fitted = gw.adapters.from_sklearn(nested, TASK.X, TASK.y[:, None])
    np.testing.assert_allclose(
        fitted.predict_proba(TASK.X_pool), nested.predict_proba(TASK.X_pool), atol=1e-10
    )
    ours = make_pipeline(StandardScaler(), gw.LogisticClassifier()).fit(TASK.X, TASK.y)
    adapted = gw.adapters.from_sklearn(ours, TASK.X, TASK.y)
    np.testing.assert_allclose(adapted.predict_proba(TASK.X_pool), ours.predict_proba(TASK.X_pool))


def test_a_lasso_chosen_by_cross_validation_is_refused():
    import warnings

    task = problem(n_labelled=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Before 1.8 scikit-learn reads l1_ratios only where the penalty says so.
        old = LogisticRegressionCV().penalty == "l2"
        estimator = LogisticRegressionCV(
            Cs=[1.0], cv=2, l1_ratios=(1.0,), solver="saga", tol=0.1, max_iter=50,
            **({"penalty": "elasticnet"} if old else {}),
        ).fit(task.X, task.y)  # fmt: skip
        with pytest.raises(errors.Unsupported, match="L1"):
            gw.adapters.from_sklearn(estimator, task.X, task.y)


def test_the_wrong_kind_of_model_is_told_the_way():
    estimator = LogisticRegression().fit(TASK.X, TASK.y)
    with pytest.raises(errors.Unsupported, match=r"gw\.adapters\.from_sklearn"):
        FirstOrder()(estimator, TASK.goal, TASK.X_pool)
    with pytest.raises(errors.Unsupported, match=r"gw\.suggest\(model, X_labelled"):
        gw.GoalOriented(TASK.goal).suggest(estimator, TASK.X_pool, 1)
    classifier = gw.LogisticClassifier().fit(TASK.X, TASK.y)
    assert len(gw.strategies.Margin().suggest(classifier, TASK.X_pool, 2).rows) == 2


def test_collinear_rows_with_a_weak_penalty_are_solved_after_refinement():
    task = problem(n_classes=2, n_labelled=40, n_features=5)
    X, pool, dev = (np.tile(A, (1, 20)) for A in (task.X, task.X_pool, task.X_dev))
    fitted = gw.Logistic(C=1e6).fit(X, task.y)
    goal = gw.goals.DevLoss(dev, task.y_dev)
    assert np.all(np.isfinite(FirstOrder()(fitted, goal, pool)))
    assert np.all(np.isfinite(Retrain()(fitted, goal, pool[:3])))


def test_equal_rows_are_not_blamed_on_remark_1(recwarn):
    same = np.tile(TASK.X_pool[:1], (5, 1))
    for operator in (gw.labels.WorstCase(), gw.labels.Expected()):
        gw.GoalOriented(TASK.goal, operator=operator).suggest(TASK.fitted, same, 2)
    assert not recwarn.list


def test_scores_that_are_not_numbers_are_refused():
    class Broken(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            return np.full((len(X), 3), np.nan)

    operator = gw.labels.Expected(gw.labels.LabelModel(Broken()))
    with pytest.raises(errors.NotFinite, match="40 utilities"):
        gw.GoalOriented(TASK.goal, operator=operator).suggest(TASK.fitted, TASK.X_pool, 2)


def test_sparse_rows_agree_with_scikit_learn_refits(rng):
    task = problem(n_classes=3, n_features=60)
    mask = rng.random(60) < 0.4
    X, pool, dev = task.X * mask, task.X_pool[:2] * mask, task.X_dev * mask
    options = {"C": 1.0, "tol": 1e-12, "solver": "newton-cholesky"}

    def value(X, y):
        model = LogisticRegression(**options).fit(X, y)
        return model.predict_log_proba(dev)[np.arange(25), task.y_dev].sum()

    fitted = task.learner.fit(sp.csr_array(X), task.y)
    got = Retrain()(fitted, gw.goals.DevLoss(sp.csr_array(dev), task.y_dev), sp.csr_array(pool))
    base = value(X, task.y)
    for i in range(2):
        for k in range(3):
            exact = value(np.vstack([X, pool[i]]), np.append(task.y, k)) - base
            assert got[i, k] == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_gradient_of_fisher_is_the_closed_form_of_the_appendix(intercept):
    """∇τ = (1/m) Σ ‖x‖² x (2p∘(p - ‖p‖²))ᵀ, with x's constant column where there is one."""
    task = problem(fit_intercept=intercept)
    p = task.fitted.predict_proba(task.X_pool)
    X = np.column_stack([task.X_pool, np.ones(40)]) if intercept else task.X_pool
    nu = np.sum(p * p, axis=1, keepdims=True)
    closed = X.T @ (np.sum(X * X, axis=1, keepdims=True) * 2 * p * (p - nu)) / 40
    np.testing.assert_allclose(
        gw.goals.Fisher(task.X_pool).gradient(task.fitted), closed, rtol=1e-10, atol=1e-12
    )

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import goalward as gw
from goalward.core.arrays import to_numpy
from goalward.errors import OneClass, Separable, ShapeMismatch, UnseenClass
from goalward.testing import problem


def digits(n_classes, n=150):
    X, y = load_digits(return_X_y=True)
    keep = y < n_classes
    return X[keep][:n] / 16.0, y[keep][:n]


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("intercept", [True, False])
def test_agrees_with_scikit_learn(n_classes, intercept):
    """K = 2 after the factor 2: scikit-learn's one vector w is our pair ∓w/2 at C/2."""
    X, y = digits(n_classes)
    C = 0.7
    theirs = LogisticRegression(C=C, fit_intercept=intercept, tol=1e-10, max_iter=10000).fit(X, y)
    ours = gw.Logistic(C / 2 if n_classes == 2 else C, fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert ours.gradient <= 1e-8
    assert np.array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_a_penalised_intercept_is_a_penalised_constant_column(n_classes):
    X, y = digits(n_classes)
    constant = np.column_stack([X, np.ones(len(X))])
    C = 0.7
    theirs = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10000)
    theirs.fit(constant, y)
    ours = gw.Logistic(C / 2 if n_classes == 2 else C, penalize_intercept=True).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(constant), atol=1e-6)


@pytest.mark.parametrize("solver", ["auto", "cholesky", "dual", "cg"])
def test_every_solver_reaches_the_same_optimum(solver):
    X, y = digits(4, n=60)
    fitted = gw.Logistic(solver=solver, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(fitted.params, gw.Logistic(tol=1e-10).fit(X, y).params, atol=1e-7)
    assert fitted.flatness() <= 1e-10


def test_weights_repeat_rows():
    task = problem()
    weights = np.arange(len(task.X)) % 3
    repeated = np.repeat(task.X, weights, axis=0), np.repeat(task.y, weights)
    weighted = task.learner.fit(task.X, task.y, sample_weight=weights)
    np.testing.assert_allclose(weighted.params, task.learner.fit(*repeated).params, atol=1e-9)


def test_soft_labels_are_weighted_hard_labels():
    task = problem()
    soft = np.random.default_rng(0).dirichlet(np.ones(3), len(task.X))
    stacked = np.repeat(task.X, 3, axis=0), np.tile(np.arange(3), len(task.X))
    hard = task.learner.fit(*stacked, sample_weight=soft.ravel())
    np.testing.assert_allclose(task.learner.fit(task.X, soft).params, hard.params, atol=1e-9)


@pytest.mark.parametrize(
    "names", [["b", "a", "c"], [(1, 2), (0, 1), (5, 5)], [2.5, -1.0, 7.0], ["x", 3, None.__class__]]
)
def test_labels_are_any_hashables(names):
    task = problem()
    y = [names[k] for k in task.y]
    fitted = gw.Logistic(classes=names, tol=1e-11).fit(task.X, y)
    assert list(fitted.classes) == names
    np.testing.assert_allclose(fitted.params, task.fitted.params, atol=1e-9)
    assert list(fitted.predict(task.X)) == [names[k] for k in task.fitted.predict(task.X)]


def test_classes_are_sorted_where_they_can_be():
    assert list(gw.Logistic().fit([[0.0], [1.0], [2.0]], ["b", "a", "b"]).classes) == ["a", "b"]


def test_a_class_without_a_label_yet_keeps_its_column():
    task = problem(n_classes=2)
    with pytest.warns(UnseenClass, match="No label yet for 2"):
        fitted = gw.Logistic(classes=[0, 1, 2]).fit(task.X, task.y)
    assert fitted.predict_proba(task.X_pool).shape == (40, 3)
    assert fitted.penalty[-1] == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gw.Logistic(classes=[0, 1, 2], penalize_intercept=True).fit(task.X, task.y)


def test_a_warm_start_saves_steps_and_changes_nothing():
    X, y = digits(10)
    before = gw.Logistic(tol=1e-11).fit(X[:-1], y[:-1])
    cold, warm = (gw.Logistic(tol=1e-11).fit(X, y, start=s) for s in (None, before))
    np.testing.assert_allclose(cold.params, warm.params, atol=1e-9)
    assert warm.iterations < cold.iterations
    with pytest.raises(ShapeMismatch, match="Leave start out"):
        gw.Logistic().fit(X[:, :5], y, start=before)


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_sparse_rows_give_the_same_model(format):
    X, y = digits(3)
    sparse = sp.coo_array(X).asformat(format)
    np.testing.assert_allclose(
        gw.Logistic().fit(sparse, y).params, gw.Logistic().fit(X, y).params, atol=1e-9
    )


def test_every_array_library_gives_the_same_model(to_xp):
    task = problem()
    fitted = task.learner.fit(to_xp(task.X), task.y)
    np.testing.assert_allclose(to_numpy(fitted.params), task.fitted.params, atol=1e-10)
    assert type(fitted.params) is type(to_xp(task.X))


def test_single_precision_rows_are_fitted_in_double():
    task = problem()
    fitted = gw.Logistic().fit(task.X.astype(np.float32), task.y)
    assert fitted.gradient <= 1e-8
    assert fitted.predict_proba(task.X_pool.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("kind", [gw.Logistic, gw.MultiLabel, gw.Ridge])
def test_a_learner_has_parameters_and_is_no_estimator_of_scikit_learn(kind):
    """Its `fit` returns a model, where an estimator's returns itself."""
    learner = kind(3.0, fit_intercept=False)
    assert not isinstance(learner, BaseEstimator)
    assert clone(learner).get_params() == learner.get_params()
    first = next(iter(learner.get_params()))
    assert repr(learner) == f"{kind.__name__}({first}=3.0, fit_intercept=False)"
    assert learner.having(tol=1e-3).get_params() == learner.get_params() | {"tol": 1e-3}
    y = [0, 1] if kind is gw.Logistic else [[0.0], [1.0]]
    assert isinstance(learner.fit([[0.0], [1.0]], y), gw.models.Fitted)


def test_a_separable_set_with_a_tiny_penalty_is_refused():
    X = np.r_[np.full(10, -1.0), np.full(10, 1.0)][:, None]
    y = np.repeat([0, 1], 10)
    with pytest.raises(Separable, match="perfectly separable and C=1e\\+12"):
        gw.Logistic(C=1e12).fit(X, y)
    assert np.isfinite(gw.Logistic(C=1e4).fit(X, y).params).all()


def test_one_class_with_weight_is_one_class():
    with pytest.raises(OneClass, match="must be of two or more classes"):
        gw.Logistic().fit([[0.0], [1.0]], [0, 1], sample_weight=[1.0, 0.0])


def test_constant_and_collinear_columns_change_nothing():
    task = problem()
    wide = np.column_stack([task.X, np.zeros(len(task.X))])
    fitted = task.learner.fit(wide, task.y)
    np.testing.assert_allclose(fitted.params[[0, 1, 2, 3, 5]], task.fitted.params, atol=1e-9)
    np.testing.assert_allclose(fitted.params[4], 0.0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1e6, 1e100])
def test_extreme_scales_are_fitted_or_refused(scale):
    task = problem()
    try:
        fitted = gw.Logistic(C=1.0 / scale**2).fit(task.X * scale, task.y)
    except gw.errors.GoalwardError:
        assert scale == 1e100
        return
    np.testing.assert_allclose(
        fitted.predict_proba(task.X * scale), task.fitted.predict_proba(task.X), atol=1e-6
    )

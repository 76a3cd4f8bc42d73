import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import goalward as gw
from goalward.core.kernels.compiled import accelerated
from goalward.models import LinearModel, linear
from goalward.solvers.auto import Auto
from goalward.testing import check_model, problem
from tests.conftest import need, some_heavy


@pytest.mark.parametrize("intercept", [True, False])
def test_jvp_and_vjp_are_adjoint(intercept):
    check_model(LinearModel(intercept=intercept))


@pytest.mark.parametrize("intercept", [True, False])
def test_sparse_rows_give_the_same_numbers(rng, intercept):
    model = LinearModel(intercept=intercept)
    X = rng.normal(size=(5, 4)) * (rng.random((5, 4)) < 0.5)
    v, c = rng.normal(size=(model.n_params(4), 3)), rng.normal(size=(5, 3))
    np.testing.assert_allclose(model.jvp(sp.csr_array(X), v), model.jvp(X, v), atol=1e-15)
    np.testing.assert_allclose(model.vjp(sp.csr_array(X), c), model.vjp(X, c), atol=1e-15)
    np.testing.assert_allclose(
        model.squared_norms(sp.csr_array(X), v), model.squared_norms(X, v), atol=1e-15
    )


def test_a_curvature_is_factored_once_and_a_used_model_travels(monkeypatch):
    task, made = problem(), []
    prepare = Auto.prepare
    monkeypatch.setattr(Auto, "prepare", lambda self, h: made.append(h) or prepare(self, h))
    first = gw.utility.FirstOrder()(task.fitted, task.goal, task.X_pool)
    np.testing.assert_array_equal(
        gw.utility.FirstOrder()(task.fitted, task.goal, task.X_pool), first
    )
    assert len(made) == 1
    there = pickle.loads(pickle.dumps(task.fitted))
    np.testing.assert_array_equal(gw.utility.FirstOrder()(there, task.goal, task.X_pool), first)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fast", some_heavy([False, True], [True]))
def test_two_columns_of_many_rows_are_the_product(dtype, fast, rng, monkeypatch):
    if fast:
        need("numba")
    monkeypatch.setattr(linear, "LARGE", 1)
    X, v = rng.normal(size=(3001, 70)).astype(dtype), rng.normal(size=(71, 2)).astype(dtype)
    with accelerated(fast):
        moved = LinearModel().jvp(X, v)
    exact = X.astype(np.float64) @ v[:-1].astype(np.float64) + v[-1]
    # Sums of 70 products.
    np.testing.assert_allclose(moved, exact, atol=70 * np.finfo(dtype).eps * np.abs(exact).max())
    assert moved.dtype == dtype

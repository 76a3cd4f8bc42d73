import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import goalward as gw
from goalward.models import LinearModel
from goalward.solvers.auto import Auto
from goalward.testing import check_model, problem


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

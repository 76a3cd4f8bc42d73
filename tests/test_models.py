import numpy as np
import pytest
import scipy.sparse as sp

from goalward.models import LinearModel
from goalward.testing import check_model


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

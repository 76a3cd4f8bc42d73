"""𝓗⁻¹ in coordinates: three kinds of coordinates, one leverage, one update, one draw."""

import numpy as np
import pytest
import scipy.sparse as sp

from goalward.core.arrays import to_numpy
from goalward.errors import Unsupported
from goalward.models.logistic import Logistic
from goalward.solvers import Inverse
from goalward.solvers.inverse import Coordinates
from goalward.testing import problem

KINDS = {
    "features": lambda hessian, rows: Coordinates.features(hessian),
    "span": lambda hessian, rows: Coordinates.spanned(hessian),
    "leading": lambda hessian, rows: Coordinates.leading(hessian, rows, largest=60),
}


def held(kind, fitted, rows):
    return Inverse.of(fitted.hessian, KINDS[kind](fitted.hessian, rows))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
def test_every_kind_gives_the_leverage_of_the_features(kind, intercept):
    """20 rows of 50 features: the span and 60 unknowns hold all that the labelled rows say."""
    task = problem(n_classes=3, n_features=50, n_labelled=20, fit_intercept=intercept)
    exact = held("features", task.fitted, task.X).leverage(task.X_pool)
    inverse = held(kind, task.fitted, task.X)
    np.testing.assert_allclose(inverse.leverage(task.X_pool), exact, atol=1e-10)
    sparse = held(kind, Logistic().fit(sp.csr_array(task.X), task.y), sp.csr_array(task.X))
    if intercept:
        np.testing.assert_allclose(sparse.leverage(sp.csr_array(task.X_pool)), exact, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_leverages_by_rows_and_jointly_are_the_same(kind):
    task = problem(n_classes=3, n_features=50, n_labelled=20)
    inverse, rows = held(kind, task.fitted, task.X), task.X_pool[:4]
    Z = inverse.coordinates(rows)
    M = inverse.leverage(rows)
    joint = inverse.joint_leverage(rows, Z).reshape(4, 2, 4, 2)
    for i in range(4):
        np.testing.assert_allclose(joint[i, :, i, :], M[i], atol=1e-10)


@pytest.mark.parametrize("kind", ["features", "span"])
def test_an_added_row_takes_off_what_a_fresh_inverse_would(kind, to_xp):
    task = problem(n_classes=3, n_features=4, n_labelled=20)
    fitted = task.learner.fit(to_xp(task.X), task.y)
    x = task.X_pool[:1]
    block = task.fitted.loss.blocks(task.fitted.predict_proba(x))[0]
    after = held(kind, fitted, task.X).added(to_xp(x), to_xp(block))
    J = np.kron(np.append(x[0], 1.0)[None, :], np.eye(2))
    before = np.linalg.inv(held(kind, task.fitted, task.X).matrix)
    exact = np.linalg.inv(before + J.T @ block @ J)
    # The fits of other libraries are as near to the optimum as their tolerance.
    np.testing.assert_allclose(to_numpy(after.matrix), exact, atol=1e-6)


def test_draws_have_the_covariance_of_the_parameters():
    task = problem(n_classes=3, n_features=3)
    inverse = held("features", task.fitted, task.X)
    draws = inverse.draw(np.random.default_rng(0), 100_000)
    assert draws.shape == (4, 2, 100_000)
    found = np.cov(draws.reshape(8, -1))
    # The error of a covariance of n draws is about its size times √(2/n).
    assert np.abs(found - inverse.matrix).max() <= 5 * np.abs(inverse.matrix).max() * 2e-5**0.5


def test_directions_need_one_penalty():
    from dataclasses import replace

    task = problem(n_features=50, n_labelled=20)
    uneven = task.fitted.penalty.copy()
    uneven[0] = 7.0
    with pytest.raises(Unsupported, match="one positive penalty"):
        Coordinates.spanned(replace(task.fitted, penalty=uneven).hessian)

import numpy as np
import pytest
import scipy.sparse as sp

from goalward.core.arrays import to_numpy
from goalward.errors import BadParameter, NotConverged, Unsupported
from goalward.models.logistic import Logistic
from goalward.solvers import (
    Auto,
    Cholesky,
    ConjugateGradient,
    Dual,
    named,
)
from goalward.solvers import (
    conjugate_gradient as row_products,
)
from goalward.solvers.cholesky import dense_curvature
from goalward.testing import check_solver, explicit, problem

SOLVERS = [
    Cholesky(),
    Dual(),
    ConjugateGradient(tol=1e-10),
    Auto(),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_solvers_conform(solver):
    check_solver(solver)


@pytest.mark.parametrize("saved", [np.inf, 0], ids=["kronecker", "diagonal"])
def test_conjugate_gradients_conform_with_either_preconditioner(saved, monkeypatch):
    monkeypatch.setattr(row_products, "SAVED", saved)
    check_solver(ConjugateGradient(tol=1e-10))


@pytest.mark.parametrize("intercept", [True, False])
def test_the_hessian_product_is_the_dense_hessian(intercept, rng):
    """𝓗 = Σ w (xxᵀ) ⊗ Λ + diag(ρ), entry by entry."""
    weights = rng.uniform(0.5, 2, size=30)
    task = problem(fit_intercept=intercept)
    fitted = task.learner.fit(task.X, task.y, sample_weight=weights)
    p = fitted.predict_proba(task.X)
    X = np.column_stack([task.X, np.ones(30)]) if intercept else task.X
    dense = np.diag(np.repeat(fitted.penalty, 3))
    for x, q, w in zip(X, p, weights, strict=True):
        dense += w * np.kron(np.outer(x, x), np.diag(q) - np.outer(q, q))
    np.testing.assert_allclose(explicit(fitted.hessian), dense, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_sparse_rows_give_the_same_solution(solver, rng):
    task = problem(n_features=12)
    X = task.X * (rng.random(task.X.shape) < 0.4)
    g = rng.normal(size=(13, 3))
    g -= g.mean(axis=1, keepdims=True)
    dense = Logistic().fit(X, task.y).hessian
    sparse = Logistic().fit(sp.csr_array(X), task.y).hessian
    np.testing.assert_allclose(
        solver.prepare(sparse)(g).value, Cholesky().prepare(dense)(g).value, atol=1e-6
    )


@pytest.mark.parametrize("solver", [Cholesky(), Dual(), ConjugateGradient()], ids=repr)
def test_solvers_run_on_every_array_library(solver, to_xp, rng):
    task = problem()
    fitted = Logistic(tol=1e-11).fit(to_xp(task.X), task.y)
    g = task.goal.gradient(task.fitted)
    value = to_numpy(solver.prepare(fitted.hessian)(to_xp(g)).value)
    np.testing.assert_allclose(value, Cholesky().prepare(task.fitted.hessian)(g).value, atol=1e-6)


def test_auto_says_what_it_picked_and_why():
    few_features = problem(n_features=3, n_labelled=50).fitted.hessian
    many_features = problem(n_features=200, n_labelled=20).fitted.hessian
    g_few, g_many = np.ones(few_features.shape), np.ones(many_features.shape)
    g_few[:, 0] = g_many[:, 0] = -2.0
    assert Auto().prepare(few_features)(g_few).solver == "Cholesky"
    picked = Auto().prepare(many_features)(g_many)
    assert picked.solver == "Dual"
    assert "40 unknowns by rows against 402 by features" in picked.reason
    solution = Auto(largest=10).prepare(many_features)(g_many)
    assert solution.solver == "ConjugateGradient"
    assert solution.iterations > 0


def test_a_bad_number_is_withheld():
    hessian = problem(n_features=30, C=1e6).fitted.hessian
    g = np.random.default_rng(0).normal(size=hessian.shape)
    g -= g.mean(axis=1, keepdims=True)
    with pytest.raises(NotConverged, match=r"relative residual of .* was asked for"):
        ConjugateGradient(max_iter=2).prepare(hessian)(g)
    with pytest.raises(NotConverged, match="Cholesky left a relative residual"):
        Cholesky(tol=1e-30).prepare(hessian)(g)


def test_wrong_names_are_refused():
    with pytest.raises(BadParameter, match="got 'gauss'"):
        named("gauss")


def test_dual_refuses_uneven_penalties_and_auto_goes_round_them():
    from dataclasses import replace

    task = problem(n_features=60, n_labelled=10)
    uneven = task.fitted.penalty.copy()
    uneven[0] = 7.0
    fitted = replace(task.fitted, penalty=uneven)
    with pytest.raises(Unsupported, match="one positive penalty"):
        Dual().prepare(fitted.hessian)
    assert Auto().prepare(fitted.hessian)(task.goal.gradient(fitted)).solver == "Cholesky"


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"penalize_intercept": True}])
def test_few_rows_of_many_features_are_solved_for_in_their_span(
    n_classes, options, to_xp, rng, monkeypatch
):
    task = problem(n_classes=n_classes, n_features=40, n_labelled=12, **options)
    hessian = task.learner.fit(to_xp(task.X), task.y).hessian
    g = rng.normal(size=hessian.shape)
    g -= g.mean(axis=1, keepdims=True)
    whole = ConjugateGradient(tol=1e-10).prepare(hessian)(to_xp(g))
    with monkeypatch.context() as patch:
        patch.setattr(row_products, "_preconditioner", lambda curvature: lambda r: r)
        plain = ConjugateGradient(tol=0.1).prepare(hessian)(to_xp(g))
    monkeypatch.setattr(row_products, "LARGE", 1)
    assert row_products.few_rows(hessian)
    # Step by step what products with X and its transpose give: a rough solution goes downhill too.
    rough = ConjugateGradient(tol=0.1).prepare(hessian)(to_xp(g))
    if n_classes > 2:  # two classes are solved for in one column otherwise
        assert rough.iterations == plain.iterations
        np.testing.assert_allclose(to_numpy(rough.value), to_numpy(plain.value), atol=1e-9)
    assert np.sum(to_numpy(rough.value) * g) > 0.0
    found = ConjugateGradient(tol=1e-10).prepare(hessian)(to_xp(g))
    assert found.residual < 2e-10
    scale = np.abs(to_numpy(whole.value)).max()
    np.testing.assert_allclose(to_numpy(found.value), to_numpy(whole.value), atol=1e-7 * scale)


@pytest.mark.parametrize("n_contrasts", [1, 2, 3, 4, 9])
def test_curvature_is_the_sum_over_rows_for_few_classes_and_for_many(n_contrasts, rng):
    X, half = rng.normal(size=(30, 5)), rng.normal(size=(30, n_contrasts, n_contrasts))
    blocks, penalty = half @ half.transpose(0, 2, 1), rng.uniform(size=5)

    found = dense_curvature(X, blocks, penalty)

    expected = sum(
        np.kron(np.outer(x, x), block) for x, block in zip(X, blocks, strict=True)
    ) + np.diag(np.repeat(penalty, n_contrasts))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)

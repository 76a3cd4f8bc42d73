import numpy as np
import pytest
import scipy.sparse as sp

import goalward as gw
from goalward.goals import Entropy, Fisher
from goalward.solvers import Cholesky, ConjugateGradient, Dual
from goalward.testing import check_utility, explicit, problem
from goalward.utility import FirstOrder, Retrain

FIRST = FirstOrder()


def goals(task):
    return [task.goal, Entropy(task.X_pool), Fisher(task.X_pool)]


def test_it_conforms():
    check_utility(FirstOrder(), linear=True)


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("n_classes", [2, 4])
def test_it_is_the_definition_one_gradient_per_row_and_label(index, n_classes):
    """utility(x, k) = -∇τᵀ 𝓗⁻¹ ∇ℓ(x, k), with 𝓗 inverted and ∇ℓ formed."""
    task = problem(n_classes=n_classes)
    fitted, goal = task.fitted, goals(task)[index]
    v = -np.linalg.pinv(explicit(fitted.hessian), rcond=1e-12) @ goal.gradient(fitted).ravel()
    rows = np.column_stack([task.X_pool, np.ones(len(task.X_pool))])
    p = fitted.predict_proba(task.X_pool)
    exact = np.array(
        [
            [v @ np.outer(x, q - unit).ravel() for unit in np.eye(n_classes)]
            for x, q in zip(rows, p, strict=True)
        ]
    )
    scale = np.abs(exact).max()
    np.testing.assert_allclose(FIRST(fitted, goal, task.X_pool), exact, atol=1e-10 * scale, rtol=0)


def test_per_row_penalty_differs_by_exactly_the_constant():
    task = problem()
    fitted, goal = task.fitted, task.goal
    v = -Cholesky().prepare(fitted.hessian)(goal.gradient(fitted)).value
    constant = np.sum(fitted.penalty[:, None] * v * fitted.params) / len(task.X)
    plain = FIRST(fitted, goal, task.X_pool)
    literal = FirstOrder(per_row_penalty=True)(fitted, goal, task.X_pool)
    np.testing.assert_allclose(literal - plain, constant, atol=1e-12)
    assert abs(constant) > 1e-6


@pytest.mark.parametrize("solver", ["cholesky", "dual", Dual(), ConjugateGradient(tol=1e-12)])
def test_every_solver_gives_the_same_utilities(solver):
    task = problem()
    np.testing.assert_allclose(
        FirstOrder(solver=solver)(task.fitted, task.goal, task.X_pool),
        FIRST(task.fitted, task.goal, task.X_pool),
        atol=1e-9,
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_error_against_retraining_halves_when_n_doubles(n_classes):
    """Utility is O(1/n), its error O(1/n²): the relative error falls like 1/n."""
    sizes = [100, 400, 1600]
    errors = []
    for n in sizes:
        relative = []
        for seed in range(8):
            task = problem(n_classes=n_classes, n_labelled=n, seed=seed, n_pool=20, C=0.1)
            truth = Retrain()(task.fitted, task.goal, task.X_pool)
            guess = FIRST(task.fitted, task.goal, task.X_pool)
            relative.append(np.median(np.abs(guess - truth) / np.abs(truth)))
        errors.append(np.mean(relative))
    rate = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert rate == pytest.approx(-1.0, abs=0.2)


def test_sparse_pools_are_scored_as_they_are():
    task = problem()
    X = task.X_pool * (np.random.default_rng(0).random(task.X_pool.shape) < 0.5)
    np.testing.assert_allclose(
        FIRST(task.fitted, task.goal, sp.csr_array(X)), FIRST(task.fitted, task.goal, X), atol=1e-12
    )


def test_a_pool_in_single_precision_stays_so():
    task = problem()
    single = FIRST(task.fitted, task.goal, task.X_pool.astype(np.float32))
    assert single.dtype == np.float32
    double = FIRST(task.fitted, task.goal, task.X_pool)
    np.testing.assert_allclose(single, double, atol=1e-5 * np.abs(double).max())


def test_batches_are_tried_with_the_labelings_given():
    task = problem()
    batches = task.X_pool[:6].reshape(3, 2, -1)
    every = FIRST.batch(task.fitted, task.goal, batches)
    picked = FIRST.batch(task.fitted, task.goal, batches, labels=[[0, 1], [2, 2]])
    np.testing.assert_allclose(picked, every[:, [1, 8]], atol=1e-12)


def test_bad_batches_are_refused():
    task = problem()
    call = lambda X, labels=None: FIRST.batch(task.fitted, task.goal, X, labels=labels)
    with pytest.raises(gw.errors.BadParameter, match=r"got 3\*\*40"):
        call(task.X_pool[None])
    with pytest.raises(gw.errors.ShapeMismatch, match=r"\(L, 2\), got labelings"):
        call(task.X_pool[None, :2], labels=[[0, 1, 2]])
    with pytest.raises(gw.errors.UnknownLabel, match=r"must be among the classes .*, got 9"):
        call(task.X_pool[None, :2], labels=[[0, 9]])
    with pytest.raises(gw.errors.Empty):
        call([])
    with pytest.raises(gw.errors.ShapeMismatch, match="batches of one size"):
        call([task.X_pool[:2], task.X_pool[:3]])

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import spearmanr

import goalward as gw
from goalward.core.arrays import to_numpy
from goalward.core.rows import Candidates
from goalward.goals import DevLoss, Entropy, Fisher
from goalward.labels import BestCase, Expected, Predicted, Truth, Uniform, WorstCase
from goalward.models import Softmax
from goalward.solvers.inverse import quadratic
from goalward.testing import check_utility, explicit, problem
from goalward.utility import FirstOrder, ImplicitStep, Retrain
from goalward.utility.implicit_slopes import Equations, implicit_slopes
from goalward.utility.implicit_step import GoalCurvature
from goalward.utility.neighbours import Neighbours

GOALS = {
    "dev": lambda task: task.goal,
    "entropy": lambda task: Entropy(task.X_pool),
    "fisher": lambda task: Fisher(task.X_pool),
}


def test_it_conforms():
    check_utility(ImplicitStep(exact_goal=True), rank=0.99)


@pytest.mark.parametrize("q", [5, 70])
@pytest.mark.parametrize("c", [1, 3])
def test_quadratic_forms_are_their_definition(q, c, rng):
    Z, A = rng.normal(size=(6, q)), rng.normal(size=(q * c, q * c))
    A = A + A.T
    exact = np.einsum("nj,jalb,nl->nab", Z, A.reshape(q, c, q, c), Z)
    np.testing.assert_allclose(quadratic((A,), q)(Z)[0], exact, atol=1e-10 * np.abs(exact).max())


@pytest.mark.parametrize("n_features", [4, 60])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("goal", GOALS)
def test_m_and_n_are_their_definition(goal, n_classes, n_features):
    """M = J 𝓗⁻¹ Jᵀ and N = J 𝓗⁻¹ (J_gᵀ W J_g + J_lᵀ T J_l) 𝓗⁻¹ Jᵀ, with all of them formed."""
    task = problem(n_classes=n_classes, n_features=n_features, n_labelled=30, n_pool=8)
    fitted, K = task.fitted, n_classes
    tau = GOALS[goal](task)
    family = Neighbours.of(fitted, tau)
    H = np.linalg.pinv(explicit(fitted.hessian), rcond=1e-12)
    v = -(H @ tau.gradient(fitted).ravel()).reshape(fitted.params.shape)
    curvature = GoalCurvature.of(family, v, gw.solvers.Auto().prepare(fitted.hessian))
    Q = Softmax().basis(K, fitted.params)

    def rows(X):
        return [np.kron(np.append(x, 1.0)[None, :], np.eye(K)) for x in X]

    S = np.zeros_like(H)
    for weight, X, kernel in tau.terms(fitted):
        logits = fitted.logits_of(X)
        columns = [kernel.curvature(logits, np.broadcast_to(e, logits.shape)) for e in np.eye(K)]
        for J, W in zip(rows(X), np.stack(columns, axis=2), strict=True):
            S += weight * J.T @ W @ J
    p = fitted.predict_proba(task.X)
    motion = fitted.model.jvp(task.X, v)
    q = fitted.loss.curvature(p, motion)
    for J, p_i, q_i in zip(rows(task.X), p, q, strict=True):
        S += J.T @ (np.diag(q_i) - np.outer(q_i, p_i) - np.outer(p_i, q_i)) @ J
    Z = family.base.inverse.coordinates(task.X_pool)
    M, N = family.base.inverse.leverage(task.X_pool, Z), curvature(task.X_pool, Z)
    for i, row in enumerate(rows(task.X_pool)):
        J = Q.T @ row
        scale = np.abs(J @ H @ S @ H @ J.T).max()
        np.testing.assert_allclose(M[i], J @ H @ J.T, atol=1e-9 * np.abs(M).max())
        # Two classes outside the span go through single precision.
        np.testing.assert_allclose(
            N[i], J @ H @ S @ H @ J.T, atol=1e-4 * np.abs(N).max() + 1e-9 * scale
        )


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("size", [0.1, 3.0, 100.0])
def test_slopes_solve_their_equation(n_classes, size, rng):
    """r = softmax(f - M r) - e_k to 1e-7, for surprising labels and large leverages too."""
    c = n_classes - 1
    L = rng.normal(size=(40, c, c))
    M = size * (L @ L.transpose(0, 2, 1)) / c
    f = 4.0 * rng.normal(size=(40, c))
    Q = Softmax().basis(n_classes, f)
    weights, targets = np.ones((40, c, n_classes)), np.broadcast_to(Q.T, (40, c, n_classes))
    r = implicit_slopes(Equations(f, M, targets, weights, Q, Softmax()), most=400)
    logits = np.einsum("kc,ncl->nkl", Q, f[:, :, None] - M @ r)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    miss = r - (np.einsum("kc,nkl->ncl", Q, p) - Q.T)
    assert np.abs(miss).max() < 1e-7


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_large_leverages_need_no_matrix_for_each_label(weight, rng):
    """100 classes took 1.5 GB and 0.35 s a row there: a K x K system for each label and Newton step."""
    n, K = 3, 40
    c = K - 1
    L = rng.normal(size=(n, c, c))
    M = 300.0 * (L @ L.transpose(0, 2, 1)) / c
    f = 4.0 * rng.normal(size=(n, c))
    Q = Softmax().basis(K, f)
    equations = Equations(
        f, M, np.broadcast_to(Q.T, (n, c, K)), np.full((n, c, K), weight), Q, Softmax()
    )
    tracemalloc.start()
    r = implicit_slopes(equations)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.abs(equations.miss(r)).max() <= 1e-8
    assert peak < 40 * r.nbytes  # and not K times each of several arrays


@pytest.mark.parametrize("n_classes", [2, 3])
def test_its_error_falls_an_order_faster_than_first_orders(n_classes):
    """O(n⁻³) against O(n⁻²): the ratio of the errors falls like 1/n, on the same problems."""
    sizes = [200, 3200]
    errors = []
    for n in sizes:
        found = []
        for seed in range(8):
            task = problem(n_classes=n_classes, n_labelled=n, seed=seed, n_pool=20, C=0.1)
            truth = Retrain(tol=1e-11)(task.fitted, task.goal, task.X_pool)
            found.append(
                [
                    np.median(np.abs(u(task.fitted, task.goal, task.X_pool) - truth))
                    for u in (FirstOrder(), ImplicitStep())
                ]
            )
        errors.append(np.median(found, axis=0))
    first, second = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert first < -1.4
    assert second < -2.1
    assert second - first < -0.6


@pytest.mark.parametrize("goal", GOALS)
def test_it_stays_true_where_first_order_fails(goal):
    """n = 50, C = 1, median over 10 drawn problems: rank correlation with retraining."""
    operators = {
        "oracle": lambda t: Expected(Truth(t.y_pool)),
        "average": lambda t: Expected(Uniform()),
        "min": lambda t: WorstCase(),
        "max": lambda t: BestCase(),
        "predicted": lambda t: Expected(Predicted()),
    }
    found = {name: [] for name in operators}
    for seed in range(10):
        task = problem(n_classes=2 + seed % 3, n_labelled=50, n_pool=60, n_features=8, seed=seed)
        tau = GOALS[goal](task)
        utilities = [
            u(task.fitted, tau, task.X_pool)
            for u in (FirstOrder(), ImplicitStep(exact_goal=goal == "fisher"), Retrain())
        ]
        for name, make in operators.items():
            believe = make(task).prepare(task.fitted)
            block = Candidates(np.arange(60), task.X_pool, task.fitted.predict_proba(task.X_pool))
            cheap, ours, truth = (believe(u, block) for u in utilities)
            flat = np.ptp(cheap) <= 1e-12 * np.abs(utilities[0]).max()
            first = 0.0 if flat else spearmanr(cheap, truth).statistic
            found[name].append([first, spearmanr(ours, truth).statistic])
    for name, pairs in found.items():
        first, ours = np.median(np.array(pairs), axis=0)
        if name == "predicted":
            assert ours >= 0.6, f"{name}: {ours:.2f}"
        else:
            assert ours >= 0.9, f"{name}: {ours:.2f}"
            assert ours >= first - 0.02, f"{name}: {ours:.2f} against {first:.2f}"


def test_sparse_and_dense_rows_agree(rng):
    task = problem(n_features=60, n_classes=3)
    mask = rng.random(60) < 0.3
    X, pool, dev = task.X * mask, task.X_pool * mask, task.X_dev * mask
    for utility in (ImplicitStep(), ImplicitStep(exact_goal=True)):
        dense = utility(task.learner.fit(X, task.y), DevLoss(dev, task.y_dev), pool)
        sparse = utility(
            task.learner.fit(sp.csr_array(X), task.y),
            DevLoss(sp.csr_array(dev), task.y_dev),
            sp.csr_array(pool),
        )
        np.testing.assert_allclose(sparse, dense, atol=1e-6 * np.abs(dense).max())


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("n_features", [4, 60])
def test_it_runs_on_every_array_library(to_xp, exact, n_features):
    task = problem(n_features=n_features, n_pool=10)
    utility = ImplicitStep(exact_goal=exact)
    plain = utility(task.fitted, task.goal, task.X_pool)
    fitted = task.learner.fit(to_xp(task.X), task.y)
    goal = DevLoss(to_xp(task.X_dev), task.y_dev)
    got = to_numpy(utility(fitted, goal, to_xp(task.X_pool)))
    np.testing.assert_allclose(got, plain, atol=1e-5 * np.abs(plain).max())
    batches = task.X_pool[:4].reshape(2, 2, -1)
    np.testing.assert_allclose(
        to_numpy(utility.batch(fitted, goal, to_xp(batches))),
        utility.batch(task.fitted, task.goal, batches),
        atol=1e-6,
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_small_blocks_change_nothing(n_classes, monkeypatch):
    task = problem(n_classes=n_classes, n_features=70, n_labelled=68, n_pool=30)
    whole = ImplicitStep()(task.fitted, task.goal, task.X_pool)
    monkeypatch.setattr("goalward.solvers.inverse.LARGEST_BLOCK", 500)
    cut = ImplicitStep()(task.fitted, task.goal, task.X_pool)
    np.testing.assert_allclose(cut, whole, atol=1e-6 * np.abs(whole).max())


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_a_common_offset_does_not_drown_the_binary_term(offset, monkeypatch):
    """Single precision against the exact path, on features far from zero."""
    task = problem(n_classes=2, n_features=120, n_labelled=40, n_dev=400, n_pool=400)
    fitted = gw.Logistic().fit(task.X + offset, task.y)
    goal = DevLoss(task.X_dev + offset, task.y_dev)
    assert ImplicitStep().prepare(fitted, goal).curvature._pays(400, 40)
    fast = ImplicitStep()(fitted, goal, task.X_pool + offset)
    monkeypatch.setattr("goalward.utility.implicit_step.WIDEST", 0)
    exact = ImplicitStep()(fitted, goal, task.X_pool + offset)
    np.testing.assert_allclose(fast, exact, atol=1e-4 * np.abs(exact).max())


def test_many_features_and_few_goal_rows_need_no_matrix_of_all_features():
    """Two classes, d = 3,000 and 300 goal rows took ten times retraining, and d² numbers."""
    d = 1500
    task = problem(n_classes=2, n_features=d, n_labelled=30, n_pool=40)
    tracemalloc.start()
    got = ImplicitStep()(task.fitted, task.goal, task.X_pool)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * d * d
    assert np.isfinite(got).all()


def test_batches_take_the_joint_step():
    """Nearer to retraining than a sum over rows, which ignores what three equal rows share."""
    found = []
    for seed in range(4):
        task = problem(n_labelled=40, seed=seed)
        twins = np.stack([np.repeat(task.X_pool[i : i + 1], 3, axis=0) for i in range(4)])
        truth, joint, sums = (
            u.batch(task.fitted, task.goal, twins).ravel()
            for u in (Retrain(), ImplicitStep(), FirstOrder())
        )
        found.append([np.corrcoef(truth, u)[0, 1] for u in (joint, sums)])
    joint, sums = np.array(found).T
    assert np.all(joint > sums)
    assert joint.mean() > 0.9


def test_a_suggestion_reports_the_mean_leverage():
    task = problem()
    strategy = gw.GoalOriented(task.goal, utility=ImplicitStep())
    got = strategy.suggest(task.fitted, task.X_pool, 3)
    p = task.fitted.predict_proba(task.X_pool)
    H = np.linalg.pinv(explicit(task.fitted.hessian), rcond=1e-12)
    traces = []
    for x, q in zip(task.X_pool, p, strict=True):
        J = np.kron(np.append(x, 1.0)[None, :], np.eye(3))
        traces.append(np.trace((np.diag(q) - np.outer(q, q)) @ J @ H @ J.T))
    assert got.leverage == pytest.approx(np.mean(traces), rel=1e-8)
    assert gw.GoalOriented(task.goal).suggest(task.fitted, task.X_pool, 3).leverage is None


def test_under_the_models_prediction_it_is_not_vacuous(recwarn):
    task = problem()
    for text in ("dev/predicted/implicit", "dev/predicted/implicit-exact"):
        strategy = gw.recipe(text).build(dev=(task.X_dev, task.y_dev))
        strategy.suggest(task.fitted, task.X_pool, 3)
    assert not recwarn.list

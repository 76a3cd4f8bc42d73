"""The corrected step: chord steps with exact line searches, from the implicit step to retraining."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import scale

import goalward as gw
from goalward.core.arrays import to_numpy
from goalward.errors import BadParameter
from goalward.goals import DevLoss, Entropy, Fisher
from goalward.testing import check_utility, problem
from goalward.utility import FirstOrder, ImplicitStep, Retrain
from goalward.utility.descent import Point, descend
from goalward.utility.neighbours import Neighbours, each

HARD = {
    "breast-cancer": load_breast_cancer,
    "wine": load_wine,
}


def hard(name, C, seed=0):
    """Return 50 labelled rows of real data under a weak penalty, 100 candidates and the others."""
    X, y = HARD[name](return_X_y=True)
    X, order = scale(X), np.random.default_rng(seed).permutation(len(X))
    first = [order[y[order] == k][0] for k in np.unique(y)]
    rest = order[~np.isin(order, first)]
    labelled, rest = np.concatenate([first, rest[: 50 - len(first)]]), rest[50 - len(first) :]
    dev, pool = rest[: len(rest) // 2], rest[len(rest) // 2 :][:100]
    fitted = gw.Logistic(C=C).fit(X[labelled], y[labelled])
    return fitted, X[dev], y[dev], X[pool], y[pool]


def scores(utility, proba, codes):
    """Return what six operators make of utilities."""
    mean = np.sum(proba * utility, axis=1)
    spread = np.sqrt(np.sum(proba * (utility - mean[:, None]) ** 2, axis=1))
    known = utility[np.arange(len(utility)), codes]
    return [known, utility.mean(1), utility.min(1), utility.max(1), mean, spread]


def test_it_conforms():
    check_utility(ImplicitStep(corrections=1), rank=0.99)


@pytest.mark.parametrize(("name", "C"), [("breast-cancer", 10.0), ("wine", 10.0)])
def test_three_steps_are_true_where_the_implicit_step_fails(name, C):
    """Rank correlation with retraining, over goals and operators, under a weak penalty."""
    fitted, X_dev, y_dev, X_pool, y_pool = hard(name, C)
    proba, codes = fitted.predict_proba(X_pool), np.searchsorted(fitted.classes, y_pool)
    found = {0: [], 1: [], 3: []}
    for goal in (DevLoss(X_dev, y_dev), Entropy(X_dev), Fisher(X_dev)):
        truth = scores(Retrain()(fitted, goal, X_pool), proba, codes)
        for corrections, ranks in found.items():
            utility = ImplicitStep(corrections=corrections)(fitted, goal, X_pool)
            pairs = zip(scores(utility, proba, codes), truth, strict=True)
            ranks += [spearmanr(a, b).statistic for a, b in pairs]
    good = {corrections: np.mean(np.array(ranks) >= 0.95) for corrections, ranks in found.items()}
    assert good[0] < 0.5 < good[3]
    assert good[1] <= good[3]
    assert good[3] >= 0.85, good
    assert min(found[3]) >= 0.85, min(found[3])


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_features", [4, 60])
def test_many_steps_are_retraining(n_classes, n_features):
    task = problem(n_classes=n_classes, n_features=n_features, C=10.0, n_pool=8)
    truth = Retrain(tol=1e-12)(task.fitted, task.goal, task.X_pool)
    got = ImplicitStep(corrections=99)(task.fitted, task.goal, task.X_pool)
    np.testing.assert_allclose(got, truth, atol=1e-6 * np.abs(truth).max())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_step_lowers_the_objective(n_classes):
    task = problem(n_classes=n_classes, n_features=40, C=100.0, n_pool=10)
    neighbours = Neighbours.of(task.fitted, task.goal)
    base = neighbours.base
    added = neighbours.singles(task.X_pool)
    psi, a = added.implicit()

    def objective(psi, a):
        point = Point.of(added, psi, a)
        total = 0.5 * np.sum(base.inverse.coordinates.ridge[:, None, None] * psi * psi, axis=(0, 1))
        total = total + 0.5 * base.rho * np.sum(a * each(added.S, a), axis=(0, 1))
        for f, targets in (
            (point.f, (base.targets @ base.columns)[:, :, None]),
            (point.own, added.targets),
        ):
            logits = f if n_classes > 2 else np.einsum("kc,ncm->nkm", base.Q, f)
            t = np.einsum("kc,ncm->nkm", base.Q, targets)
            shifted = logits - logits.max(axis=1, keepdims=True)
            log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
            total = total - np.sum((t + 1.0 / n_classes) * log_p, axis=(0, 1))
        return total

    never = np.zeros(psi.shape[2])
    ways = [descend(added, psi, a, steps=steps, target=never) for steps in range(6)]
    values = [objective(*way[:2]) for way in ways]
    assert np.all(np.diff(values, axis=0) <= 1e-10)
    assert np.all(values[1] < values[0])


@pytest.mark.parametrize(("n_classes", "n_features"), [(2, 4), (3, 4), (4, 6)])
def test_its_error_falls_like_the_third_power_of_n(n_classes, n_features):
    """Labelled rows and penalty r times: the optimum stays and every curvature is r times as large.

    First order's error falls like r⁻², one corrected step's like r⁻³, two steps' like r⁻⁴.
    """
    task = problem(n_classes=n_classes, n_features=n_features, n_labelled=30, n_pool=6)
    utilities = (FirstOrder(), ImplicitStep(corrections=1), ImplicitStep(corrections=2))
    errors = []
    for r in (4, 16, 64):
        learner = gw.Logistic(C=1.0 / r, tol=1e-14)
        fitted = learner.fit(np.tile(task.X, (r, 1)), np.tile(task.y, r))
        truth = Retrain(tol=1e-12)(fitted, task.goal, task.X_pool)
        got = [u(fitted, task.goal, task.X_pool) for u in utilities]
        errors.append([np.median(np.log(np.abs(u - truth) + 1e-17)) for u in got])
    slopes = np.diff(errors, axis=0) / np.log(4.0)
    first, one, _ = slopes[1]
    assert first == pytest.approx(-2.0, abs=0.1)
    assert one <= -2.9
    assert slopes[0, 2] <= -3.3  # the next one would be lost in rounding


def test_batches_are_corrected_too():
    task = problem(n_labelled=40, C=10.0)
    rows = task.X_pool[:12].reshape(4, 3, -1)
    truth, plain, ours = (
        u.batch(task.fitted, task.goal, rows)
        for u in (Retrain(), ImplicitStep(), ImplicitStep(corrections=3))
    )
    assert np.abs(ours - truth).mean() < 0.1 * np.abs(plain - truth).mean()


def test_sparse_rows_and_every_array_library_agree(to_xp):
    task = problem(n_features=60, n_pool=10)
    utility = ImplicitStep(corrections=2)
    plain = utility(task.fitted, task.goal, task.X_pool)
    fitted = task.learner.fit(to_xp(task.X), task.y)
    goal = DevLoss(to_xp(task.X_dev), task.y_dev)
    got = to_numpy(utility(fitted, goal, to_xp(task.X_pool)))
    np.testing.assert_allclose(got, plain, atol=1e-5 * np.abs(plain).max())
    thin = utility(
        task.learner.fit(sp.csr_array(task.X), task.y),
        DevLoss(sp.csr_array(task.X_dev), task.y_dev),
        sp.csr_array(task.X_pool),
    )
    np.testing.assert_allclose(thin, plain, atol=1e-6 * np.abs(plain).max())


@pytest.mark.parametrize("corrections", [-1, 100, True])
def test_corrections_are_a_whole_number(corrections):
    with pytest.raises(BadParameter, match="corrections"):
        ImplicitStep(corrections=corrections)


def test_recipes_name_it():
    task = problem()
    strategy = gw.recipe("dev/average/corrected").build(dev=(task.X_dev, task.y_dev))
    assert strategy.utility == ImplicitStep(corrections=1)
    strategy = gw.recipe("dev/average/corrected-3").build(dev=(task.X_dev, task.y_dev))
    assert len(strategy.suggest(task.fitted, task.X_pool, 3).rows) == 3

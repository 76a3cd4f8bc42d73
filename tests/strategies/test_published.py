"""Published look-ahead strategies, each against its paper's definition written out by hand."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import spearmanr

import goalward as gw
from goalward.errors import BadParameter
from goalward.labels.beliefs import jackknifed
from goalward.strategies import Margin, UnlessSurprised
from goalward.testing import check_operator, check_strategy, problem
from goalward.utility import FirstOrder, Retrain


def scores(recipe, task):
    """What a recipe makes of every row of the pool, and the row it asks for."""
    built = gw.recipe(recipe).build(pool=task.X_pool, dev=(task.X_dev, task.y_dev))
    found = built.suggest(task.fitted, task.X_pool, batch=1)
    return found.utility, found.rows[0]


def after_each_label(task):
    """Predictions on the pool by a model fitted from scratch, for every row and label."""
    X, y, pool = task.X, task.y, task.X_pool
    return np.array(
        [
            [
                task.learner.fit(np.vstack([X, x]), np.append(y, label)).predict_proba(pool)
                for label in task.fitted.classes
            ]
            for x in pool
        ]
    )


@pytest.mark.parametrize(
    ("recipe", "loss"),
    [
        ("eer", lambda q: -np.sum(q * np.log(q), axis=-1)),
        ("eer-01", lambda q: 1.0 - q.max(axis=-1)),
    ],
)
def test_expected_error_reduction(recipe, loss):
    """Roy and McCallum 2001: argmin_x Σ_y P(y|x) Σ_u loss(P_{D + (x, y)}(.|u))."""
    task = problem(n_pool=12)
    p = task.fitted.predict_proba(task.X_pool)
    error = np.sum(p * loss(after_each_label(task)).sum(axis=2), axis=1)
    found, row = scores(recipe, task)
    np.testing.assert_allclose(found, loss(p).sum() - error, atol=1e-6)
    assert row == error.argmin()


def test_mcmi_min():
    """Guo and Greiner 2007: argmin_x min_y Σ_u H(P_{D + (x, y)}(.|u))."""
    task = problem(n_pool=12, n_classes=2)
    q = after_each_label(task)
    entropy = np.min(-np.sum(q * np.log(q), axis=(2, 3)), axis=1)
    found, row = scores("mcmi-min", task)
    assert row == entropy.argmin()
    assert np.ptp(found + entropy) < 1e-6


def test_mcmi_min_with_its_switch():
    """MM+M (Guo and Greiner 2007), one row after another.

    The label that makes the pool most certain is guessed. Where the answer is another, the next
    row is the one of largest entropy, and then MCMI[min] goes on.
    """
    task = problem(n_pool=6, n_classes=2, n_labelled=12, seed=3)
    X, y, left, asked, turns = task.X, task.y, list(range(6)), [], []
    guess = answer = None
    for _ in range(4):
        fitted = task.learner.fit(X, y)
        if guess == answer:
            entropy = np.empty((6, 2))
            for i, k in product(left, range(2)):
                q = task.learner.fit(np.vstack([X, task.X_pool[i]]), [*y, k])
                q = q.predict_proba(task.X_pool)
                entropy[i, k] = -np.sum(q * np.log(q))
            row = min(left, key=lambda i: entropy[i].min())
            guess, answer = entropy[row].argmin(), task.y_pool[row]
            turns.append("first")
        else:
            q = fitted.predict_proba(task.X_pool)
            row = max(left, key=lambda i: -np.sum(q[i] * np.log(q[i])))
            guess = answer = None
            turns.append("otherwise")
        built = gw.recipe("mcmi-switch").build(pool=task.X_pool)
        built = replace(built, start=12)
        found = built.suggest(fitted, task.X_pool, 1, exclude=asked)
        assert found.rows.tolist() == [row]
        assert built.turn(fitted, 0) is getattr(built, turns[-1])
        asked.append(row)
        left.remove(row)
        X, y = np.vstack([X, task.X_pool[row]]), [*y, task.y_pool[row]]
    assert set(turns) == {"first", "otherwise"}


def test_a_switch_as_a_recipe():
    text = "entropy/max/retrain/top unless surprised then entropy"
    assert str(gw.recipe("mcmi-switch")) == text
    assert gw.recipe("mcmi-min unless surprised then entropy") == gw.recipe(text)
    assert gw.recipe(text).needs == {"pool"}
    assert gw.recipe("dev/max unless surprised then epig").needs == {"dev", "pool"}
    both = gw.recipe("random until 9 then mcmi-min unless surprised then margin")
    assert str(both.build(pool=np.eye(3)).later.otherwise) == "Margin(seed=0)"
    for hopeless in ("margin", "decision-risk"):
        with pytest.raises(BadParameter, match="hopes for no label"):
            gw.recipe(f"{hopeless} unless surprised then entropy")
    with pytest.raises(BadParameter, match="hopes for a label"):
        UnlessSurprised(Margin(), Margin())


def test_a_switch_conforms():
    task = problem()
    hopeful = gw.GoalOriented(gw.goals.Entropy(task.X_pool), operator=gw.labels.BestCase())
    check_strategy(UnlessSurprised(hopeful, Margin()))


def information(X, p):
    """Σ Λ ⊗ xxᵀ, the Fisher information of rows about all parameters, class by class."""
    blocks = p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :]
    size = X.shape[1] * p.shape[1]
    return np.einsum("nab,ni,nj->aibj", blocks, X, X).reshape(size, size)


@pytest.mark.parametrize("recipe", ["a-optimality", "fisher-ratio/average/information/top"])
def test_a_optimality_and_variance_reduction(recipe):
    """tr(A F⁻¹) once a row has added its information, the parameters where they are.

    Schein and Ungar 2007: A sums the squared gradients of the pool's probabilities. Hoi et al.
    2006: A is the pool's information. F has the penalty on its diagonal.
    """
    task = problem(n_pool=12, fit_intercept=False)
    X, pool = task.X, task.X_pool
    p, known = task.fitted.predict_proba(pool), task.fitted.predict_proba(X)
    if recipe == "a-optimality":
        # ∂p_c/∂θ_k = (Λ)_ck x
        slopes = p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]
        G = np.einsum("nck,ni->ncki", slopes, pool).reshape(len(pool) * 3, -1)
        A = G.T @ G / len(pool)
    else:
        A = information(pool, p) / len(pool)
    F = information(X, known) + np.eye(12) / task.learner.C
    now = np.trace(A @ np.linalg.inv(F))
    lower = [
        now - np.trace(A @ np.linalg.inv(F + information(pool[[i]], p[[i]])))
        for i in range(len(pool))
    ]
    found, row = scores(recipe, task)
    np.testing.assert_allclose(found, lower, rtol=1e-8)
    assert row == np.argmax(lower)


def pseudo_gradients(task):
    """∇ℓ(x, ŷ) of pool rows at the label they are predicted, intercepts last."""
    p = task.fitted.predict_proba(task.X_pool)
    residual = p - np.eye(p.shape[1])[p.argmax(axis=1)]
    X = np.column_stack([task.X_pool, np.ones(len(p))])
    return np.einsum("ni,nk->nik", X, residual)


def test_glister():
    """Killamsetty et al. 2021: the dev likelihood after a gradient step on the pseudo-labelled row.

    Its Taylor approximation, so what a small step does; the step's length is aside.
    """
    task, rate = problem(), 1e-6
    now = task.goal.value(task.fitted)
    rise = [
        task.goal.value(replace(task.fitted, params=task.fitted.params - rate * slope)) - now
        for slope in pseudo_gradients(task)
    ]
    found, row = scores("glister", task)
    np.testing.assert_allclose(found, np.array(rise) / rate, rtol=1e-3, atol=1e-4)
    assert row == np.argmax(rise)


def test_isal():
    """Liu et al. 2021: -∇L(R)ᵀ H⁻¹ ∇ℓ(x, ŷ), ŷ the pseudo-label; what lowers the loss most is asked.

    And so does retraining with pseudo-labels, in rank.
    """
    task = problem(n_labelled=150, n_pool=60)
    X = np.column_stack([task.X, np.ones(len(task.X))])
    ridge = np.kron(np.eye(3), np.diag([1.0] * 4 + [0.0])) / task.learner.C
    H = information(X, task.fitted.predict_proba(task.X)) + ridge
    slopes = pseudo_gradients(task).transpose(0, 2, 1).reshape(60, -1)
    dev = -task.goal.gradient(task.fitted).T.reshape(-1)
    influence = -slopes @ np.linalg.pinv(H) @ dev
    found, row = scores("isal", task)
    np.testing.assert_allclose(found, -influence, atol=1e-7)
    assert row == influence.argmin()
    truth = Retrain()(task.fitted, task.goal, task.X_pool)
    likely = task.fitted.predict_proba(task.X_pool).argmax(axis=1)
    assert spearmanr(found, truth[np.arange(60), likely]).statistic > 0.9


@pytest.mark.parametrize("n_classes", [2, 3])
def test_goimda(n_classes):
    """Yao et al. 2026, as their code has it for logistic models: ∇Gᵀ 𝓗⁻¹ ∇E[ℓ(x, y)], the largest.

    G is the expected loss of the goal's rows. Labels, there and of the row, are expected as the mean
    of the leave-one-out parameters predicts them.
    """
    task = problem(n_labelled=12, n_pool=25, n_classes=n_classes)
    X, pool = (np.column_stack([Z, np.ones(len(Z))]) for Z in (task.X, task.X_pool))
    left_out = [
        task.learner.fit(np.delete(task.X, j, axis=0), np.delete(task.y, j)).params
        for j in range(12)
    ]
    logits = pool @ np.mean(left_out, axis=0)
    believed = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    slopes = np.einsum("ni,nk->nki", pool, task.fitted.predict_proba(task.X_pool) - believed)
    slopes = slopes.reshape(25, -1)
    ridge = np.kron(np.eye(n_classes), np.diag([1.0] * 4 + [0.0])) / task.learner.C
    H = information(X, task.fitted.predict_proba(task.X)) + ridge
    influence = slopes.sum(axis=0) @ np.linalg.pinv(H) @ slopes.T
    found, row = scores("goimda", task)
    np.testing.assert_allclose(found, influence, rtol=1e-4, atol=1e-9 * influence.max())
    assert row == influence.argmax()


def test_the_jackknife_keeps_the_only_label_of_a_class():
    task = problem(n_labelled=6, n_pool=5, n_classes=2)
    y = np.append(np.zeros(5, dtype=int), 1)
    fitted = task.learner.fit(task.X, y)
    some = [
        task.learner.fit(np.delete(task.X, j, axis=0), np.delete(y, j)).params for j in range(5)
    ]
    check_operator(gw.labels.Expected(gw.labels.Jackknife()))
    np.testing.assert_allclose(jackknifed(fitted).params, np.mean(some, axis=0), atol=1e-6)


def test_without_curvature_rows_are_ranked_worse():
    """Glister's step and isal's 𝓗⁻¹ against retraining, over all labels."""
    task = problem(n_labelled=60, n_pool=20)
    truth = Retrain()(task.fitted, task.goal, task.X_pool).ravel()
    step, solved = (
        spearmanr(FirstOrder(solver=solver)(task.fitted, task.goal, task.X_pool).ravel(), truth)
        for solver in (gw.solvers.GradientStep(), "auto")
    )
    assert step.statistic < solved.statistic - 0.03

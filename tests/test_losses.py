from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier

import goalward as gw
from goalward.core.arrays import namespace, to_numpy
from goalward.errors import Separable, ShapeMismatch
from goalward.models import Fitted, Labelled, Loss, Sigmoid, Softmax, Squared
from goalward.solvers import Cholesky, ConjugateGradient, Dual
from goalward.testing import check_goal, check_loss

LOSS = Softmax()


class Task(NamedTuple):
    X: Any
    y: Any
    X_pool: Any
    y_pool: Any
    X_dev: Any
    y_dev: Any
    learner: Any

    @property
    def fitted(self):
        return self.learner.fit(self.X, self.y)


def labels(K=3, missing=0.2, seed=0):
    """Three labels that follow a random model, of which a fifth is not answered."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(70, 4))
    y = (X @ rng.normal(size=(4, K)) + rng.logistic(size=(70, K)) > 0).astype(float)
    y[rng.random(y.shape) < missing] = np.nan
    cut = [slice(0, 30), slice(30, 40), slice(40, 70)]
    return Task(*(part for at in cut for part in (X[at], y[at])), gw.MultiLabel(tol=1e-11))


def numbers(K=3, seed=0):
    """Three numbers that follow a random model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(70, 4))
    y = X @ rng.normal(size=(4, K)) + rng.normal(size=(70, K))
    cut = [slice(0, 30), slice(30, 40), slice(40, 70)]
    return Task(*(part for at in cut for part in (X[at], y[at])), gw.Ridge(alpha=0.5))


class Sigmoids(Loss):
    """Outcomes that do not exclude one another, each with its own logit: the five methods alone."""

    def targets(self, y, classes, n_rows, name):
        return np.asarray(y, dtype=float)

    def proba(self, logits):
        return 1.0 / (1.0 + namespace(logits).exp(-logits))

    def rows(self, logits, targets):
        xp = namespace(logits)
        return xp.sum(xp.log(1.0 + xp.exp(logits)) - targets * logits, axis=-1)

    def diagonal(self, proba):
        return proba * (1.0 - proba)

    def third(self, proba, motion):
        bend = proba * (1.0 - proba) * (1.0 - 2.0 * proba) * motion
        return bend[:, :, None] * np.eye(proba.shape[1])


def proba(rng, n=6, k=4):
    return LOSS.proba(3 * rng.normal(size=(n, k)))


def explicit(p):
    return np.einsum("nk,kl->nkl", p, np.eye(p.shape[1])) - p[:, :, None] * p[:, None, :]


@pytest.mark.parametrize("n_outcomes", [2, 3, 7])
@pytest.mark.parametrize("loss", [Softmax(), Sigmoids(), Sigmoid(), Squared((0.5,))])
def test_losses_agree_with_their_differences(loss, n_outcomes):
    check_loss(loss, n_outcomes)


def test_a_wrong_curvature_is_found():
    class Wrong(Sigmoids):
        def curvature(self, proba, motion):
            return 2.0 * super().curvature(proba, motion)

    with pytest.raises(AssertionError, match="curvature is not the slope of slope"):
        check_loss(Wrong())


@pytest.mark.parametrize("solver", [None, Cholesky(), Dual(), ConjugateGradient()])
def test_another_loss_is_fitted_by_every_solver(rng, solver):
    """Three independent outcomes by three two-class softmaxes, whose columns are ∓w/2 with ρ doubled."""
    X = rng.normal(size=(40, 5))
    t = (X @ rng.normal(size=(5, 3)) + rng.normal(size=(40, 3)) > 0).astype(float)
    penalty = np.append(np.full(5, 1.0), 0.0)
    start = Fitted(
        np.zeros((6, 3)), Labelled(X, t, np.ones(40)), penalty, np.arange(3), loss=Sigmoids()
    )

    fitted = start.polished(tol=1e-10, solver=solver)

    assert fitted.flatness() < 1e-9
    for k in range(3):
        both = Labelled(X, np.stack([1 - t[:, k], t[:, k]], axis=1), np.ones(40))
        two = Fitted(np.zeros((6, 2)), both, 2 * penalty, np.arange(2)).polished(tol=1e-10)
        np.testing.assert_allclose(
            two.params[:, 1] - two.params[:, 0], fitted.params[:, k], atol=1e-7
        )


def test_targets_are_checked_by_the_loss_of_the_model():
    fitted = Fitted(
        np.zeros((2, 2)),
        Labelled(np.eye(2)[:, :1], np.eye(2), np.ones(2)),
        np.ones(2),
        np.array(["a", "b"]),
    )
    np.testing.assert_array_equal(fitted.targets(["b", "a"], 2), [[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ShapeMismatch, match="y must have 2 labels, one for each row, got 1"):
        fitted.targets(["b"], 2)


def test_slope_and_curvature_are_derivatives(rng, to_xp):
    f, s = rng.normal(size=(2, 5, 3))
    t = LOSS.proba(rng.normal(size=(5, 3)))
    h = 1e-6
    rows = [to_numpy(LOSS.rows(to_xp(f + e * s), to_xp(t))) for e in (h, -h)]
    slope = to_numpy(LOSS.slope(to_xp(f), to_xp(t)))
    np.testing.assert_allclose((slope * s).sum(1), (rows[0] - rows[1]) / (2 * h), rtol=1e-7)
    slopes = [to_numpy(LOSS.slope(to_xp(f + e * s), to_xp(t))) for e in (h, -h)]
    bent = to_numpy(LOSS.curvature(LOSS.proba(to_xp(f)), to_xp(s)))
    np.testing.assert_allclose(bent, (slopes[0] - slopes[1]) / (2 * h), atol=1e-9)


@pytest.mark.parametrize("loss", [Sigmoid(), Squared((0.5, 1.0, 2.0))])
def test_other_losses_have_the_same_derivatives_on_every_library(rng, to_xp, loss):
    f, s = rng.normal(size=(2, 5, 3))
    t = rng.uniform(size=(5, 3))
    t[0, 1] = np.nan if loss.kind == "labels" else 0.3
    h = 1e-6
    rows = [to_numpy(loss.rows(to_xp(f + e * s), to_xp(t))) for e in (h, -h)]
    slope = to_numpy(loss.slope(to_xp(f), to_xp(t)))
    np.testing.assert_allclose((slope * s).sum(1), (rows[0] - rows[1]) / (2 * h), rtol=1e-6)
    slopes = [to_numpy(loss.slope(to_xp(f + e * s), to_xp(t))) for e in (h, -h)]
    p = loss.seen(loss.proba(to_xp(f)), to_xp(t))
    np.testing.assert_allclose(
        to_numpy(loss.curvature(p, to_xp(s))), (slopes[0] - slopes[1]) / (2 * h), atol=1e-9
    )
    bent = [
        to_numpy(loss.blocks(loss.seen(loss.proba(to_xp(f + e * s)), to_xp(t)))) for e in (h, -h)
    ]
    third = to_numpy(loss.third(p, to_xp(s)))
    np.testing.assert_allclose(third, (bent[0] - bent[1]) / (2 * h), atol=1e-9)
    far = to_xp(np.array([[1000.0, -1000.0, 0.0]]))
    assert np.isfinite(to_numpy(loss.rows(far, to_xp(np.array([[0.0, 1.0, 1.0]]))))).all()
    for values in (loss.chances(p), loss.along(p, to_xp(s)), loss.even(p), loss.answers(p)):
        assert np.isfinite(to_numpy(values)).all()


def test_several_labels_are_one_vs_rest_of_scikit_learn():
    task = labels(missing=0.0)
    one = LogisticRegression(C=0.7, tol=1e-12, solver="newton-cholesky")
    theirs = OneVsRestClassifier(one).fit(task.X, task.y)
    ours = gw.MultiLabel(C=0.7, tol=1e-10).fit(task.X, task.y)
    expected = theirs.predict_proba(task.X_pool)
    np.testing.assert_allclose(ours.predict_proba(task.X_pool), expected, atol=1e-8)
    np.testing.assert_array_equal(ours.predict(task.X_pool), theirs.predict(task.X_pool))


def test_a_label_that_is_not_answered_is_as_if_the_row_were_not_there():
    task = labels()
    fitted = task.fitted
    assert np.isnan(task.y).any()
    for k in range(3):
        known = ~np.isnan(task.y[:, k])
        alone = task.learner.fit(task.X[known], task.y[known, k])
        np.testing.assert_allclose(alone.params[:, 0], fitted.params[:, k], atol=1e-9)


@pytest.mark.parametrize("answer", [0.0, 1.0, np.nan])
def test_the_first_rows_may_have_no_label_at_all_or_every_one(answer):
    fitted = gw.MultiLabel().fit([[0.0], [1.0]], np.full((2, 3), answer))
    chances = fitted.predict_proba([[0.5]])
    assert ((chances > 0.01) & (chances < 0.99)).all()


@pytest.mark.parametrize("answers", [np.zeros((10, 1)), np.eye(2)[np.arange(10) % 2]])
def test_labels_without_curvature_are_refused(answers):
    X = np.eye(2)[np.arange(10) % 2]
    with pytest.raises(Separable, match="C=1e\\+12"):
        gw.MultiLabel(C=1e12).fit(X, answers)


@pytest.mark.parametrize("n", [30, 6])
def test_numbers_are_ridge_regression_of_scikit_learn(n):
    task = numbers()
    X, y = task.X[:n], task.y[:n]
    theirs, ours = Ridge(alpha=0.5).fit(X, y), gw.Ridge(alpha=0.5).fit(X, y)
    np.testing.assert_allclose(ours.predict(task.X_pool), theirs.predict(task.X_pool), atol=1e-8)
    one = gw.Ridge(alpha=0.5).fit(X, y[:, 0])
    assert one.predict(task.X_pool).shape == (10,)
    hat = np.linalg.inv(np.cov(X.T, bias=True) * n + 0.5 * np.eye(4))
    centred = X - X.mean(axis=0)
    freedom = 1.0 + np.trace(centred @ hat @ centred.T)
    residuals = y - theirs.predict(X)
    noise = (residuals**2).sum(axis=0) / max(n - freedom, 1.0)
    np.testing.assert_allclose(ours.loss.noise, noise, rtol=1e-8)


def test_one_label_is_a_softmax_of_two_classes_at_half_of_c():
    task = labels(K=1, missing=0.0)
    two = gw.Logistic(C=0.5, tol=1e-11).fit(task.X, task.y[:, 0].astype(int))
    one = task.fitted
    p = one.predict_proba(task.X_pool)
    np.testing.assert_allclose(p[:, 0], two.predict_proba(task.X_pool)[:, 1], atol=1e-9)
    goals = [gw.goals.DevLoss(task.X_dev, y) for y in (task.y_dev, task.y_dev[:, 0].astype(int))]
    for utility in (gw.utility.FirstOrder(), gw.utility.ImplicitStep(), gw.utility.Retrain()):
        both = [utility(m, g, task.X_pool) for m, g in zip((one, two), goals, strict=True)]
        np.testing.assert_allclose(*both, atol=1e-8)


def retrained(task, goal):
    """What each answer does to a goal, by a fit of its own: other labels of the row unanswered."""
    fitted = task.fitted
    before, K = goal.value(fitted), task.y.shape[1]
    given = fitted.loss.given(fitted.predict_proba(task.X_pool))
    rest = np.nan if fitted.loss.kind == "labels" else None
    values = np.empty((*given.shape,))
    for i, k, a in np.ndindex(*given.shape):
        answer = np.full(K, rest) if rest is not None else fitted.predict(task.X_pool)[i].copy()
        answer[k] = given[i, k, a]
        after = task.learner.fit(np.vstack([task.X, task.X_pool[i]]), np.vstack([task.y, answer]))
        values[i, k, a] = goal.value(after) - before
    return values.reshape(len(given), -1)


def goals_of(task):
    X, y = task.X_dev, task.y_dev
    groups = np.arange(len(X)) % 3
    found = [gw.goals.DevLoss(X, y), gw.goals.WorstGroup(X, y, groups)]
    if isinstance(task.learner, gw.Ridge):
        return [*found, gw.goals.MeanSquaredError(X, y)]
    more = [
        gw.goals.SmoothF1(X, y),
        gw.goals.SmoothF1(X, y, average="micro"),
        gw.goals.SmoothF1(X, y, positive=1),
        gw.goals.SmoothAccuracy(X, y),
        gw.goals.Entropy(X),
        gw.goals.ExpectedAccuracy(X),
    ]
    return [*found, *more]


@pytest.mark.parametrize("make", [labels, numbers])
def test_goals_of_other_losses_are_their_derivatives_and_retraining_is_the_truth(make):
    task = make()
    task = task._replace(X_pool=task.X_pool[:3], y_pool=task.y_pool[:3])
    fitted = task.fitted
    for goal in goals_of(task):
        check_goal(goal, fitted)
        truth = retrained(task, goal)
        exact = gw.utility.Retrain()(fitted, goal, task.X_pool)
        scale = np.abs(truth).max()
        np.testing.assert_allclose(exact, truth, atol=1e-7 * scale, err_msg=repr(goal))
        step = gw.utility.ImplicitStep()(fitted, goal, task.X_pool)
        corrected = gw.utility.ImplicitStep(corrections=2)(fitted, goal, task.X_pool)
        worst = [np.abs(u - truth).max() / scale for u in (step, corrected)]
        plain = make is numbers and not isinstance(goal, gw.goals.WorstGroup)
        assert worst[0] < (1e-9 if plain else 0.3), (goal, worst)
        assert worst[1] < (1e-9 if make is numbers else 0.02), (goal, worst)


@pytest.mark.parametrize("make", [labels, numbers])
def test_a_whole_answer_is_the_sum_of_its_parts(make):
    """Of goals that add up over labels; an answer that is no node lies on their polynomial."""
    task = make(**{"missing": 0.0} if make is labels else {})
    fitted, goal = task.fitted, gw.goals.DevLoss(task.X_dev, task.y_dev)
    truth = gw.labels.Expected(gw.labels.Truth(task.y_pool))
    score = truth(gw.utility.Retrain()(fitted, goal, task.X_pool), fitted, task.X_pool)
    before = goal.value(fitted)
    for i in range(3):
        X, y = np.vstack([task.X, task.X_pool[i]]), np.vstack([task.y, task.y_pool[i]])
        assert goal.value(task.learner.fit(X, y)) - before == pytest.approx(score[i], abs=1e-8)


@pytest.mark.parametrize("make", [labels, numbers])
def test_goals_of_the_posterior_are_what_retraining_is_expected_to_add(make):
    task = make()
    found = [gw.goals.FisherRatio, gw.goals.Epig, gw.goals.PredictionVariance]
    for goal_type in found + [gw.goals.DecisionRisk] * (make is labels):
        goal, utility = goal_type(task.X_dev), gw.utility.Information()
        gain = utility(task.fitted, goal, task.X_pool)[:, 0]
        truth = utility.truth(task.fitted, goal, task.X_pool)[:, 0]
        assert spearmanr(gain, truth)[0] > 0.85, goal_type
        if make is numbers and goal_type is not gw.goals.Epig:
            np.testing.assert_allclose(gain, truth, rtol=1e-8)


@pytest.mark.parametrize("make", [labels, numbers])
@pytest.mark.parametrize("utility", ["first-order", "implicit", "retrain"])
def test_operators_and_selections_take_several_questions(make, utility):
    task = make()
    goal = gw.goals.DevLoss(task.X_dev, task.y_dev)
    table = gw.utility.ladder.as_utility(utility)(task.fitted, goal, task.X_pool)
    low, mean, high = (
        operator(table, task.fitted, task.X_pool)
        for operator in (
            gw.labels.WorstCase(),
            gw.labels.Expected(gw.labels.Truth(task.y_pool)),
            gw.labels.BestCase(),
        )
    )
    assert (low <= high).all()
    if make is labels:
        assert (low <= mean + 1e-12).all()
        assert (mean <= high + 1e-12).all()
    for selection in ("top", "sequential"):
        strategy = gw.GoalOriented(goal, operator="spread", utility=utility, selection=selection)
        assert len(set(strategy.suggest(task.fitted, task.X_pool, 4).rows.tolist())) == 4


def test_baselines_of_several_labels_add_up_or_take_the_worst_label():
    task = labels()
    p = task.fitted.predict_proba(task.X_pool)
    closeness = -np.abs(2 * p - 1)
    for strategy, expected in (
        (gw.strategies.Margin(), closeness.sum(axis=1)),
        (gw.strategies.LabelMargin(), closeness.max(axis=1)),
        (gw.strategies.Entropy(), -(p * np.log(p) + (1 - p) * np.log(1 - p)).sum(axis=1)),
    ):
        found = strategy.suggest(task.fitted, task.X_pool, 2)
        np.testing.assert_allclose(found.utility, expected, atol=1e-12)
        with pytest.raises(gw.errors.Unsupported, match=NUMBERS):
            strategy.suggest(numbers().fitted, task.X_pool, 2)


def test_baselines_of_numbers():
    task = numbers(K=1)
    fitted, pool = task.fitted, task.X_pool
    said, y = fitted.predict(pool), task.y[:, 0]
    apart = np.linalg.norm(pool[:, None] - task.X[None], axis=2) * np.abs(said[:, None] - y)
    found = gw.strategies.GreedySampling().suggest(fitted, pool, 2)
    np.testing.assert_allclose(found.utility, apart.min(axis=1) / y.std(), rtol=1e-9)
    first = found.rows[0]
    assert first == apart.min(axis=1).argmax()
    near = np.linalg.norm(pool - pool[first], axis=1) * np.abs(said - said[first])
    assert found.rows[1] == np.minimum(apart.min(axis=1), near).argmax()
    for strategy in (gw.strategies.Committee(), gw.strategies.ModelChange()):
        one, again = (strategy.suggest(fitted, pool, 3, round=1) for _ in range(2))
        np.testing.assert_array_equal(one.rows, again.rows)
        assert (one.utility > 0).all()
        with pytest.raises(gw.errors.Unsupported, match="it needs one of numbers"):
            strategy.suggest(labels().fitted, pool, 2)
    # Rows twice as far from the middle are twice as surprising to both.
    line = np.array([[0.0] * 4, [1.0] * 4, [9.0] * 4])
    for word in ("committee", "model-change"):
        score = gw.recipe(word).build().suggest(fitted, line, 1).utility
        assert score[0] < score[1] < score[2]


def test_the_expectation_of_first_order_under_the_labels_own_law_is_nothing():
    """Remark 1 of the paper, of labels and of numbers."""
    for task in (labels(), numbers()):
        goal = gw.goals.DevLoss(task.X_dev, task.y_dev)
        table = gw.utility.FirstOrder()(task.fitted, goal, task.X_pool)
        operator = gw.labels.Expected(gw.labels.Predicted())
        with pytest.warns(gw.errors.VacuousUtility):
            score = operator(table, task.fitted, task.X_pool)
        assert np.abs(score).max() < 1e-12 * np.abs(table).max()


def test_labels_come_as_tables_sets_or_dicts():
    learner = gw.MultiLabel(labels=["a", "b"])
    X = [[0.0], [1.0], [2.0]]
    sets = learner.fit(X, [{"a"}, {"a", "b"}, set()])
    table = learner.fit(X, [[1, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(sets.labelled.targets, table.labelled.targets)
    part = learner.fit(X, [{"a": True}, {"a": True, "b": None}, {"b": False}])
    expected = [[1, np.nan], [1, np.nan], [np.nan, 0]]
    np.testing.assert_array_equal(part.labelled.targets, expected)
    with pytest.raises(
        gw.errors.UnknownLabel, match=r"must be among \['a', 'b'\], got 'c' in row 1"
    ):
        learner.fit(X, [{"a"}, {"c"}, set()])
    with pytest.raises(gw.errors.BadInput, match="got 2 in row 0"):
        learner.fit(X, [[2, 0], [1, 1], [0, 0]])
    with pytest.raises(ShapeMismatch, match=r"y must have shape \(3, 2\), got \(3, 3\)"):
        learner.fit(X, np.zeros((3, 3)))
    with pytest.raises(gw.errors.NotFinite, match="Row 1 of y"):
        gw.Ridge().fit(X, [1.0, np.nan, 2.0])
    with pytest.raises(gw.errors.BadParameter, match="alpha must be a finite number"):
        gw.Ridge(alpha=-1).fit(X, [1.0, 0.0, 2.0])


def test_before_the_first_label_rows_cover_the_pool():
    task = labels()
    for learner in (gw.MultiLabel(labels=["a", "b"]), gw.Ridge(outputs=["size"])):
        nothing = learner.fit(task.X[:0], [])
        goal = gw.goals.FisherRatio(task.X_dev)
        assert len(gw.GoalOriented(goal).suggest(nothing, task.X_pool, 3).rows) == 3


def test_along_is_the_slope_of_every_label_at_once(rng, to_xp):
    f, s = rng.normal(size=(2, 5, 3))
    along = to_numpy(LOSS.along(LOSS.proba(to_xp(f)), to_xp(s)))
    for k in range(3):
        slope = LOSS.slope(f, np.tile(np.eye(3)[k], (5, 1)))
        np.testing.assert_allclose(along[:, k], (slope * s).sum(1), rtol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_the_basis_is_orthonormal_and_spans_what_sums_to_zero(k):
    Q = LOSS.basis(k, np.ones(1))
    np.testing.assert_allclose(Q.T @ Q, np.eye(k - 1), atol=1e-15)
    np.testing.assert_allclose(Q.sum(axis=0), 0.0, atol=1e-15)


def test_blocks_and_factors_are_the_curvature_in_the_basis(rng, to_xp):
    p = proba(rng)
    p[0] = [1.0, 0.0, 0.0, 0.0]  # a row whose curvature vanishes
    p[1] = [0.0, 0.0, 0.0, 1.0]
    Q = LOSS.basis(4, p)
    exact = np.einsum("kc,nkl,ld->ncd", Q, explicit(p), Q)
    np.testing.assert_allclose(to_numpy(LOSS.blocks(to_xp(p))), exact, atol=1e-15)
    L = to_numpy(LOSS.factors(to_xp(p)))
    np.testing.assert_allclose(L @ L.transpose(0, 2, 1), exact, atol=1e-15)


def test_the_third_derivative_is_that_of_blocks_on_every_library(rng, to_xp):
    f, s = rng.normal(size=(2, 5, 3))
    h = 1e-5
    above, below = (LOSS.blocks(LOSS.proba(f + e * s)) for e in (h, -h))
    third = to_numpy(LOSS.third(LOSS.proba(to_xp(f)), to_xp(s)))
    np.testing.assert_allclose(third, (above - below) / (2 * h), atol=1e-9)


def test_probabilities_do_not_overflow(to_xp):
    f = to_xp(np.array([[1000.0, 0.0], [-1000.0, 0.0]]))
    np.testing.assert_array_equal(to_numpy(LOSS.proba(f)), [[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(
        to_numpy(LOSS.rows(f, to_xp(np.array([[0.0, 1.0], [0.0, 1.0]])))), [1000.0, 0.0]
    )


NUMBERS = "does not support models of numbers"


def test_what_has_no_meaning_for_a_loss_refuses_it():
    """Not a number of another loss: Unsupported, in the name of what was asked."""
    task = numbers()
    for goal in (gw.goals.Entropy(task.X), gw.goals.DecisionRisk(task.X)):
        name = type(goal).__name__
        with pytest.raises(gw.errors.Unsupported, match=f"{name} {NUMBERS}"):
            goal.value(task.fitted)
        with pytest.raises(gw.errors.Unsupported, match=f"{name} {NUMBERS}"):
            gw.GoalOriented(goal).suggest(task.fitted, task.X_pool, 2)
    with pytest.raises(
        gw.errors.Unsupported, match="MeanSquaredError does not support models of several"
    ):
        gw.goals.MeanSquaredError(task.X, np.zeros((len(task.X), 3))).value(labels().fitted)
    with pytest.raises(gw.errors.Unsupported, match=f"LabelModel {NUMBERS}"):
        gw.labels.beliefs.labelled_rows(task.fitted)
    with pytest.raises(gw.errors.Unsupported, match="A temperature of 2"):
        gw.labels.Predicted(2.0).prepare(task.fitted)(task.fitted.candidates(task.X, np.arange(2)))

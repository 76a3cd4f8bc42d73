"""Goals that need no labels: their risk, its slope, and what a row's curvature does to them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import spearmanr

import goalward as gw
from goalward.errors import BadParameter, Unsupported
from goalward.goals import DecisionRisk, Epig, FisherRatio, PredictionVariance
from goalward.models import Labelled, Softmax
from goalward.solvers import Inverse
from goalward.solvers.inverse import Coordinates
from goalward.strategies.selectors import Sequential, Top
from goalward.testing import problem
from goalward.utility import FirstOrder, ImplicitStep, Information, Retrain
from goalward.utility.information import Gains


def state(rng, n_classes, rows=6):
    """Logits and covariances of rows, as any posterior could have them."""
    A = rng.normal(size=(rows, n_classes - 1, n_classes + 1))
    return rng.normal(size=(rows, n_classes)), A @ A.transpose(0, 2, 1) / n_classes


def grown(fitted, x, weight=1.0):
    """The model with a row's curvature added and nothing moved."""
    x = np.atleast_2d(x)
    old = fitted.labelled
    labelled = Labelled(
        np.vstack([old.X, x]),
        np.vstack([old.targets, fitted.predict_proba(x)]),
        np.append(old.weights, [weight] * len(x)),
    )
    return replace(fitted, labelled=labelled)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("make", [FisherRatio, PredictionVariance, Epig])
def test_the_slope_is_the_derivative_of_the_risk(make, n_classes, rng):
    logits, M = state(rng, n_classes)
    goal = make(None)
    step = rng.normal(size=M.shape)
    step = step + step.transpose(0, 2, 1)
    slope = np.einsum("mab,mab->m", goal.slope(logits, M), step)
    h = 1e-6
    numeric = (goal.risk(logits, M + h * step) - goal.risk(logits, M - h * step)) / (2 * h)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-9)
    assert np.all(np.linalg.eigvalsh(goal.slope(logits, M)) >= -1e-12)


def test_the_slope_of_the_variance_is_the_curvature_of_the_loss(rng):
    logits, M = state(rng, 4)
    fitted = problem(n_classes=4).fitted
    expected = fitted.loss.blocks(fitted.loss.proba(logits))
    np.testing.assert_allclose(FisherRatio(None).slope(logits, M), expected, atol=1e-14)


@pytest.mark.parametrize("share", [1.0, 0.3, 1 / 16])
def test_the_slope_of_decision_risk_is_what_moving_logits_leave_of_its_derivative(share, rng):
    """∂risk/∂v - ½ ∂²risk/∂m², at the boundary and away from it; π is ½ of two classes."""
    gap = np.array([-0.4, -1e-4, 0.0, 0.1, 0.7, 2.0])
    v = rng.uniform(0.2, 2.0, size=6)
    Q = Softmax().basis(2, np.zeros((1, 2)))
    e = (Q[0] - Q[1])[0]
    goal = DecisionRisk(None, share=share)

    def risk(gap, v):
        return goal.risk(np.stack([gap / 2, -gap / 2], 1), (v / e**2)[:, None, None])

    h = 1e-3
    by_v = (risk(gap, v + h) - risk(gap, v - h)) / (2 * h)
    by_gap = (risk(gap + h, v) - 2 * risk(gap, v) + risk(gap - h, v)) / h**2
    slope = goal.slope(np.stack([gap / 2, -gap / 2], 1), (v / e**2)[:, None, None])[:, 0, 0] / e**2
    np.testing.assert_allclose(slope, by_v - by_gap / 2, rtol=1e-4, atol=1e-7)


def test_decision_risk_is_what_decisions_taken_again_still_lose(rng):
    """Logits after the next labels are drawn, then those that θ would give; σ/(1 - σ) is aside."""
    share, draws = 0.25, 400_000
    logits, M = state(rng, 3, rows=1)
    Q = Softmax().basis(3, logits)
    second, first = np.argsort(logits[0])[-2:]
    e = Q[first] - Q[second]
    v = e @ M[0] @ e
    later = logits[0, first] - logits[0, second] + np.sqrt(share * v) * rng.normal(size=draws)
    known = later + np.sqrt((1 - share) * v) * rng.normal(size=draws)
    p = np.exp(logits[0]) / np.exp(logits[0]).sum()
    lost = (p[first] + p[second]) / 2 * np.maximum(-np.sign(later) * known, 0.0)
    found = DecisionRisk(None, share=share).risk(logits, M)[0] * (1 - share) / share
    assert found == pytest.approx(lost.mean(), abs=4 * lost.std() / np.sqrt(draws))


def test_epig_is_the_information_two_labels_share():
    """Two classes, Gaussian logits with noise 1/Λ: the mutual information is known."""
    task = problem(n_classes=2)
    a, x = task.X_pool[:1], task.X_pool[1:2]
    goal = Epig(a)
    gain = goal.value(grown(task.fitted, x)) - goal.value(task.fitted)
    posterior = task.fitted.posterior(a)
    Z = posterior.coordinates(np.vstack([a, x]))
    cov = Z @ posterior.matrix @ Z.T
    noise = np.diag(
        1 / goal.slope(task.fitted.logits(np.vstack([a, x])), np.zeros((2, 1, 1)))[:, 0, 0] / 2
    )
    seen = cov + noise
    shared = -0.5 * np.log(1 - seen[0, 1] ** 2 / (seen[0, 0] * seen[1, 1]))
    assert gain == pytest.approx(shared, rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"n_classes": 2}])
def test_the_gain_of_fisher_ratio_is_exact(options):
    task = problem(**options)
    goal = FisherRatio(task.X_dev)
    gains = Information()(task.fitted, goal, task.X_pool)
    before = goal.value(task.fitted)
    truth = [goal.value(grown(task.fitted, x)) - before for x in task.X_pool]
    np.testing.assert_allclose(gains, np.repeat(np.array(truth)[:, None], gains.shape[1], 1))


@pytest.mark.parametrize("make", [FisherRatio, Epig])
def test_gains_are_exact_to_first_order(make):
    """The gain of a row of weight w is off by w²: by a quarter when the weight halves."""
    task = problem(n_labelled=60)
    goal = make(task.X_dev)
    before = goal.value(task.fitted)
    errors = []
    for weight in (0.02, 0.01):
        light = replace(task.fitted, class_weights=np.full(3, weight))
        gains = Information()(light, goal, task.X_pool[:5])[:, 0]
        truth = [goal.value(grown(task.fitted, x, weight)) - before for x in task.X_pool[:5]]
        errors.append(np.abs(gains - truth))
        np.testing.assert_allclose(gains, truth, rtol=0.02)
    if make is Epig:
        ratio = errors[1].sum() / errors[0].sum()
        assert 0.2 < ratio < 0.3


@pytest.mark.parametrize("n_classes", [2, 4])
def test_taking_a_row_moves_all_others_as_starting_again_would(n_classes):
    task = problem(n_classes=n_classes, n_labelled=20)
    goal = FisherRatio(task.X_dev)
    gains = Information().prepare(task.fitted, goal)
    taken = gains.taking(task.fitted.features(task.X_pool))
    for place in (3, 7, 3):
        taken = taken.after(place)
    after = grown(task.fitted, task.X_pool[[3, 7, 3]])
    again = Information().prepare(after, goal).taking(task.fitted.features(task.X_pool))
    # The goal's slope is Λ, which has not moved.
    for name in ("M", "N"):
        np.testing.assert_allclose(getattr(taken, name), getattr(again, name), atol=1e-11)
    np.testing.assert_allclose(taken.posterior.matrix, again.inverse.matrix, atol=1e-11)


def test_a_greedy_batch_serves_the_goal_better_than_the_best_single_rows():
    task = problem(n_pool=200, n_labelled=15, seed=4)
    goal = FisherRatio(task.X_pool)
    values = []
    for selection in (Top(), Sequential()):
        rows = gw.GoalOriented(goal, selection=selection).suggest(task.fitted, task.X_pool, 8).rows
        values.append(goal.value(grown(task.fitted, task.X_pool[rows])))
    assert values[1] > values[0]


def retrained(data, known, X):
    """Return the model of every row under every label, with how far that label is believed."""
    fitted = data.learner.fit(data.X[known], data.y[known])
    p = fitted.predict_proba(X)
    for i, x in enumerate(X):
        for k, label in enumerate(fitted.classes):
            rows, labels = np.vstack([data.X[known], x]), np.append(data.y[known], label)
            yield i, p[i, k], data.learner.fit(rows, labels)


def digits_task():
    data = gw.lab.datasets.load("digits-3v8")
    order = data.split(0).pool
    known = np.concatenate([data.split(0).init, order[:30]])
    fitted = data.learner.fit(data.X[known], data.y[known])
    return fitted, data.X[order[90:110]], data.X[order[110:210]]


def three_classes():
    task = problem(n_labelled=60, n_pool=15, n_dev=100)
    return task.fitted, task.X_pool, task.X_dev


@pytest.mark.parametrize("make", [digits_task, three_classes])
def test_the_value_is_expected_to_rise_by_the_gain_when_retrained(make):
    """The mean over the believed label of what real retraining does to each goal."""
    fitted, X, R = make()
    goals = [FisherRatio(R), PredictionVariance(R), Epig(R), DecisionRisk(R)]
    goals.append(DecisionRisk(R, share=1.0))
    before = np.array([goal.value(fitted) for goal in goals])
    truth = np.zeros((len(goals), len(X)))
    for i, p in enumerate(fitted.predict_proba(X)):
        for chance, label in zip(p, np.eye(len(p)), strict=True):
            again = fitted.with_rows(X[i : i + 1], label[None]).polished(tol=1e-9)
            truth[:, i] += chance * ([goal.value(again) for goal in goals] - before)
    for goal, change in zip(goals, truth, strict=True):
        gains = Information()(fitted, goal, X)[:, 0]
        assert spearmanr(gains, change).statistic > 0.9, goal
        assert np.median(change / gains) == pytest.approx(1.0, abs=0.3), goal


@pytest.mark.parametrize("make", [DecisionRisk, Epig, FisherRatio])
def test_fidelity_compares_gains_with_retraining(make):
    """The scores of some rows, and how the goal's value really rises with each label believed."""
    fitted, X, R = digits_task()
    goal = make(R)
    found = gw.GoalOriented(goal).suggest(fitted, X, 2, fidelity=8)
    rows = found.fidelity.rows
    known = fitted.labelled
    rises = np.zeros(8)
    for i, p in zip(range(8), fitted.predict_proba(X[rows]), strict=True):
        for k in range(2):
            after = gw.Logistic(C=fitted.C).fit(
                np.vstack([known.X, X[rows[i]]]), [*known.targets.argmax(axis=1), k]
            )
            rises[i] += p[k] * (goal.value(after) - goal.value(fitted))
    expected = spearmanr(found.utility[rows], rises).statistic
    assert found.fidelity.rank == pytest.approx(expected)
    assert expected > 0.8
    assert found.fidelity.slope == pytest.approx(np.polyfit(found.utility[rows], rises, 1)[0])
    assert Information().fidelity(fitted, goal, X, rows=8).rank == found.fidelity.rank


def test_decision_risk_ranks_rows_by_the_decisions_that_retraining_turns():
    """What is gained where decisions turn, over the believed label; better than variance alone."""
    found = []
    for seed in range(3):
        data = gw.lab.datasets.load("digits-3v8")
        split = data.split(seed)
        order = np.random.default_rng(seed).permutation(split.pool)
        known = np.concatenate([split.init, order[:20]])
        fitted = data.learner.fit(data.X[known], data.y[known])
        X, R = data.X[order[20:50]], data.X[order[20:]]
        rows, logits = np.arange(len(R)), fitted.logits(R)
        first = logits.argmax(axis=1)
        truth = np.zeros(len(X))
        for i, p, again in retrained(data, known, X):
            moved = again.logits(R)
            truth[i] += p * np.mean(np.maximum(moved[rows, 1 - first] - moved[rows, first], 0.0))
        found.append(
            [
                spearmanr(Information()(fitted, goal, X)[:, 0], truth).statistic
                for goal in (DecisionRisk(R), FisherRatio(R))
            ]
        )
    decision, variance = np.mean(found, axis=0)
    assert decision > 0.75
    assert decision > variance + 0.1


def test_too_many_unknowns_are_held_in_the_leading_directions_of_the_rows(rng):
    low = rng.normal(size=(30, 6)) @ rng.normal(size=(6, 50))
    y = np.arange(30) % 3
    fitted = gw.Logistic().fit(low, y)

    def held(largest):
        coordinates = Coordinates.leading(fitted.hessian, low, largest=largest)
        return Inverse.of(fitted.hessian, coordinates)

    whole = fitted.posterior(low)
    small = held(14)
    assert whole.coordinates.basis is None
    assert small.coordinates.basis.shape == (50, 6)
    assert small.coordinates.kept == pytest.approx(1.0)
    np.testing.assert_allclose(leverages(small, low), leverages(whole, low), atol=1e-9)
    smaller = held(8)
    assert smaller.coordinates.basis.shape == (50, 3)
    assert 0.3 < smaller.coordinates.kept < 1.0
    assert "3 of 50 directions" in smaller.reason
    # What is left out counts as unknown, not as known: a row has no less variance than in truth.
    gap = leverages(smaller, low) - leverages(whole, low)
    assert np.linalg.eigvalsh(gap).min() > -1e-9
    # Rows outside all that was seen have the prior's variance.
    new = rng.normal(size=(4, 50))
    np.testing.assert_allclose(leverages(small, new), leverages(whole, new), atol=1e-9)


def leverages(posterior, rows):
    return posterior.leverage(rows, posterior.coordinates(rows))


@pytest.mark.parametrize(("n_classes", "n_features"), [(2, 5), (4, 5), (5, 300)])
@pytest.mark.parametrize("goal", [DecisionRisk, Epig, FisherRatio, gw.goals.Coverage])
def test_batches_are_the_same_in_every_library(goal, n_classes, n_features, to_xp):
    task = problem(n_classes=n_classes, n_features=n_features, n_pool=60)
    here, there = task.fitted, task.learner.fit(to_xp(task.X), task.y)
    picked = [
        gw.GoalOriented(goal(move(task.X_pool[:40])), selection="sequential").suggest(
            fitted, move(task.X_pool), batch=5
        )
        for fitted, move in ((here, np.asarray), (there, to_xp))
    ]
    assert picked[0].rows.tolist() == picked[1].rows.tolist()
    np.testing.assert_allclose(picked[1].values, picked[0].values, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_what_scores_a_short_list_serves_its_picks(n_classes, monkeypatch):
    task = problem(n_classes=n_classes, n_pool=60)
    asked = []
    forms = Gains.forms
    monkeypatch.setattr(Gains, "forms", lambda *given: asked.append(1) or forms(*given))
    strategy = gw.GoalOriented(DecisionRisk(task.X_pool), selection="sequential")
    strategy.suggest(task.fitted, task.X_pool, batch=5)
    assert len(asked) == 1


def test_wide_sparse_pools_take_seconds_not_hours():
    """The directions come from the rows, of which there are fewer than features."""
    X = scipy.sparse.random(300, 50_000, density=1e-3, random_state=0, format="csr")
    fitted = gw.Logistic().fit(X[:40], np.arange(40) % 2)
    found = gw.recipe("decision-risk").build(pool=X).suggest(fitted, X, 3, exclude=range(40))
    assert len(set(found.rows.tolist())) == 3
    assert "300 of 50000 directions, 100.0%" in found.solver.reason


def test_sums_of_goals_of_the_posterior_are_goals_of_the_posterior():
    task = problem()
    a, b = FisherRatio(task.X_dev), Epig(task.X_pool)
    both = 2.0 * a + b
    assert both.value(task.fitted) == pytest.approx(2 * a.value(task.fitted) + b.value(task.fitted))
    gains = Information()
    parts = [gains(task.fitted, goal, task.X_pool) for goal in (a, b)]
    np.testing.assert_allclose(
        gains(task.fitted, both, task.X_pool), 2 * parts[0] + parts[1], rtol=1e-9
    )
    chosen = gw.GoalOriented(both, utility="auto", selection=Sequential())
    assert len(chosen.suggest(task.fitted, task.X_pool, 4).rows) == 4


def test_where_nothing_is_at_stake_it_says_so_and_goes_by_variance():
    fitted = gw.Logistic(C=1e-3).fit([[-1.0], [1.0]] * 200, [0, 1] * 200)
    X = np.array([[-40.0], [30.0], [50.0]])
    goal = DecisionRisk(X, share=1e-8)
    with pytest.warns(gw.errors.VacuousUtility, match="FisherRatio"):
        found = Information()(fitted, goal, X)
    np.testing.assert_allclose(found, Information()(fitted, FisherRatio(X), X))


def test_sparse_rows_score_as_dense_ones(rng):
    X = scipy.sparse.random(60, 30, density=0.2, random_state=0, format="csr")
    fitted = gw.Logistic().fit(X[:20], np.arange(20) % 3)
    dense = gw.Logistic().fit(X[:20].toarray(), np.arange(20) % 3)
    for goal in (DecisionRisk, Epig):
        found = gw.GoalOriented(goal(X), selection=Sequential()).suggest(fitted, X[20:], 5)
        plain = gw.GoalOriented(goal(X.toarray()), selection=Sequential())
        np.testing.assert_array_equal(found.rows, plain.suggest(dense, X[20:].toarray(), 5).rows)


def test_goals_of_the_posterior_are_refused_where_they_do_not_fit():
    task = problem()
    goal = DecisionRisk(task.X_pool)
    for utility in (FirstOrder(), ImplicitStep(), Retrain()):
        with pytest.raises(Unsupported, match=r"gw\.utility\.Information"):
            utility(task.fitted, goal, task.X_pool)
    for other in (task.goal, task.goal + goal):
        with pytest.raises(Unsupported, match="Use FirstOrder"):
            Information()(task.fitted, other, task.X_pool)
    with pytest.raises(BadParameter, match="every label of a row brings the same"):
        gw.GoalOriented(goal, operator=gw.labels.Spread())
    with pytest.raises(Unsupported, match="labelings"):
        Information().batch(task.fitted, goal, task.X_pool[None])
    with pytest.raises(BadParameter, match="share=0"):
        DecisionRisk(task.X_pool, share=0.0)
    with pytest.raises(BadParameter, match="every label serves"):
        gw.recipe("decision-risk/spread")
    with pytest.raises(BadParameter, match="Write 'decision-risk/average/information'"):
        gw.recipe("decision-risk/average/first-order")


def test_the_reference_of_a_recipe_is_a_sample_of_a_large_pool(rng):
    X = rng.normal(size=(1500, 3))
    built = gw.recipe("decision-risk").build(pool=X)
    again = gw.recipe("decision-risk").build(pool=X, seed=7)
    assert built.goal.X.shape == (1000, 3)
    np.testing.assert_array_equal(built.goal.X, again.goal.X)
    assert repr(built).startswith("GoalOriented(goal=DecisionRisk(share=0.0625)")

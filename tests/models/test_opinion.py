"""A second opinion: guesses that help are used, others change nothing."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

import goalward as gw
from goalward.core.rows import Candidates
from goalward.errors import BadInput, BadParameter, ShapeMismatch
from goalward.labels.opinion import feature_weights

N, WIDTH = 1500, 100


def task(seed=0, K=2):
    rng = np.random.default_rng(seed)
    centres = 1.8 * rng.normal(size=(K, WIDTH)) / WIDTH**0.5
    codes = rng.integers(0, K, N)
    X = (centres[codes] + rng.normal(size=(N, WIDTH))) / WIDTH**0.5
    return X, np.array(list("abcdefgh"))[codes], rng


def guessed(y, right, rng):
    classes, codes = np.unique(y, return_inverse=True)
    other = (codes + rng.integers(1, len(classes), len(y))) % len(classes)
    return classes[np.where(rng.random(len(y)) < right, codes, other)]


def fitted(X, y, guesses, n=24, **options):
    opinion = gw.Opinion.of(X[100:], guesses[100:], **options)
    return gw.Logistic("loo", opinion=opinion).fit(X[:n], y[:n])


def accuracy(model, X, y):
    return np.mean(model.predict(X[100:]) == y[100:])


@pytest.mark.parametrize("K", [2, 4])
def test_guesses_that_are_right_in_80_percent_are_worth_many_labels(K):
    gains = []
    for seed in range(3):
        X, y, rng = task(seed, K)
        helped = fitted(X, y, guessed(y, 0.8, rng))
        plain = gw.Logistic("loo").fit(X[:48], y[:48])
        gains.append(accuracy(helped, X, y) - accuracy(plain, X, y))
    assert np.mean(gains) > 0.02, "24 labels and guesses do more than twice the labels"


@pytest.mark.parametrize("K", [2, 4])
def test_guesses_that_are_half_wrong_make_nothing_worse(K):
    gains, used = [], 0
    for seed in range(5):
        X, y, rng = task(seed, K)
        helped = fitted(X, y, guessed(y, 0.5, rng))
        gains.append(
            accuracy(helped, X, y) - accuracy(gw.Logistic("loo").fit(X[:24], y[:24]), X, y)
        )
        used += helped.transform is not None
    assert np.mean(gains) >= (-0.002 if K == 2 else 0.02), "of four classes, half right is news"
    assert used <= 1 or K > 2


@pytest.mark.parametrize(
    "hostile",
    [
        lambda y: np.full(len(y), "a"),
        lambda y: np.full(len(y), None),
        lambda y: np.array([None] * (len(y) - 4) + list("abab")),
        lambda y: np.arange(len(y)),
    ],
    ids=["constant", "none", "four", "numbers"],
)
def test_guesses_that_say_nothing_leave_the_model_as_it_is(hostile):
    X, y, _ = task()
    same = gw.Logistic("loo").fit(X[:24], y[:24])
    helped = fitted(X, y, hostile(y))
    assert helped.transform is None
    np.testing.assert_array_equal(helped.params, same.params)


def test_an_adversary_and_other_names_are_understood():
    X, y, rng = task()
    good = guessed(y, 0.8, rng)
    turned = np.where(good == "a", "b", "a")
    named = np.where(good == "a", "spam", "ham")
    found = [accuracy(fitted(X, y, said), X, y) for said in (good, turned, named)]
    assert np.ptp(found) < 1e-6
    assert found[0] > 0.8


def test_guesses_for_some_rows_only_and_with_gaps():
    X, y, rng = task()
    some = guessed(y, 0.8, rng).astype(object)
    some[rng.random(N) < 0.5] = None
    some[rng.random(N) < 0.1] = float("nan")
    some[rng.random(N) < 0.1] = "something else"
    assert accuracy(fitted(X, y, some), X, y) > accuracy(
        gw.Logistic("loo").fit(X[:24], y[:24]), X, y
    )


def test_a_guess_without_certainty_is_no_guess():
    X, y, rng = task()
    said = guessed(y, 0.8, rng)
    opinion = gw.Opinion.of(X, said, probabilities=np.full(N, 0.5))
    assert np.abs(opinion.predict(X)).max() < 1e-6
    sure = np.where(said == y, 0.9, 0.6)
    better = gw.Opinion.of(X, said, probabilities=sure)
    asked = gw.Logistic("loo").fit(X[:24], y[:24])
    calibrated = [
        np.mean(o.predict(X).argmax(1) == (y == "b")) for o in (better, gw.Opinion.of(X, said))
    ]
    assert calibrated[0] >= calibrated[1] > accuracy(asked, X, y)


def test_a_function_may_guess():
    X, _, _ = task()
    opinion = gw.Opinion.of(X, lambda rows: np.where(rows[:, 0] > 0, "a", "b"))
    assert opinion.names == ("a", "b")


def test_weights_of_the_rows_themselves_say_the_same():
    X, y, rng = task(K=4)
    said = guessed(y, 0.8, rng)
    for intercept in (True, False):
        learner = gw.Logistic("loo", opinion=gw.Opinion.of(X, said), fit_intercept=intercept)
        model = learner.fit(X[:40], y[:40])
        assert model.transform.trust
        params, constant = feature_weights(model)
        assert constant
        np.testing.assert_allclose(X @ params[:-1] + params[-1], model.logits(X), atol=1e-12)
    estimator = gw.LogisticClassifier(opinion=gw.Opinion.of(X, said)).fit(X[:40], y[:40])
    mine = X @ estimator.coef_.T + estimator.intercept_
    np.testing.assert_allclose(mine, estimator.decision_function(X), atol=1e-12)


def test_sparse_and_single_precision_rows_give_the_same():
    X, y, rng = task()
    said = guessed(y, 0.8, rng)
    dense = fitted(X, y, said)
    thin = fitted(scipy.sparse.csr_array(X), y, said)
    single = fitted(X.astype(np.float32), y, said)
    assert dense.transform.trust == thin.transform.trust == single.transform.trust
    np.testing.assert_allclose(thin.logits(scipy.sparse.csr_array(X)), dense.logits(X), atol=1e-6)
    np.testing.assert_allclose(single.logits(X.astype(np.float32)), dense.logits(X), atol=1e-3)


def test_strategies_see_the_model_that_knows_the_guesses():
    X, y, rng = task()
    model = fitted(X, y, guessed(y, 0.8, rng))
    goal = gw.goals.DevLoss(X[24:60], y[24:60])
    exact = gw.utility.Retrain()(model, goal, X[100:103])
    after = replace_last(model, X, y, X[100:101], model.classes[0])
    assert exact[0, 0] == pytest.approx(goal.value(after) - goal.value(model), abs=1e-6)
    for word in ("margin", "decision-risk", "coverage"):
        found = gw.recipe(word).build(pool=X[100:], seed=0).suggest(model, X[100:], batch=3)
        assert len(found.rows) == 3


def replace_last(model, X, y, row, label):
    learner = gw.Logistic(C=model.C, opinion=model.transform)
    return learner.fit(np.vstack([X[:24], row]), [*y[:24], label])


def test_a_belief_learns_what_guesses_mean():
    X, y, rng = task()
    turned = np.where(guessed(y, 0.9, rng) == "a", "b", "a")
    opinion = gw.Opinion.of(X[100:], turned[100:])
    model = gw.Logistic().fit(X[:60], y[:60])
    rows = Candidates(np.arange(N - 100), X[100:], model.predict_proba(X[100:]))
    believed = opinion.prepare(model)(rows)
    np.testing.assert_allclose(believed.sum(axis=1), 1.0)
    assert np.mean(model.classes[believed.argmax(axis=1)] == y[100:]) > 0.7
    goal = gw.goals.SoftPool(X[100:], opinion)
    assert np.isfinite(goal.for_round(model).value(model))
    scores = gw.labels.Expected(opinion)(np.eye(2)[[0] * (N - 100)], model, X[100:])
    np.testing.assert_allclose(scores, believed[:, 0])
    silent = gw.Opinion.of(X, np.full(N, "a"))
    assert silent.prepare(model)(rows).shape == (N - 100, 2)


def test_guesses_that_do_not_fit_are_refused():
    X, _, _ = task()
    with pytest.raises(ShapeMismatch, match=f"{N} rows and 3 guesses"):
        gw.Opinion.of(X, ["a", "b", "a"])
    with pytest.raises(BadInput, match="Divide percentages by 100"):
        gw.Opinion.of(X, ["a"] * N, probabilities=np.full(N, 80.0))
    with pytest.raises(BadInput, match="must be a label or None"):
        gw.Opinion.of(X, [["a"]] * N)


def test_one_call_takes_guesses():
    X, y, rng = task()
    said = guessed(y, 0.8, rng)[100:]
    found = gw.suggest(None, X[:24], y[:24], X[100:], guesses=said)
    assert found.says.startswith(
        "Softmax regression on 100 columns, C = 0.1, by leave-one-out, was fitted to 24 labels, with "
        "the guesses; rows by hedged: "
    )
    few = gw.suggest(None, X[:5], y[:5], X[100:], guesses=lambda rows: said)
    assert "the guesses not used" in few.says
    with pytest.raises(BadParameter, match="guesses need our own model, got LogisticRegression"):
        gw.suggest(LogisticRegression(), X[:24], y[:24], X[100:], guesses=said)

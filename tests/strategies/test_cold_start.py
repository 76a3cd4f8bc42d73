"""From no label at all: what is asked covers the pool, until two classes have labels."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import goalward as gw
from goalward.errors import Empty, OneClass
from goalward.goals import Coverage
from goalward.strategies import Margin, Random, cold_start

X = np.random.default_rng(0).standard_normal((60, 4))
LEARNER = gw.Logistic(classes=["a", "b", "c"], penalize_intercept="until-seen")
NOTHING = LEARNER.fit(X[:0], [])


def test_a_model_of_no_label_knows_nothing():
    assert not NOTHING.seen.any()
    assert not NOTHING.params.any()
    np.testing.assert_allclose(NOTHING.predict_proba(X), 1 / 3)
    assert (NOTHING.penalty == 1.0).all()


def test_the_first_label_is_the_end_of_the_path_from_no_label():
    """The model of a label of little weight is near that of none, and linear in the weight."""
    moved = [LEARNER.fit(X[:1], ["a"], sample_weight=[w]).params[:, 0] for w in (1e-3, 5e-4)]
    np.testing.assert_allclose(moved[0], 2 * moved[1], rtol=1e-2)
    np.testing.assert_allclose(moved[0], 1e-3 * (1 - 1 / 3) * np.r_[X[0], 1.0], rtol=1e-2)


def test_without_named_classes_or_with_free_intercepts_labels_are_needed():
    with pytest.raises(Empty):
        gw.Logistic().fit(X[:0], [])
    with pytest.raises(Empty):
        gw.Logistic(classes=["a", "b"]).fit(X[:0], [])
    with pytest.raises(OneClass, match="penalize_intercept='until-seen'"):
        gw.Logistic(classes=["a", "b"]).fit(X[:2], ["a", "a"])


def test_the_first_rows_cover_the_pool_as_brute_force_finds_them():
    goal = Coverage(X)
    radius = goal.cover(NOTHING).radius
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    K = rbf_kernel(unit, gamma=1 / radius**2)
    best, expected = np.zeros(60), []
    for _ in range(5):
        gains = np.maximum(K - best, 0).mean(axis=1)
        gains[expected] = -np.inf
        expected.append(int(gains.argmax()))
        best = np.maximum(best, K[expected[-1]])
    assert cold_start(X).suggest(NOTHING, X, batch=5).rows.tolist() == expected


@pytest.mark.parametrize(
    "text",
    ["margin", "entropy", "decision-risk", "bait", "badge", "dev/average", "coverage", "bald"],
)
def test_every_strategy_starts_by_covering(text):
    dev = (X[:6], list("abcabc"))
    strategy = gw.recipe(text).build(pool=X, dev=dev)
    expected = cold_start(X).suggest(NOTHING, X, batch=4).rows
    assert strategy.suggest(NOTHING, X, batch=4).rows.tolist() == expected.tolist()
    one = LEARNER.fit(X[expected[:2]], ["a", "a"])
    second = strategy.suggest(one, X, batch=2, exclude=expected[:2])
    again = cold_start(X).suggest(one, X, batch=2, exclude=expected[:2])
    assert second.rows.tolist() == again.rows.tolist()


def test_two_classes_end_the_cold_start():
    two = LEARNER.fit(X[:2], ["a", "b"])
    assert Margin().suggest(two, X, batch=3).rows.tolist() == [
        *np.argsort(np.diff(np.sort(two.predict_proba(X)), axis=1)[:, -1])[:3]
    ]


def test_random_starts_at_random():
    trained = LEARNER.fit(X[:3], ["a", "b", "c"])
    rows = Random(seed=4).suggest(NOTHING, X, batch=5).rows
    assert rows.tolist() == Random(seed=4).suggest(trained, X, batch=5).rows.tolist()

"""TypiClust against its definition, in loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

import goalward as gw
from goalward.strategies import Margin, Then, TypiClust
from goalward.strategies.batches import typicality
from goalward.testing import check_strategy, problem

TASK = problem(n_labelled=6, n_pool=120, n_features=3)


def blobs(rng, sizes, spread=0.1):
    """Return rows around points far apart, and the blob of each."""
    blob = np.repeat(np.arange(len(sizes)), sizes)
    centres = 10.0 * np.column_stack([np.arange(len(sizes)), np.arange(len(sizes)) % 2])
    return centres[blob] + spread * rng.normal(size=(len(blob), 2)), blob


def by_hand(X, rows):
    """Return the typicality of each of `rows` among them."""
    count = min(20, len(rows) // 2)
    gaps = [sorted(np.linalg.norm(X[i] - X[j]) for j in rows if j != i)[:count] for i in rows]
    return 1.0 / (np.mean(gaps, axis=1) + 1e-5)


@pytest.mark.parametrize("n", [2, 7, 60])
def test_typicality_is_the_inverse_mean_distance_from_neighbours(rng, n):
    X = rng.normal(size=(n, 4))
    np.testing.assert_allclose(typicality(X, X), by_hand(X, range(n)), rtol=1e-6)
    wide = sp.csr_array(X)
    np.testing.assert_allclose(typicality(wide, wide), typicality(X, X), rtol=1e-6)


def test_the_largest_clusters_without_a_label_give_their_most_typical_row(rng):
    X, blob = blobs(rng, [30, 50, 40, 20, 3])
    labelled = [0, 31]  # of the first two blobs
    fitted = gw.Logistic().fit(X[labelled], [0, 1])
    free = np.setdiff1d(np.arange(len(X)), labelled)
    found = TypiClust().suggest(fitted, X, 3, exclude=labelled)
    assert blob[found.rows].tolist() == [2, 3, 1]  # the blob of 3 rows is too small for a turn
    for row in found.rows:
        rows = [i for i in free if blob[i] == blob[row]]
        values = by_hand(X, rows)
        assert row == rows[int(values.argmax())]
        np.testing.assert_allclose(found.utility[rows], values, rtol=1e-4)
    # More rows than clusters: a second row of each.
    more = TypiClust().suggest(fitted, X[:120], 9, exclude=labelled).rows
    assert len(set(more.tolist())) == 9


def test_clusters_are_those_of_k_means_and_no_prediction_counts(monkeypatch):
    seen = []
    fit = KMeans.fit
    monkeypatch.setattr(KMeans, "fit", lambda self, X: seen.append((self, len(X))) or fit(self, X))
    found = TypiClust(seed=3).suggest(TASK.fitted, TASK.X_pool, 5, round=0).rows
    assert [(one.n_clusters, rows) for one, rows in seen] == [(6 + 5, 6 + 120)]
    other = gw.Logistic(C=1e-3).fit(TASK.X, np.arange(6) % 2)
    np.testing.assert_array_equal(
        TypiClust(seed=3).suggest(other, TASK.X_pool, 5, round=0).rows, found
    )


def test_it_starts_from_no_label(rng):
    X, blob = blobs(rng, [30, 50, 40, 20])
    nothing = gw.Logistic(classes=[0, 1], penalize_intercept="until-seen").fit(np.empty((0, 2)), [])
    for word in ("typiclust", "tcm"):
        found = gw.recipe(word).build().suggest(nothing, X, 4).rows
        assert blob[found].tolist() == [1, 2, 0, 3]


def test_it_is_an_ordinary_strategy_and_recipe():
    check_strategy(TypiClust(), TASK)
    assert gw.recipe("typiclust").build(seed=2) == TypiClust(seed=2)
    assert gw.recipe("tcm").build() == Then(TypiClust(), Margin(), labels=30)
    sparse = TypiClust().suggest(TASK.fitted, sp.csr_array(TASK.X_pool), 6)
    np.testing.assert_array_equal(
        sparse.rows, TypiClust().suggest(TASK.fitted, TASK.X_pool, 6).rows
    )
    copies = np.repeat(TASK.X_pool[:4], 5, axis=0)
    assert len(set(TypiClust().suggest(TASK.fitted, copies, 12).rows.tolist())) == 12
    many = problem(n_labelled=60, n_pool=300)
    check_strategy(TypiClust(), many)

"""Labels are classes: one for each row, or a distribution; measurements and lists are refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import goalward as gw
from goalward.errors import BadInput, GoalwardError, ShapeMismatch, UnknownLabel

X = np.random.default_rng(0).normal(size=(12, 2))
MEASURED = np.linspace(0.1, 2.3, 12)
PAIRS = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]] * 4)


@pytest.mark.parametrize(
    "y",
    [
        MEASURED,
        MEASURED.tolist(),
        MEASURED.astype(np.float32),
        pd.Series(MEASURED),
        MEASURED.astype(object),
        [0.0] * 6 + [1.0] * 5 + [float("inf")],
    ],
    ids=["array", "list", "single", "series", "objects", "infinite"],
)
@pytest.mark.parametrize("C", [1.0, "loo"])
def test_measurements_are_no_classes(y, C):
    with pytest.raises(BadInput, match=r"gw\.Ridge\(\)") as said:
        gw.Logistic(C=C).fit(X, y)
    assert isinstance(said.value, GoalwardError)
    assert "np.digitize" in str(said.value)


def test_scikit_learns_classifier_refuses_them_in_its_own_words():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        gw.LogisticClassifier().fit(X, MEASURED)
    with pytest.raises(ValueError, match="1d array"):
        gw.LogisticClassifier().fit(X, PAIRS)


def test_goals_and_adapters_refuse_measurements_too():
    y = np.arange(12) % 2
    fitted = gw.Logistic().fit(X, y)
    with pytest.raises(UnknownLabel, match=r"gw\.Ridge\(\)"):
        gw.GoalOriented(gw.goals.DevLoss(X, MEASURED)).suggest(fitted, X, 2)
    estimator = LogisticRegression(tol=1e-10).fit(X, y)
    with pytest.raises(UnknownLabel, match=r"gw\.Ridge\(\)"):
        gw.adapters.from_sklearn(estimator, X, MEASURED)


def test_whole_floats_texts_and_named_classes_are_classes():
    whole = np.arange(12) % 3
    expected = gw.Logistic().fit(X, whole).params
    assert np.array_equal(gw.Logistic().fit(X, whole.astype(float)).params, expected)
    stars = whole / 2 + 0.5
    named = gw.Logistic(classes=[0.5, 1.0, 1.5]).fit(X, stars)
    assert np.array_equal(named.params, expected)
    assert gw.Logistic().fit(X, [str(s) for s in stars]).n_classes == 3
    soft = np.eye(3)[whole] * 0.8 + 0.2 / 3
    assert gw.Logistic().fit(X, soft).n_classes == 3
    assert np.allclose(gw.Logistic().fit(X, np.eye(3, dtype=int)[whole]).params, expected)


@pytest.mark.parametrize(
    "y",
    [
        PAIRS,
        PAIRS.astype(bool),
        pd.DataFrame(PAIRS),
        scipy.sparse.csr_array(PAIRS),
        PAIRS.tolist(),
        [{"a", "b"}, {"a"}, {"b"}] * 4,
        [frozenset("ab"), frozenset("a"), frozenset("b")] * 4,
        [["a", "b"], ["a"], []] * 4,
        [np.array([1, 2]), np.array([1])] * 6,
    ],
    ids=["array", "flags", "frame", "sparse", "lists", "sets", "frozen", "ragged", "arrays"],
)
def test_several_labels_per_row_are_refused_with_the_way_out(y):
    with pytest.raises(BadInput, match=r"gw\.MultiLabel\(\)"):
        gw.Logistic().fit(X, y)


def test_a_column_of_labels_is_refused_with_the_way_out():
    y = np.arange(12) % 2
    with pytest.raises(ShapeMismatch, match=r"y\[:, 0\]"):
        gw.Logistic().fit(X, y[:, None])
    with pytest.raises(ShapeMismatch, match=r"y\[:, 0\]"):
        gw.Logistic().fit(X, pd.DataFrame({"y": y}))
    for estimator, adapt in (
        (LogisticRegression(tol=1e-10), gw.adapters.from_sklearn),
        (KNeighborsClassifier(2), gw.adapters.from_classifier),
    ):
        fitted = estimator.fit(X, y)
        assert adapt(fitted, X, y[:, None]).n_classes == 2
        with pytest.raises(ShapeMismatch, match=r"gw\.MultiLabel\(\)"):
            adapt(fitted, X, PAIRS)


def test_a_table_without_columns_is_a_clear_error():
    with pytest.raises(ShapeMismatch):
        gw.Logistic().fit(X, np.empty((12, 0)))

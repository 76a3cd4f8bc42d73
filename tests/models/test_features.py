"""Feature maps: kernels by their landmarks, one scale for all columns, and the map that predicts best."""

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.spatial.distance import pdist
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

import goalward as gw
from goalward.core.arrays import to_numpy
from goalward.errors import BadInput, BadParameter, NotFinite, ShapeMismatch, Unsupported
from goalward.models.features import (
    Components,
    Features,
    Landmarks,
    Linear,
    Splines,
    fitted_maps,
    maps_of,
    written_maps,
)
from goalward.models.fitted import left_out_likelihood
from goalward.scale.gpu import Cuda
from goalward.scale.threads import Threads
from goalward.solvers.inverse import Coordinates, Inverse, own_leverages
from goalward.strategies import Margin
from tests.conftest import need, some_heavy

MAPS = [
    Linear(),
    Linear(tame=True),
    Landmarks(12),
    Landmarks(12, width=0.25),
    Landmarks(12, kernel="laplace"),
    Landmarks(12, tame=False),
    Splines(),
    Components(2),
    Components(2, tame=True),
]


def ring(rng, n=400):
    """Return rows of which those inside a circle are of one class; the columns differ in scale."""
    X = rng.uniform(-1, 1, size=(n, 2))
    return X * [1.0, 100.0], np.where((X**2).sum(axis=1) < 0.5, "in", "out")


@pytest.mark.parametrize("kernel", ["rbf", "laplace"])
def test_with_all_rows_as_landmarks_products_are_the_kernel(rng, kernel):
    X = rng.normal(size=(20, 3))
    fitted = Landmarks(20, kernel=kernel, tame=False).fit(X)
    far = pdist(X, "sqeuclidean" if kernel == "rbf" else "cityblock")

    columns = fitted.transform(X)[:, 3:] + fitted.learned["mean"]

    products = columns @ columns.T
    assert products / products[0, 0] == pytest.approx(
        fitted.map.closeness(X, fitted.learned | {"centres": X}), abs=1e-5
    )
    assert float(fitted.learned["h"]) == pytest.approx(np.median(far))


@pytest.mark.parametrize("made", MAPS, ids=repr)
def test_rows_are_mapped_alike_in_blocks_of_any_size_and_library(made, rng, to_xp):
    pool, X = rng.normal(size=(60, 4)), rng.normal(size=(11, 4))
    fitted = made.fit(pool)
    whole = fitted.transform(X)
    parts = [fitted.transform(X[a:b]) for a, b in pairwise([0, 1, 5, 11])]
    assert np.concatenate(parts) == pytest.approx(whole, abs=1e-12)
    assert to_numpy(fitted.transform(to_xp(X))) == pytest.approx(whole, abs=1e-9)
    single = fitted.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert single == pytest.approx(whole, abs=2e-3)


@pytest.mark.parametrize("made", [m for m in MAPS if m.tame], ids=repr)
def test_a_tame_map_does_not_depend_on_units(made, rng):
    pool = rng.normal(size=(80, 3))
    other = pool * [1e-3, 50.0, 7.0] + [4.0, -100.0, 0.0]
    assert made.fit(other).transform(other) == pytest.approx(
        made.fit(pool).transform(pool), abs=1e-6
    )


def test_components_are_those_of_a_truncated_svd(rng):
    X = rng.normal(size=(30, 50)) * (rng.random((30, 50)) < 0.2)
    made = Components(4).fit(scipy.sparse.csr_array(X))
    theirs = TruncatedSVD(4, algorithm="arpack").fit_transform(X)
    ours = made.transform(scipy.sparse.csr_array(X))
    length = np.linalg.norm(X) / np.linalg.norm(theirs)
    assert np.abs(ours) == pytest.approx(length * np.abs(theirs), abs=1e-8)
    assert made.transform(X) == pytest.approx(ours)
    y = np.arange(30) % 2
    fitted = gw.Logistic(features=["linear", "components"]).fit(scipy.sparse.csr_array(X), y)
    assert fitted.predict_proba(X).shape == (30, 2)


def test_taming_leaves_categories_and_pulls_in_outliers(rng):
    pool = np.column_stack([rng.integers(0, 2, 50), rng.normal(size=50)])
    pool[0, 1] = 1e6
    tamed = Linear(tame=True).fit(pool).transform(pool)
    assert set(tamed[:, 0]) == {0.0, 1.0}
    assert abs(tamed[:, 1]).max() < 10


@pytest.mark.parametrize("made", MAPS, ids=repr)
def test_a_map_is_stored_as_plain_data(made, rng):
    X = rng.normal(size=(40, 3))
    fitted = made.fit(X)
    plain, arrays = fitted.state()
    again = Features.restored(plain, arrays)
    assert np.array_equal(again.transform(X), fitted.transform(X))
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))
    assert maps_of(written_maps(made)) == (made,)
    with pytest.raises(BadInput, match="feature map"):
        Features.restored(plain | {"kind": "Other"}, arrays)


def test_features_of_no_use_and_single_values_are_finite():
    X = np.zeros((15, 2))
    X[:, 1] = np.arange(15) % 2
    for made in MAPS:
        assert np.isfinite(made.fit(X).transform(X)).all()


@pytest.mark.parametrize(
    ("n", "d", "intercept", "penalised"),
    [(60, 30, True, False), (40, 60, True, True), (50, 45, False, False)],
)
def test_leverages_class_by_class_are_those_of_the_whole_inverse(
    rng, n, d, intercept, penalised, monkeypatch
):
    K = 6
    X, y = rng.normal(size=(n, d)), np.arange(n) % K
    X[:, :K] += 2.0 * np.eye(K)[y]
    fitted = gw.Logistic(C=10.0, fit_intercept=intercept, penalize_intercept=penalised).fit(X, y)
    exact = Inverse.of(fitted.hessian, Coordinates.features(fitted.hessian)).leverage(X)
    monkeypatch.setattr("goalward.solvers.inverse.LARGEST", 10)
    # A free intercept is penalised by 1e-6 of the others' penalty.
    assert own_leverages(fitted.hessian, X) == pytest.approx(exact, abs=1e-5 * abs(exact).max())


@pytest.mark.parametrize("d", [20, 70])
@pytest.mark.parametrize("learner", [gw.MultiLabel(), gw.Ridge(), gw.Logistic()], ids=repr)
def test_leverages_column_by_column_are_those_of_the_whole_inverse(rng, learner, d, monkeypatch):
    X, y = rng.normal(size=(50, d)), rng.integers(2, size=(50, 3)).astype(float)
    fitted = learner.fit(X, y[:, 0] if isinstance(learner, gw.Logistic) else y)
    exact = Inverse.of(fitted.hessian, Coordinates.features(fitted.hessian)).leverage(X)
    monkeypatch.setattr("goalward.solvers.inverse.LARGEST", 10)
    assert own_leverages(fitted.hessian, X) == pytest.approx(exact, abs=1e-5 * abs(exact).max())


def test_ridge_chooses_as_scikit_learn_does_for_several_outputs_in_many_columns(rng):
    X = rng.normal(size=(150, 384))
    y = X[:, :5] + rng.normal(size=(150, 5))
    theirs = RidgeCV(alphas=[0.01, 0.1, 1.0, 10.0]).fit(X, y)
    assert theirs.alpha_ == 10.0, "the data are noisy: a weak penalty would be wrong"
    assert theirs.alpha_ == 1 / gw.Ridge(alpha="loo").fit(X, y).C


def test_where_leave_one_out_takes_too_long_folds_take_its_place(rng, monkeypatch):
    X, y = rng.normal(size=(300, 20)), np.arange(300) % 4
    X[:, :4] += 2.0 * np.eye(4)[y]
    learner = gw.Logistic(C=0.1)
    exact = left_out_likelihood(learner.fit(X, y))
    monkeypatch.setattr("goalward.solvers.inverse.LARGEST", 10)
    monkeypatch.setattr("goalward.solvers.inverse.LARGEST_WORK", 10)
    assert left_out_likelihood(learner.fit(X, y)) == pytest.approx(exact, rel=0.1)
    # A class of one row is in no other fold.
    y[0] = 9
    assert np.isfinite(left_out_likelihood(learner.fit(X, y)))


def test_leave_one_out_of_many_classes_in_many_columns_is_close_to_refits(rng):
    K, n = 12, 96
    X, y = rng.normal(size=(n, 100)), np.arange(n) % K
    X[:, :K] += 3.0 * np.eye(K)[y]
    learner = gw.Logistic(C=0.1, classes=list(range(K)))
    fitted = learner.fit(X, y)
    refits = 0.0
    for i in range(n):
        kept = np.arange(n) != i
        refits += np.log(learner.fit(X[kept], y[kept]).predict_proba(X[[i]])[0, y[i]])
    # 1,111 unknowns: more than are inverted as one matrix.
    assert left_out_likelihood(fitted) == pytest.approx(refits, rel=0.02)


def test_leave_one_out_of_numbers_is_exact(rng):
    from goalward.models.fitted import left_out

    X = rng.normal(size=(25, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=25)
    learner = gw.Ridge(alpha=2.0)
    refits = [learner.fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[[i]]) for i in range(25)]
    assert left_out(learner.fit(X, y)).ravel() == pytest.approx(np.ravel(refits), abs=1e-8)


def test_kernels_are_chosen_where_a_line_does_not_do_and_only_there(rng):
    X, y = ring(rng)
    curved = gw.Logistic(C="loo", features="auto").fit(X[:100], y[:100], pool=X)
    assert isinstance(curved.feature_map.map, Landmarks)
    assert (
        np.mean(curved.predict(X) == y)
        > 0.9
        > np.mean(gw.Logistic().fit(X[:100], y[:100]).predict(X) == y)
    )
    line = np.where(X[:, 0] + X[:, 1] / 100 + 0.3 * rng.normal(size=400) > 0, "in", "out")
    straight = gw.Logistic(C="loo", features="auto").fit(X[:100], line[:100], pool=X)
    assert straight.feature_map.map == Linear(tame=True)
    few = gw.Logistic(C="loo", features="auto").fit(X[:9], ["in", *y[:7], "out"], pool=X)
    assert (few.feature_map.map, few.C) == (Linear(tame=True), 1.0)


def test_labels_and_numbers_take_the_same_maps(rng):
    X, y = ring(rng)
    several = np.column_stack([y == "in", X[:, 0] > 0])
    fitted = gw.MultiLabel(C="loo", features="auto").fit(X[:100], several[:100], pool=X)
    assert np.mean(fitted.predict(X) == several) > 0.9
    numbers = (X[:, 0]) ** 2
    ridge = gw.Ridge(alpha="loo", features="auto").fit(X[:80], numbers[:80], pool=X)
    straight = gw.Ridge().fit(X[:80], numbers[:80])
    error, of_line = (np.mean((m.predict(X).ravel() - numbers) ** 2) for m in (ridge, straight))
    assert error < 0.05 * of_line


def test_utilities_are_those_of_the_mapped_rows(rng):
    X, y = ring(rng, 120)
    dev = X[60:80], y[60:80]
    features = Landmarks(15).fit(X)
    fitted = gw.Logistic(features=[features]).fit(X[:40], y[:40])
    plain = gw.Logistic().fit(features.transform(X[:40]), y[:40])
    moved = gw.goals.DevLoss(features.transform(dev[0]), dev[1])
    for utility in (gw.utility.FirstOrder(), gw.utility.ImplicitStep(), gw.utility.Retrain()):
        own = utility(fitted, gw.goals.DevLoss(*dev), X[80:])
        assert own == pytest.approx(utility(plain, moved, features.transform(X[80:])), abs=1e-8)


@pytest.mark.parametrize("device", some_heavy([False, True], [True]))
def test_every_engine_gives_the_same_rows(device, rng, tmp_path):
    X, y = ring(rng, 3000)
    fitted = gw.Logistic(C="loo", features="auto").fit(X[:100], y[:100], pool=X)
    np.save(tmp_path / "pool.npy", X)
    pool = X if device else gw.scale.open_pool(tmp_path / "pool.npy")
    if device:
        need("torch")
    engine = Cuda("cpu") if device else Threads(n_jobs=2)
    for strategy in (Margin(), gw.GoalOriented(gw.goals.DevLoss(X[100:200], y[100:200]))):
        found = strategy.suggest(fitted, X, 10, range(200))
        there = strategy.suggest(fitted, pool, 10, range(200), engine=engine)
        assert there.rows.tolist() == found.rows.tolist()


def test_one_call_returns_the_model_that_chose(rng):
    X, y = ring(rng)
    found = gw.suggest(None, X[:60], y[:60], X[60:])
    assert np.mean(found.model.predict(X) == y) > 0.85
    assert found.says.startswith("Softmax regression on 2 columns and 100 landmarks, C = ")
    assert ", by leave-one-out, was fitted to 60 labels; rows by hedged: " in found.says
    first = gw.suggest(None, None, None, X, classes=["in", "out"])
    assert first.model.predict_proba(X).shape == (400, 2)


def test_a_map_of_ones_own_is_taken(rng):
    X, y = ring(rng)
    X = np.column_stack([X, X**2])
    fitted = PCA(3).fit(X)
    as_is, cloned = (
        gw.Logistic(features=own).fit(X[:50], y[:50], pool=X) for own in (fitted, PCA(3))
    )
    assert as_is.predict_proba(X) == pytest.approx(cloned.predict_proba(X), abs=1e-6)
    assert as_is.says == "softmax regression on the columns of PCA, C = 1"


def test_the_default_is_the_columns_as_they_come(rng):
    X, y = ring(rng)
    ours = gw.Logistic().fit(X, y).predict_proba(X)
    assert ours == pytest.approx(gw.Logistic(features="linear").fit(X, y).predict_proba(X))
    theirs = LogisticRegression(C=2.0, tol=1e-10, max_iter=10_000).fit(X, y)
    assert ours == pytest.approx(theirs.predict_proba(X), abs=1e-4)


def test_wide_and_sparse_rows_get_no_kernel(rng):
    assert [f.map for f in fitted_maps("auto", rng.normal(size=(30, 300)))] == [Linear(tame=True)]
    X = scipy.sparse.csr_array(rng.normal(size=(30, 5)) * (rng.random((30, 5)) < 0.3))
    assert [f.map for f in fitted_maps("auto", X)] == [Linear()]
    with pytest.raises(Unsupported, match="needs dense rows"):
        Landmarks().fit(X)


@pytest.mark.parametrize(
    ("features", "error", "match"),
    [
        ("kernel", BadParameter, "one of 'linear', 'splines', 'landmarks', 'components', 'auto'"),
        (Landmarks, BadParameter, "an object is made by Landmarks"),
        ([], BadParameter, "at least 1 map"),
        (3, BadParameter, "maps with `transform`"),
    ],
)
def test_other_features_are_refused_in_words(features, error, match, rng):
    X, y = ring(rng, 30)
    with pytest.raises(error, match=match):
        gw.Logistic(features=features).fit(X, y)


def test_wrong_options_and_rows_of_another_width_are_refused(rng):
    for wrong in ({"n": 0}, {"kernel": "cosine"}, {"width": 0.0}):
        with pytest.raises(BadParameter):
            Landmarks(**wrong)
    X, y = ring(rng, 60)
    fitted = gw.Logistic(features="landmarks").fit(X, y)
    with pytest.raises(ShapeMismatch, match="must have 2 features"):
        fitted.predict(np.ones((2, 3)))


@pytest.mark.parametrize("features", ["linear", "auto", "splines", "landmarks", "components"])
@pytest.mark.parametrize("piped", [False, True])
def test_a_classifier_of_ours_keeps_its_map_as_an_adapter(rng, features, piped):
    Z = rng.normal(size=(600, 4))
    X, y = Z * [1, 1000, 1, 1] + [50, 0, 0, 0], np.where(Z[:, 0] > 0, "a", "b")
    model = gw.LogisticClassifier(C="loo", features=features)
    model = make_pipeline(MinMaxScaler(), model) if piped else model
    own = model.fit(X[:80], y[:80])
    found = gw.adapters.from_sklearn(own, X[:80], y[:80])
    assert found.predict_proba(X) == pytest.approx(own.predict_proba(X), abs=1e-9)
    assert pickle.loads(pickle.dumps(found)).predict_proba(X[:5]).shape == (5, 2)
    more = gw.adapters.from_sklearn(own, X[:80], y[:80], classes=["a", "b", "c"])
    assert more.predict_proba(X)[:, :2].argmax(axis=1) == pytest.approx(
        own.predict_proba(X).argmax(axis=1), abs=1
    )
    assert gw.suggest(model, X[:80], y[:80], X).model.says == found.says


def test_a_classifier_takes_a_map_of_scikit_learn(rng):
    X, y = ring(rng)
    fitted = gw.LogisticClassifier(features=PCA(2)).fit(X[:50], y[:50])
    assert fitted.predict(X).shape == y.shape


@pytest.mark.parametrize("left", [700, 30, 5, 2, 1, 0])
def test_what_is_left_of_a_pool_does_not_decide_what_the_features_are(rng, left):
    Z = rng.normal(size=(1500, 4))
    y, X = np.where(Z[:, 0] * Z[:, 3] > 0, 1, 0), Z * [1, 100, 1e4, 1e6]
    found = gw.suggest(None, X[:300], y[:300], X[300 : 300 + left], batch=1)
    assert np.mean(found.model.predict(X[1000:]) == y[1000:]) > 0.88


def test_nan_in_a_pool_is_said_to_be_in_its_own_row(rng):
    X = rng.normal(size=(5000, 3))
    y = (X[:60, 0] > 0).astype(int)
    for row in (4800, 4801, 7):
        bad = X.copy()
        bad[row, 2] = np.nan
        with pytest.raises(NotFinite, match=f"X_pool must be finite.* in row {row}, column 2"):
            gw.suggest(None, X[:60], y, bad)


@pytest.mark.parametrize("features", ["splines", "landmarks", "auto"])
def test_nan_at_prediction_is_counted_before_the_map(rng, features):
    X, y = ring(rng)
    fitted = gw.Logistic(C=1.0, features=features).fit(X[:50], y[:50], pool=X)
    X[3, 1] = np.nan
    with pytest.raises(NotFinite, match="got 1 NaN or infinite numbers, the first in row 3"):
        fitted.predict_proba(X)


def test_a_map_of_ones_own_may_read_texts_and_frames():
    texts = ["a good film", "a bad film", "good", "bad", "so good", "so bad"]
    fitted = gw.Logistic(features=TfidfVectorizer()).fit(texts, [1, 0, 1, 0, 1, 0])
    assert fitted.predict(["good good film", "bad"]).tolist() == [1, 0]
    frame = pd.DataFrame({"town": ["Rome", "Oslo"] * 3, "age": [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]})
    encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    fitted = gw.Logistic(features=encode).fit(frame, [0, 1] * 3)
    assert fitted.predict(frame).tolist() == [0, 1] * 3


def test_rows_that_are_all_equal_and_values_that_were_not_there_stay_finite():
    equal = Landmarks(tame=False).fit([[1.0, 2.0]]).transform([[3.0, 4.0]])
    assert np.abs(equal).max() < 10
    assert Components(2).fit(np.zeros((5, 3))).transform(np.zeros((2, 3))).shape == (2, 1)
    two = Linear(tame=True).fit([[0.0], [1.0], [0.0]])
    assert two.transform([[5000.0], [0.0], [1.0]]).ravel().tolist() == [2.0, 0.0, 1.0]


def test_the_path_goes_on_where_its_first_value_fails(rng):
    X, y = 1e6 * rng.normal(size=(20, 60)), rng.normal(size=20)
    assert np.isfinite(gw.Ridge(alpha="loo").fit(X, y).predict(X)).all()


def test_models_say_what_their_columns_are(rng):
    X, y = ring(rng)
    says = [
        gw.Logistic(features=map).fit(X[:50], y[:50], pool=X).says
        for map in (Landmarks(1), Components(1))
    ]
    assert "2 columns and 1 landmark," in says[0]
    assert "on 1 leading component of 2 columns," in says[1]
    assert gw.Ridge(alpha=0.1).fit(X, X[:, 0]).says.endswith("alpha = 0.1")


def test_predictions_of_many_rows_are_those_of_each_and_bad_ones_are_named(rng, monkeypatch):
    X, y = ring(rng)
    fitted = gw.Logistic(features="landmarks").fit(X[:50], y[:50], pool=X)
    whole = fitted.predict_proba(X)
    monkeypatch.setattr("goalward.models.fitted.MAPPED", 64)
    assert fitted.predict_proba(X) == pytest.approx(whole, abs=1e-12)
    X[300, 1] = np.nan
    with pytest.raises(NotFinite, match="row 300, column 1"):
        fitted.predict_proba(X)

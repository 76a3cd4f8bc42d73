import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import goalward as gw
from goalward.adapters import from_sklearn
from goalward.errors import (
    LooseFit,
    NotConverged,
    Separable,
    ShapeMismatch,
    UnknownLabel,
    Unsupported,
)
from goalward.testing import problem
from goalward.utility import FirstOrder, Retrain

TIGHT = {"tol": 1e-10, "max_iter": 20000}
ESTIMATORS = [
    LogisticRegression(C=0.5, **TIGHT),
    LogisticRegression(C=0.5, fit_intercept=False, **TIGHT),
    LogisticRegression(C=0.5, class_weight="balanced", **TIGHT),
    LogisticRegression(C=0.5, class_weight={0: 2.0, 1: 0.5}, **TIGHT),
    LogisticRegression(C=0.5, solver="newton-cholesky", **TIGHT),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_the_adapted_model_is_at_its_optimum_and_predicts_the_same(estimator, n_classes, weighted):
    """The gradient of *our* objective vanishes only if every convention is right."""
    task = problem(n_classes=n_classes)
    weights = np.linspace(0.2, 2, len(task.X)) if weighted else None
    estimator.fit(task.X, task.y, sample_weight=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = from_sklearn(estimator, task.X, task.y, sample_weight=weights)
    assert fitted.flatness() < 1e-6
    np.testing.assert_allclose(
        fitted.predict_proba(task.X_pool), estimator.predict_proba(task.X_pool), atol=1e-12
    )
    polished = from_sklearn(estimator, task.X, task.y, sample_weight=weights, polish=True)
    np.testing.assert_allclose(polished.params, fitted.params, atol=1e-5)


@pytest.mark.parametrize("scaling", [1.0, 5.0])
def test_liblinears_penalised_intercept_is_honoured(scaling):
    task = problem(n_classes=2)
    estimator = LogisticRegression(
        C=0.5, solver="liblinear", intercept_scaling=scaling, tol=1e-12, max_iter=100000
    ).fit(task.X, task.y)
    fitted = from_sklearn(estimator, task.X, task.y)
    assert fitted.flatness() < 1e-6
    assert fitted.penalty[-1] == pytest.approx(2.0 / (0.5 * scaling**2))


def test_utilities_predict_what_scikit_learn_does_when_refitted():
    task = problem(n_classes=2)
    estimator = LogisticRegression(C=0.5, **TIGHT).fit(task.X, task.y)
    fitted = from_sklearn(estimator, task.X, task.y)
    got = Retrain()(fitted, task.goal, task.X_pool[:3])

    def goal(model):
        return model.predict_log_proba(task.X_dev)[np.arange(25), task.y_dev].sum()

    for i, x in enumerate(task.X_pool[:3]):
        for k in (0, 1):
            again = LogisticRegression(C=0.5, **TIGHT)
            again.fit(np.vstack([task.X, x]), np.append(task.y, k))
            assert got[i, k] == pytest.approx(goal(again) - goal(estimator), abs=1e-6)


def test_a_pipeline_takes_raw_rows_everywhere():
    task = problem()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(**TIGHT)).fit(task.X, task.y)
    fitted = from_sklearn(pipeline, task.X, task.y)
    np.testing.assert_allclose(
        fitted.predict_proba(task.X_pool), pipeline.predict_proba(task.X_pool), atol=1e-12
    )
    scale = pipeline[0].transform
    inner = from_sklearn(pipeline[1], scale(task.X), task.y)
    np.testing.assert_allclose(
        FirstOrder()(fitted, task.goal, task.X_pool),
        FirstOrder()(inner, gw.goals.DevLoss(scale(task.X_dev), task.y_dev), scale(task.X_pool)),
        atol=1e-9,
    )


def test_texts_go_straight_in():
    texts = ["good film", "bad film", "good plot", "bad plot", "fine film", "awful plot"]
    y = ["pos", "neg"] * 3
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(**TIGHT)).fit(texts, y)
    fitted = from_sklearn(pipeline, texts, y)
    assert sp.issparse(fitted.labelled.X)
    goal = gw.goals.DevLoss(["good", "awful"], ["pos", "neg"])
    suggestion = gw.GoalOriented(goal).suggest(fitted, ["good awful", "plot", "fine"], batch=2)
    assert len(suggestion.rows) == 2


def test_a_loose_fit_is_said_and_polished_on_request():
    task = problem()
    loose = LogisticRegression(tol=1e-2).fit(task.X, task.y)
    with pytest.warns(LooseFit, match="pass polish=True"):
        fitted = from_sklearn(loose, task.X, task.y)
    assert fitted.gradient > 1e-6
    polished = from_sklearn(loose, task.X, task.y, polish=True)
    assert polished.gradient <= 1e-8
    np.testing.assert_allclose(polished.params, task.fitted.params, atol=1e-6)


def test_cross_validated_models_are_taken():
    task = problem(n_labelled=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        estimator = LogisticRegressionCV(Cs=[0.1, 1.0], cv=3, **TIGHT).fit(task.X, task.y)
        fitted = from_sklearn(estimator, task.X, task.y)
    assert fitted.C in (0.1, 1.0)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression(l1_ratio=1.0, solver="saga", tol=0.1), "L1 penalty"),
        (LogisticRegression(C=np.inf, max_iter=5000), "no penalty"),
        (OneVsRestClassifier(LogisticRegression()), r"several labels gw\.MultiLabel\(\)"),
        (SGDClassifier(), "loss='log_loss', got loss='hinge'"),
        (SGDClassifier(loss="log_loss"), "one-vs-rest.*Refit with LogisticRegression"),
        (SGDClassifier(loss="log_loss", penalty="elasticnet"), "Refit with penalty='l2'"),
        (SGDClassifier(loss="log_loss", penalty=None), "Refit with a small alpha"),
        (CalibratedClassifierCV(LogisticRegression(), cv=2), r"gw\.adapters\.from_classifier"),
        (GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2, refit=False), "refit=True"),
    ],
    ids=lambda value: value[:9] if isinstance(value, str) else None,
)
def test_what_cannot_be_represented_is_refused(estimator, message):
    task = problem(n_classes=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(task.X, task.y)
    with pytest.raises(Unsupported, match=message):
        from_sklearn(estimator, task.X, task.y)


def test_a_separable_set_that_looks_converged_is_refused_or_polished():
    """At C=1e6 scikit-learn stops at a relative gradient of 3e-5, an order off in the weights."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(20, 2)) - 5, rng.normal(size=(20, 2)) + 5])
    y = np.repeat([0, 1], 20)
    estimator = LogisticRegression(C=1e6, max_iter=10000).fit(X, y)
    with pytest.raises(NotConverged, match="far from its optimum"):
        from_sklearn(estimator, X, y)
    assert from_sklearn(estimator, X, y, polish=True).gradient < 1e-8
    estimator.set_params(C=1e9, tol=1e-14).fit(X, y)
    with pytest.raises(Separable, match="perfectly separable"):
        from_sklearn(estimator, X, y, polish=True)


def test_other_rows_than_it_was_fitted_to_are_refused():
    task = problem()
    estimator = LogisticRegression(**TIGHT).fit(task.X, task.y)
    with pytest.raises(ShapeMismatch, match="that the estimator was fitted to"):
        from_sklearn(estimator, task.X[:, :2], task.y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 0.5}])
def test_stochastic_gradients_have_the_optimum_of_a_logistic_regression(class_weight, weighted):
    """α counts per row: the sum over n rows has C = 1/(nα)."""
    task = problem(n_classes=2, n_labelled=60)
    weights = np.linspace(0.2, 2, 60) if weighted else None
    sgd = SGDClassifier(loss="log_loss", alpha=0.02, class_weight=class_weight, random_state=0)
    fitted = from_sklearn(
        sgd.fit(task.X, task.y, sample_weight=weights), task.X, task.y, weights, polish=True
    )
    by_class = np.ones(2)
    if class_weight == "balanced":
        by_class = 60 / (2 * np.bincount(task.y))
    elif class_weight:
        by_class = np.array([2.0, 0.5])
    same = LogisticRegression(C=1 / (60 * 0.02), **TIGHT)
    same.fit(task.X, task.y, sample_weight=by_class[task.y] * (1 if weights is None else weights))
    np.testing.assert_allclose(
        fitted.predict_proba(task.X_pool), same.predict_proba(task.X_pool), atol=1e-6
    )


def test_stochastic_gradients_are_ranked_as_refits_at_the_same_alpha_would():
    task, alpha = problem(n_classes=2, n_labelled=400), 1e-3
    sgd = SGDClassifier(loss="log_loss", alpha=alpha, random_state=0, average=True, max_iter=4000)
    fitted = from_sklearn(sgd.set_params(tol=None).fit(task.X, task.y), task.X, task.y, polish=True)
    # The unpolished one is at the same place, up to the noise of its steps.
    np.testing.assert_allclose(
        sgd.predict_proba(task.X_pool), fitted.predict_proba(task.X_pool), atol=0.01
    )
    got = FirstOrder(per_row_penalty=True)(fitted, task.goal, task.X_pool[:6])

    def goal(X, y):
        model = LogisticRegression(C=1 / (len(y) * alpha), **TIGHT).fit(X, y)
        return model.predict_log_proba(task.X_dev)[np.arange(25), task.y_dev].sum()

    before = goal(task.X, task.y)
    true = np.array(
        [
            [goal(np.vstack([task.X, x]), np.append(task.y, k)) - before for k in (0, 1)]
            for x in task.X_pool[:6]
        ]
    )
    # First order is off by the leverages, a few over n, and most where a row is far out.
    assert np.corrcoef(got.ravel(), true.ravel())[0, 1] > 0.99
    assert np.median(np.abs(got / true - 1)) < 0.1
    assert np.array_equal(
        FirstOrder()(fitted, task.goal, task.X_pool)[:, 0].argsort(),
        FirstOrder(per_row_penalty=True)(fitted, task.goal, task.X_pool)[:, 0].argsort(),
    )


def test_what_a_search_found_and_what_is_frozen_is_taken():
    task = problem(n_classes=2)
    plain = LogisticRegression(C=0.1, **TIGHT).fit(task.X, task.y)
    pipe = make_pipeline(StandardScaler(), LogisticRegression(**TIGHT))
    search = GridSearchCV(pipe, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(task.X, task.y)
    halving = GridSearchCV(plain, {"C": [0.1]}, cv=2).fit(task.X, task.y)
    for estimator in (search, halving, FrozenEstimator(plain), FrozenEstimator(search)):
        fitted = from_sklearn(estimator, task.X, task.y)
        np.testing.assert_allclose(
            fitted.predict_proba(task.X_pool), estimator.predict_proba(task.X_pool), atol=1e-9
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        cv = LogisticRegressionCV(Cs=[0.1, 1.0], cv=3, **TIGHT).fit(task.X, task.y)
    again = LogisticRegression(C=float(np.ravel(cv.C_)[0]), **TIGHT).fit(task.X, task.y)
    ours, theirs = (from_sklearn(e, task.X, task.y) for e in (cv, again))
    np.testing.assert_allclose(
        Retrain()(ours, task.goal, task.X_pool[:2]),
        Retrain()(theirs, task.goal, task.X_pool[:2]),
        atol=1e-6,
    )


def test_classes_without_a_label_are_named():
    task = problem(n_classes=3)
    some = task.y < 2
    X, y = task.X[some], task.y[some]
    own = gw.Logistic(C=0.5, classes=[0, 1, 2], penalize_intercept="until-seen")
    plain = from_sklearn(LogisticRegression(C=0.5).fit(X, y), X, y, classes=[0, 1, 2])
    assert plain.classes.tolist() == [0, 1, 2]
    np.testing.assert_allclose(plain.params, own.fit(X, y).params, atol=1e-8)
    scaler = StandardScaler().fit(X)
    pipe = make_pipeline(StandardScaler(), LogisticRegression(C=0.5)).fit(X, y)
    np.testing.assert_allclose(
        from_sklearn(pipe, X, y, classes=[0, 1, 2]).predict_proba(task.X_pool),
        own.fit(scaler.transform(X), y).predict_proba(scaler.transform(task.X_pool)),
        atol=1e-7,
    )
    heavy = LogisticRegression(C=0.5, class_weight={0: 2.0, 1: 0.5}).fit(X, y)
    fitted = from_sklearn(heavy, X, y, classes=[0, 1, 2])
    weighted = own.fit(X, y, sample_weight=np.array([2.0, 0.5])[y])
    np.testing.assert_allclose(fitted.params, weighted.params, atol=1e-8)
    assert fitted.class_weights.tolist() == [2.0, 0.5, 1.0]
    ours = gw.LogisticClassifier(C=0.5).fit(X, y)
    named = from_sklearn(ours, X, y, classes=[0, 1, 2])
    np.testing.assert_allclose(named.params, own.fit(X, y).params, atol=1e-8)
    # All seen, in another order: the estimator as it is.
    assert from_sklearn(ours, X, y, classes=[1, 0]).classes.tolist() == [0, 1]
    balanced = LogisticRegression(class_weight="balanced").fit(X, y)
    with pytest.raises(Unsupported, match=r"class_weight=\{...\}"):
        from_sklearn(balanced, X, y, classes=[0, 1, 2])
    with pytest.raises(UnknownLabel):
        from_sklearn(LogisticRegression().fit(X, y), X, y, classes=[0, 2])

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import goalward as gw
from goalward.adapters import from_sklearn
from goalward.errors import LooseFit, NotConverged, Separable, ShapeMismatch, Unsupported
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
        (OneVsRestClassifier(LogisticRegression()), "OneVsRestClassifier came"),
        (SGDClassifier(), "SGDClassifier came"),
    ],
    ids=["l1", "none", "ovr", "sgd"],
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

import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import goalward as gw


@parametrize_with_checks([gw.LogisticClassifier()])
def test_it_passes_scikit_learns_checks(estimator, check):
    check(estimator)


def test_it_lives_in_pipelines_and_model_selection():
    X, y = load_iris(return_X_y=True)
    scores = cross_val_score(make_pipeline(StandardScaler(), gw.LogisticClassifier()), X, y)
    assert scores.mean() > 0.93


def test_its_model_is_the_learners():
    X, y = load_iris(return_X_y=True)
    classifier = gw.LogisticClassifier(C=0.5).fit(X, y)
    fitted = gw.Logistic(C=0.5).fit(X, y)
    np.testing.assert_allclose(classifier.fitted_.params, fitted.params, atol=1e-10)
    np.testing.assert_allclose(
        X @ classifier.coef_.T + classifier.intercept_, fitted.logits(X), atol=1e-10
    )

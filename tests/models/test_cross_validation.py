import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import scale

import goalward as gw
from goalward.errors import BadInput, BadParameter
from goalward.models.logistic import cross_validate

GRID = [0.001, 0.01, 0.1, 1.0, 10.0]


def data():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[:200], y[:200]


def test_the_path_equals_cold_fits_fold_by_fold():
    X, y = data()
    chosen = cross_validate(gw.Logistic(Cs=GRID, cv=3), X, y)
    folds = StratifiedKFold(3, shuffle=True, random_state=0).split(X, y)
    for f, (train, held_out) in enumerate(folds):
        for c, C in enumerate(GRID):
            p = gw.Logistic(C).fit(X[train], y[train]).predict_proba(X[held_out])
            exact = np.log(p[np.arange(len(p)), y[held_out]]).mean()
            assert chosen.log_likelihood[f, c] == pytest.approx(exact, abs=1e-6)
    assert GRID[np.argmax(chosen.log_likelihood.mean(axis=0))] == chosen.C


def test_c_cv_fits_with_the_chosen_value():
    X, y = data()
    fitted = gw.Logistic("cv", Cs=GRID, cv=3).fit(X, y)
    assert fitted.C == cross_validate(gw.Logistic(Cs=GRID, cv=3), X, y).C
    np.testing.assert_allclose(fitted.params, gw.Logistic(fitted.C).fit(X, y).params, atol=1e-7)


def test_too_few_labels_and_bad_grids_are_refused():
    with pytest.raises(BadInput, match="a class of 1 label"):
        gw.Logistic("cv").fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    X, y = data()
    with pytest.raises(BadParameter, match="Cs="):
        gw.Logistic("cv", Cs=[0.0, 1.0]).fit(X, y)

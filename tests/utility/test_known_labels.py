"""Labels that are there: what dropping or changing one does is what retraining says."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import goalward as gw
from goalward.errors import BadInput, Unsupported
from goalward.testing import problem
from tests.conftest import need


def retrained(learner, X, y, goal):
    """Return the goal's change without each row and with each label, and what is said of it then."""
    whole = learner.fit(X, y)
    before = goal.value(whole)
    learner = gw.Logistic(C=learner.C, classes=list(whole.classes))
    drop, change, proba = [], [], []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        less = learner.fit(X[rest], y[rest])
        drop.append(goal.value(less) - before)
        proba.append(less.predict_proba(X[[i]])[0])
        other = [np.where(rest, y, label) for label in whole.classes]
        change.append([goal.value(learner.fit(X, labels)) - before for labels in other])
    return np.array(drop), np.array(change), np.array(proba)


@pytest.mark.parametrize(("n_classes", "C"), [(2, 0.1), (3, 0.1), (4, 1.0)])
def test_it_says_what_retraining_says(n_classes, C):
    task = problem(n_classes=n_classes, n_labelled=50)
    X, y, learner = np.asarray(task.X), np.asarray(task.y), gw.Logistic(C=C)
    found = gw.relabel(learner.fit(X, y), task.goal)
    drop, change, proba = retrained(learner, X, y, task.goal)
    assert spearmanr(found.drop, drop).statistic > 0.97
    assert spearmanr(found.change.ravel(), change.ravel()).statistic > 0.9
    assert np.abs(found.proba - proba).max() < 0.03
    assert np.polyfit(drop, found.drop, 1)[0] == pytest.approx(1.0, abs=0.15)
    own = found.change[np.arange(len(y)), np.searchsorted(task.fitted.classes, y)]
    assert np.abs(own).max() == 0.0


def test_the_error_falls_with_the_square_of_the_share_of_a_row():
    task = problem(n_classes=3, n_labelled=30)
    errors = []
    for copies in (2, 4, 8):
        X, y = np.tile(task.X, (copies, 1)), np.tile(task.y, copies)
        fitted = gw.Logistic(C=1.0 / copies).fit(X, y)
        found = gw.relabel(fitted, task.goal).drop[:5]
        before = task.goal.value(fitted)
        rest = [np.arange(len(y)) != i for i in range(5)]
        less = [gw.Logistic(C=1.0 / copies).fit(X[r], y[r]) for r in rest]
        truth = [task.goal.value(one) - before for one in less]
        errors.append(np.abs(found - truth).max())
    slopes = np.diff(np.log(errors)) / np.log(2)
    assert np.all(np.abs(slopes + 2.0) < 0.4)


def test_row_weights_count():
    task = problem(n_classes=2, n_labelled=40)
    X, y = np.asarray(task.X), np.asarray(task.y)
    twice = gw.Logistic().fit(np.concatenate([X, X[:1]]), np.append(y, y[0]))
    weights = np.where(np.arange(40) == 0, 2.0, 1.0)
    weighted = gw.Logistic().fit(X, y, sample_weight=weights)
    a, b = gw.relabel(twice, task.goal), gw.relabel(weighted, task.goal)
    np.testing.assert_allclose(a.change[1:40], b.change[1:], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(2.0 * a.change[0], b.change[0], rtol=1e-5, atol=1e-9)


def test_flipped_labels_are_found_as_well_as_by_folds():
    need("cleanlab")
    from cleanlab import rank

    X, true = load_digits(return_X_y=True)
    X, true, rng = X[:400] / 16, true[:400], np.random.default_rng(0)
    flipped = rng.random(400) < 0.1
    y = np.where(flipped, (true + rng.integers(1, 10, 400)) % 10, true)
    found = gw.relabel(gw.Logistic(C=0.1).fit(X, y))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = gw.LogisticClassifier(C=0.1)
    p = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    theirs = roc_auc_score(flipped, 1.0 - rank.get_label_quality_scores(y, p))
    ours = roc_auc_score(flipped, found.doubt)
    assert ours > 0.97
    assert ours > theirs - 0.005
    assert np.mean(found.label[flipped] == true[flipped]) > 0.8
    assert flipped[found.rows[:20]].mean() > 0.9


def test_what_it_cannot_do_it_says():
    learner = gw.Logistic(classes=[0, 1], penalize_intercept="until-seen")
    nothing = learner.fit(np.empty((0, 2)), [])
    with pytest.raises(BadInput, match="0 labelled rows"):
        gw.relabel(nothing)
    task = problem(n_classes=2, n_labelled=20)
    forest = RandomForestClassifier(5, random_state=0)
    fitted = gw.adapters.from_classifier(forest.fit(task.X, task.y), task.X, task.y)
    with pytest.raises(Unsupported):
        gw.relabel(fitted)

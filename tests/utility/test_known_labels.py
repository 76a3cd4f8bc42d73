"""Labels that are there: what dropping or changing one does is what retraining says."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import goalward as gw
from goalward.errors import BadInput, BadParameter, Unsupported
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


@pytest.mark.parametrize(("n_classes", "C"), [(2, 1.0), (3, 10.0), (4, 1.0)])
def test_the_steps_lead_to_the_retrained_model(n_classes, C):
    task = problem(n_classes=n_classes, n_labelled=40)
    X, y, learner = np.asarray(task.X), np.asarray(task.y), gw.Logistic(C=C)
    drop, change, _ = retrained(learner, X, y, task.goal)
    truth = np.column_stack([change, drop])
    errors = []
    for word in ("first-order", "implicit", "corrected", "corrected-3", "retrain"):
        found = gw.relabel(learner.fit(X, y), task.goal, word)
        errors.append(np.abs(np.column_stack([found.change, found.drop]) - truth).max())
    assert errors == sorted(errors, reverse=True)
    assert errors[3] < 0.05 * errors[0]
    assert errors[4] < 1e-6


def test_what_stalls_is_retrained_one_by_one():
    task = problem(n_classes=3, n_labelled=20)
    fitted = gw.Logistic(C=1.0).fit(task.X, task.y)
    few = gw.relabel(fitted, task.goal, gw.utility.Retrain(max_sweeps=1))
    many = gw.relabel(fitted, task.goal, gw.utility.Retrain())
    np.testing.assert_allclose(few.drop, many.drop, atol=1e-7)
    np.testing.assert_allclose(few.change, many.change, atol=1e-7)


def weighted(class_weight, X, y):
    model = LogisticRegression(C=0.1, class_weight=class_weight, tol=1e-10).fit(X, y)
    return gw.adapters.from_sklearn(model, X, y)


@pytest.mark.parametrize("word", ["first-order", "corrected-3", "retrain"])
def test_a_label_brings_the_weight_of_its_class(word):
    task = problem(n_classes=2, n_labelled=60)
    X, y = np.asarray(task.X), np.asarray(task.y)
    fitted = weighted({0: 3.0, 1: 1.0}, X, y)
    found = gw.relabel(fitted, task.goal, word)
    for i in range(5):
        other = np.where(np.arange(60) == i, 1 - y, y)
        truth = task.goal.value(weighted({0: 3.0, 1: 1.0}, X, other)) - task.goal.value(fitted)
        assert found.change[i, 1 - y[i]] == pytest.approx(
            truth, rel=0.5 if "first" in word else 1e-2
        )
    balanced = weighted("balanced", X, y)
    with pytest.raises(Unsupported, match="class_weight as a dict"):
        gw.relabel(balanced, task.goal, word)


def test_the_last_label_of_a_class_stays():
    X = np.array([[0.0], [0.1], [0.2], [1.0]])
    goal = gw.goals.DevLoss(X, [0, 0, 0, 1])
    for word in ("first-order", "corrected", "retrain"):
        found = gw.relabel(gw.Logistic(C=10.0).fit(X, [0, 0, 0, 1]), goal, word)
        assert found.drop[3] == found.change[3, 0] == -np.inf
        assert np.isfinite(found.drop[:3]).all()
        assert found.look[3] == 0.0


def test_one_queue_of_things_to_do():
    X, y = load_digits(return_X_y=True)
    X, flipped, learner = X / 16, np.arange(120) < 12, gw.Logistic(C=0.3)
    known, true, pool = X[:120], y[:120], X[500:600]
    said = np.where(flipped, (true + 3) % 10, true)
    goal = gw.goals.DevLoss(X[200:400], y[200:400])
    fitted = learner.fit(known, said)
    found = gw.relabel(fitted, goal, "corrected")
    believed = gw.labels.Expected(gw.labels.Predicted(found.temperature))
    strategy = gw.GoalOriented(goal, operator=believed, utility="corrected")
    queue = found.queue(strategy.suggest(fitted, pool, batch=20))
    gains = [step.gain for step in queue]
    assert gains == sorted(gains, reverse=True)
    assert {step.what for step in queue} == {"label", "look", "drop"}
    # Looked at again, the flipped ones come first, and set right they bring about what was said.
    looked = [step.row for step in queue if step.what == "look"][:12]
    assert np.mean(flipped[looked]) >= 0.8
    said[looked] = true[looked]
    brought = goal.value(learner.fit(known, said)) - goal.value(fitted)
    assert brought == pytest.approx(sum(found.look[looked]), rel=0.5)
    assert np.mean(found.mistaken[flipped]) > 5 * np.mean(found.mistaken[~flipped])
    assert np.mean(found.mistaken) == pytest.approx(0.1, abs=0.05)
    with pytest.raises(BadParameter, match=r"relabel\(fitted, goal\)"):
        gw.relabel(fitted).queue(strategy.suggest(fitted, pool, batch=2))


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


@pytest.mark.heavy
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
    with pytest.raises(BadInput, match="at least 2 labelled rows, got 0"):
        gw.relabel(nothing)
    task = problem(n_classes=2, n_labelled=20)
    forest = RandomForestClassifier(5, random_state=0)
    fitted = gw.adapters.from_classifier(forest.fit(task.X, task.y), task.X, task.y)
    with pytest.raises(Unsupported):
        gw.relabel(fitted)
    with pytest.raises(Unsupported, match="ImplicitStep"):
        gw.relabel(task.fitted, task.goal, "information")
    with pytest.raises(BadParameter, match="corrected-3"):
        gw.relabel(task.fitted, task.goal, "newton")

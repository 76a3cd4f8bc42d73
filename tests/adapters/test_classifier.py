"""Classifiers without curvature: exact utilities by refitting."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import goalward as gw
from goalward.adapters import from_classifier, from_sklearn
from goalward.errors import BadParameter, ShapeMismatch, Unsupported
from goalward.strategies import Among
from goalward.testing import check_strategy, problem
from goalward.utility import FirstOrder, ImplicitStep, Ladder, Retrain

CLASSIFIERS = [
    DecisionTreeClassifier(max_depth=3, random_state=0),
    RandomForestClassifier(5),
    KNeighborsClassifier(3),
    HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3),
]


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: type(e).__name__)
def test_utilities_are_what_refitting_by_hand_gives(estimator):
    task = problem()
    labels = np.array(["a", "b", "c"])
    fitted = from_classifier(estimator.fit(task.X, labels[task.y]), task.X, labels[task.y])
    goal = gw.goals.DevLoss(task.X_dev, labels[task.y_dev])
    got = Retrain()(fitted, goal, task.X_pool[:3])

    def value(X, y):
        model = clone(estimator)
        if "random_state" in model.get_params():
            model.set_params(random_state=0)
        p = 0.99 * model.fit(X, y).predict_proba(task.X_dev) + 0.01 / 3
        return np.log(p[np.arange(25), task.y_dev]).sum()

    before = value(task.X, task.y)
    for i, x in enumerate(task.X_pool[:3]):
        for k in range(3):
            after = value(np.vstack([task.X, x]), np.append(task.y, k))
            assert got[i, k] == pytest.approx(after - before, abs=1e-9)


def test_a_logistic_model_refitted_agrees_with_its_structure():
    task = problem()
    tight = LogisticRegression(tol=1e-12, max_iter=10000).fit(task.X, task.y)
    slow = from_classifier(tight, task.X, task.y, smoothing=1e-12)
    fast = from_sklearn(tight, task.X, task.y, polish=True)
    goal = task.goal
    want = Retrain()(fast, goal, task.X_pool[:4])
    np.testing.assert_allclose(Retrain()(slow, goal, task.X_pool[:4]), want, atol=1e-5)


def test_strategies_operators_and_batches_work_unchanged():
    task = problem(n_pool=12)
    pipeline = make_pipeline(StandardScaler(), KNeighborsClassifier(3)).fit(task.X, task.y)
    fitted = from_classifier(pipeline, task.X, task.y)
    for operator in (gw.labels.Expected(gw.labels.Predicted()), gw.labels.Spread()):
        strategy = gw.GoalOriented(task.goal, operator=operator, utility=Retrain())
        assert strategy.suggest(fitted, task.X_pool, batch=2).rows.shape == (2,)
    auto = gw.GoalOriented(task.goal, utility=Ladder(rows=3)).suggest(fitted, task.X_pool, 1)
    assert auto.solver.solver == "Retrain"
    pairs = Retrain().batch(fitted, task.goal, task.X_pool[None, :2])
    assert pairs.shape == (1, 9)
    for name in ("margin", "entropy", "core-set", "random"):
        assert len(gw.recipe(name).build().suggest(fitted, task.X_pool, batch=3).rows) == 3


def test_rows_believed_in_are_absorbed_as_weighted_labels():
    task = problem(n_pool=5)
    tree = DecisionTreeClassifier(max_depth=2).fit(task.X, task.y)
    fitted = from_classifier(tree, task.X, task.y)
    strategy = gw.GoalOriented(task.goal, utility=Retrain(), selection=gw.selection.Sequential())
    assert len(set(strategy.suggest(fitted, task.X_pool, batch=3).rows.tolist())) == 3
    knn = from_classifier(KNeighborsClassifier(3).fit(task.X, task.y), task.X, task.y)
    with pytest.raises(Unsupported, match="takes no sample_weight"):
        strategy.suggest(knn, task.X_pool, batch=3)
    bent = gw.selection.Sequential(update="curvature")
    with pytest.raises(Unsupported, match="with curvature"):
        gw.GoalOriented(task.goal, utility=Retrain(), selection=bent).suggest(
            knn, task.X_pool, batch=2
        )


def test_rows_drawn_pass_the_check_and_no_others_are_scored():
    check_strategy(Among(gw.strategies.Margin(), by="random", most=10))
    task = problem()
    inner = gw.GoalOriented(task.goal)
    drawn = Among(inner, by="random", most=10).suggest(task.fitted, task.X_pool, 4)
    assert np.isfinite(drawn.utility).sum() == 10
    whole = inner.suggest(task.fitted, task.X_pool, 4)
    some = np.isfinite(drawn.utility)
    np.testing.assert_allclose(drawn.utility[some], whole.utility[some])
    assert drawn.per_label.shape == (40, 3)
    other = Among(inner, by=gw.strategies.Random(1), most=10)
    assert not np.array_equal(some, np.isfinite(other.suggest(task.fitted, task.X_pool, 4).utility))
    with pytest.raises(BadParameter, match="most=0"):
        Among(inner, most=0)


def test_the_time_is_said_before_it_is_spent(caplog, monkeypatch):
    monkeypatch.setattr("goalward.utility.one_by_one.PATIENCE", 0.0)
    task = problem(n_pool=4)
    tree = DecisionTreeClassifier().fit(task.X, task.y)
    Retrain()(from_classifier(tree, task.X, task.y), task.goal, task.X_pool)
    assert "12 models at" in caplog.text
    assert "minutes" in caplog.text


def test_what_cannot_be_done_is_refused():
    task = problem()
    fitted = from_classifier(DecisionTreeClassifier().fit(task.X, task.y), task.X, task.y)
    with pytest.raises(Unsupported, match=r"utility=gw\.utility\.Retrain"):
        FirstOrder()(fitted, task.goal, task.X_pool)
    with pytest.raises(Unsupported, match="ImplicitStep"):
        ImplicitStep()(fitted, task.goal, task.X_pool)
    with pytest.raises(Unsupported, match="no predict_proba"):
        from_classifier(LinearSVC().fit(task.X, task.y), task.X, task.y)
    with pytest.raises(BadParameter, match="smoothing"):
        from_classifier(DecisionTreeClassifier().fit(task.X, task.y), task.X, task.y, smoothing=0.0)
    with pytest.raises(ShapeMismatch, match="labels"):
        from_classifier(DecisionTreeClassifier().fit(task.X, task.y), task.X, task.y[:5])


@pytest.mark.parametrize("state", [3, None, np.random.RandomState(5)], ids=str)
def test_predictions_are_the_users_own_and_refits_have_its_random_state(state):
    """A refit with another seed predicts otherwise: by up to 0.35 with a forest of ten trees."""
    task = problem()
    labels = np.array(["a", "b", "c"])
    options = {"class_weight": {"a": 1.0, "b": 2.0, "c": 0.5}, "random_state": state}
    forest = RandomForestClassifier(5, **options)
    own = clone(forest).fit(task.X, labels[task.y])
    frame = pd.DataFrame(task.X, columns=list("wxyz"))
    fitted = from_classifier(own, frame, labels[task.y])
    kept = own.predict_proba(task.X_pool)
    want = 0.99 * kept + 0.01 / 3
    np.testing.assert_allclose(fitted.predict_proba(task.X_pool), want, rtol=1e-12)
    goal = gw.goals.DevLoss(task.X_dev, labels[task.y_dev])
    scorer = Retrain().prepare(fitted, goal)
    np.testing.assert_allclose(scorer(task.X_pool[:1]).proba, want[:1], rtol=1e-12)
    again = fitted.polished().predict_proba(task.X_pool)
    if isinstance(state, int):
        np.testing.assert_array_equal(again, fitted.predict_proba(task.X_pool))
    # The same rows again bring nothing, whatever the state.
    np.testing.assert_array_equal(again, fitted.polished().polished().predict_proba(task.X_pool))
    np.testing.assert_array_equal(own.predict_proba(task.X_pool), kept)


def test_a_classifier_fitted_to_a_frame_is_asked_by_name():
    task = problem()
    frame = pd.DataFrame(task.X, columns=list("wxyz"))
    fitted = from_classifier(DecisionTreeClassifier().fit(frame, task.y), frame, task.y)
    pool = pd.DataFrame(task.X_pool, columns=list("wxyz"))
    assert fitted.predict_proba(pool).shape == (40, 3)
    with pytest.raises(ShapeMismatch, match="columns"):
        fitted.predict_proba(pool[list("zyxw")])

"""modAL, the real package. Its `teach` fails on current scikit-learn, so learners are made anew."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import goalward as gw
from goalward.errors import Empty, UnknownLabel
from goalward.testing import problem
from tests.conftest import need

need("modAL")

with warnings.catch_warnings():
    # It imports what its own dependencies have deprecated.
    warnings.simplefilter("ignore")
    from modAL.models import ActiveLearner


class Learner(ActiveLearner):
    """An ActiveLearner whose data are set past the check that current scikit-learn broke."""

    def __init__(self, estimator, query_strategy, X, y):
        super().__init__(estimator, query_strategy)
        self.X_training, self.y_training = X, y
        self.estimator.fit(X, y)


def test_a_modal_loop_asks_for_our_rows():
    task = problem(n_classes=3)
    query = gw.adapters.modal_query(task.goal, operator=gw.labels.Spread())
    X, y = task.X, task.y
    left = np.arange(len(task.X_pool))
    for _ in range(3):
        learner = Learner(LogisticRegression(), query, X, y)
        places, rows = learner.query(task.X_pool[left], n_instances=4)
        fitted = gw.Logistic(tol=1e-10).fit(X, y)
        ours = gw.GoalOriented(task.goal, operator=gw.labels.Spread())
        assert np.array_equal(places, ours.suggest(fitted, task.X_pool[left], batch=4).rows)
        np.testing.assert_array_equal(rows, task.X_pool[left[places]])
        X, y = np.vstack([X, rows]), np.append(y, task.y_pool[left[places]])
        left = np.delete(left, places)
    assert len(left) == 28


def test_texts_in_a_pipeline_and_a_forest_by_refitting():
    texts = np.array(["good film", "bad film", "fine cast", "dull plot", "good cast", "bad plot"])
    labels = np.array(["yes", "no", "yes", "no"])
    goal = gw.goals.DevLoss(np.array(["good plot", "dull film"]), ["yes", "no"])
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    learner = Learner(pipeline, gw.adapters.modal_query(goal), texts[:4], labels)
    assert learner.query(texts[4:], n_instances=1)[0].shape == (1,)
    forest = make_pipeline(TfidfVectorizer(), RandomForestClassifier(5, random_state=0))
    query = gw.adapters.modal_query(goal, utility=gw.utility.Retrain())
    assert Learner(forest, query, texts[:4], labels).query(texts[4:])[0].shape == (1,)


def test_a_learner_without_rows_is_refused():
    goal = problem().goal
    learner = ActiveLearner(LogisticRegression(), gw.adapters.modal_query(goal))
    with pytest.raises(Empty, match="X_training"):
        learner.query(np.zeros((3, 4)))


def test_truth_and_schedules_follow_the_rows_and_the_labels():
    """Position 0 of a pool that has shrunk is another row; and no round is told."""
    task = problem(n_classes=3)
    left = np.arange(7, 40)
    told = []

    def temperature(round):
        told.append(round)
        return 2.0

    annealed = gw.labels.Expected(gw.labels.Predicted(temperature))
    Learner(LogisticRegression(), gw.adapters.modal_query(task.goal, operator=annealed), task.X, task.y).query(
        task.X_pool
    )  # fmt: skip
    assert set(told) == {len(task.X)}
    oracle = gw.labels.Expected(gw.labels.Truth(task.y_pool))
    query = gw.adapters.modal_query(task.goal, operator=oracle)
    learner = Learner(LogisticRegression(), query, task.X, task.y)
    places, _ = learner.query(task.X_pool[left], n_instances=3, rows=left)
    u = gw.utility.FirstOrder()(gw.Logistic().fit(task.X, task.y), task.goal, task.X_pool[left])
    exact = u[np.arange(len(left)), task.y_pool[left]]
    assert places.tolist() == np.argsort(-exact)[:3].tolist()
    for size in (1, 2):
        assert learner.query(task.X_pool[left], n_instances=size, rows=left)[0].shape == (size,)
    with pytest.raises(UnknownLabel, match=r"'X_pool\[0\]'.*rows= their ids"):
        learner.query(task.X_pool[left], n_instances=3)

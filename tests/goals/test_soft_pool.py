import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import goalward as gw
from goalward.errors import BadInput, BadParameter, NotFinite, ShapeMismatch, VacuousUtility
from goalward.goals import DevLoss, SoftPool
from goalward.labels import LabelModel, Predicted, Truth, Uniform
from goalward.testing import problem

TASK = problem(n_labelled=60, n_pool=100)
BAYES = LabelModel(GaussianNB())


class Says:
    """A belief that answers what it is told."""

    def __init__(self, answer):
        self.answer = answer

    def prepare(self, fitted, round=0):
        return lambda candidates: self.answer(candidates, round)


def test_it_is_the_dev_loss_of_what_the_label_model_says():
    expected = GaussianNB().fit(TASK.X, TASK.y).predict_proba(TASK.X_pool)
    goal, dev = SoftPool(TASK.X_pool, BAYES), DevLoss(TASK.X_pool, expected)
    assert goal.value(TASK.fitted) == pytest.approx(dev.value(TASK.fitted), rel=1e-12)
    np.testing.assert_allclose(goal.gradient(TASK.fitted), dev.gradient(TASK.fitted), atol=1e-10)
    np.testing.assert_allclose(goal.for_round(TASK.fitted).y, expected, atol=1e-14)


def test_true_labels_make_the_dev_loss():
    goal, dev = SoftPool(TASK.X_pool, Truth(TASK.y_pool)), DevLoss(TASK.X_pool, TASK.y_pool)
    assert goal.value(TASK.fitted) == pytest.approx(dev.value(TASK.fitted), rel=1e-12)


def test_the_belief_is_settled_once_for_a_round():
    calls = []

    def answer(candidates, round):
        calls.append(round)
        return np.full_like(candidates.proba, 1 / 3)

    goal = SoftPool(TASK.X_pool, Says(answer))
    strategy = gw.GoalOriented(goal, selection=gw.selection.Sequential())
    strategy.suggest(TASK.fitted, TASK.X_pool, batch=4, round=7)
    assert calls == [7]


def test_the_models_own_prediction_is_vacuous():
    """Σ p log p_θ is largest at θ itself: the slope is 0 to rounding."""
    goal = SoftPool(TASK.X_pool, Predicted())
    with pytest.warns(VacuousUtility, match=r"slope is 0.*LabelModel"):
        settled = goal.for_round(TASK.fitted)
    assert np.abs(settled.gradient(TASK.fitted)).max() < 1e-12
    # Any other opinion has a slope, and does not warn.
    assert np.abs(SoftPool(TASK.X_pool, Uniform()).gradient(TASK.fitted)).max() > 1


def test_rows_go_through_the_models_pipeline():
    X, pool = 1000.0 * TASK.X, 1000.0 * TASK.X_pool
    pipe = make_pipeline(StandardScaler(), gw.LogisticClassifier())
    fitted = gw.adapters.from_sklearn(pipe.fit(X, TASK.y), X, TASK.y)
    goal = SoftPool(pool, LabelModel(KNeighborsClassifier(5)))
    expected = KNeighborsClassifier(5).fit(pipe[0].transform(X), TASK.y)
    np.testing.assert_allclose(
        goal.for_round(fitted).y, expected.predict_proba(pipe[0].transform(pool))
    )


def test_labels_of_the_belief_are_counted_and_believed_ones_are_not():
    assert SoftPool(TASK.X_pool, BAYES).labels_held == 0
    assert SoftPool(TASK.X_pool, BAYES).for_round(TASK.fitted).labels_held == 0
    more = LabelModel(GaussianNB(), X=TASK.X_dev, y=TASK.y_dev)
    assert SoftPool(TASK.X_pool, more).labels_held == 25


@pytest.mark.parametrize(
    ("belief", "error", "message"),
    [
        (GaussianNB(), BadParameter, r"must be one such as gw\.labels\.LabelModel\(estimator\)"),
        (Says(lambda c, _: c.proba[:, :2]), ShapeMismatch, r"shape \(100, 2\)"),
        (Says(lambda c, _: c.proba * np.nan), NotFinite, "NaN"),
        (Says(lambda c, _: 2 * c.proba), BadInput, "sums to 2"),
    ],
)
def test_bad_input_is_refused(belief, error, message):
    with pytest.raises(error, match=message):
        SoftPool(TASK.X_pool, belief).value(TASK.fitted)

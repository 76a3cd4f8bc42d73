import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier

import goalward as gw
from goalward.core.arrays import to_numpy
from goalward.core.rows import Candidates
from goalward.labels import (
    BestCase,
    Expected,
    ExpectedImprovement,
    Geometric,
    LabelModel,
    Predicted,
    ProbabilityOfImprovement,
    Spread,
    Truth,
    Uniform,
    UpperConfidence,
    WorstCase,
)
from goalward.testing import check_operator, problem
from goalward.utility import FirstOrder

TASK = problem()
MEANS = [
    Expected(),
    Expected(Predicted(2.0)),
    Expected(Predicted(Geometric(8.0, 2.0, rounds=5))),
    Expected(Truth(TASK.y_pool)),
    Expected(Truth(dict(enumerate(TASK.y_pool.tolist())))),
    Expected(LabelModel(KNeighborsClassifier(3))),
    WorstCase(),
    BestCase(),
]
OTHERS = [
    Spread(),
    Spread(Uniform()),
    UpperConfidence(kappa=2.0),
    ExpectedImprovement(),
    ProbabilityOfImprovement(Uniform()),
]


def scored():
    return FirstOrder()(TASK.fitted, TASK.goal, TASK.X_pool)


@pytest.mark.parametrize("operator", MEANS, ids=repr)
def test_means_lie_between_worst_and_best(operator):
    check_operator(operator)


@pytest.mark.parametrize("operator", OTHERS, ids=repr)
def test_other_operators_conform(operator):
    check_operator(operator, between=False)


def test_predicted_goes_from_the_likeliest_label_to_uniform():
    u, p = scored(), TASK.fitted.predict_proba(TASK.X_pool)

    def at(T):
        return Expected(Predicted(T))(u, TASK.fitted, TASK.X_pool)

    likeliest = u[np.arange(len(u)), p.argmax(axis=1)]
    np.testing.assert_allclose(at(0.0), likeliest)
    np.testing.assert_allclose(at(1e-4), likeliest, atol=1e-9)
    np.testing.assert_allclose(at(1e9), u.mean(axis=1), atol=1e-7)
    softened = p**0.5 / np.sum(p**0.5, axis=1, keepdims=True)
    np.testing.assert_allclose(at(2.0), np.sum(softened * u, axis=1), atol=1e-12)
    with pytest.raises(gw.errors.BadParameter, match="must be 0 or more"):
        at(-1.0)


def test_schedules_run_over_the_rounds():
    u = scored()
    operator = Expected(Predicted(Geometric(16.0, 2.0, rounds=3)))
    for round, T in ((0, 16.0), (1, 8.0), (2, 4.0), (3, 2.0), (9, 2.0)):
        np.testing.assert_allclose(
            operator(u, TASK.fitted, TASK.X_pool, round=round),
            Expected(Predicted(T))(u, TASK.fitted, TASK.X_pool),
            atol=1e-12,
        )
    with pytest.raises(gw.errors.BadParameter, match="rounds=0"):
        Geometric(1.0, 2.0, rounds=0)


def test_truth_stays_aligned_in_a_shrinking_pool():
    u = scored()
    rows = np.array([7, 3, 30])
    for labels in (TASK.y_pool, TASK.y_pool.tolist(), dict(enumerate(TASK.y_pool))):
        got = Expected(Truth(labels))(u[rows], TASK.fitted, TASK.X_pool[rows], rows=rows)
        np.testing.assert_array_equal(got, u[rows, TASK.y_pool[rows]])
    with pytest.raises(gw.errors.UnknownLabel, match="no label for row 99"):
        Expected(Truth(TASK.y_pool))(u[:1], TASK.fitted, TASK.X_pool[:1], rows=[99])


def test_spread_is_the_fisher_information_in_the_goals_direction():
    """To first order under the model: √(sᵀΛs), s the motion of the row's logits."""
    fitted = TASK.fitted
    v = -gw.solvers.Cholesky().prepare(fitted.hessian)(TASK.goal.gradient(fitted)).value
    s = fitted.model.jvp(TASK.X_pool, v)
    bent = fitted.loss.curvature(fitted.predict_proba(TASK.X_pool), s)
    np.testing.assert_allclose(
        Spread()(scored(), fitted, TASK.X_pool), np.sqrt(np.sum(s * bent, axis=1)), atol=1e-12
    )


def test_acquisition_functions_are_sums_over_labels():
    u, p = scored(), TASK.fitted.predict_proba(TASK.X_pool)
    call = lambda operator: operator(u, TASK.fitted, TASK.X_pool)
    np.testing.assert_allclose(
        call(ExpectedImprovement(threshold=0.1)), np.sum(p * np.maximum(u - 0.1, 0), axis=1)
    )
    np.testing.assert_allclose(
        call(ProbabilityOfImprovement(threshold=0.1)), np.sum(p * (u > 0.1), axis=1)
    )
    mean = np.sum(p * u, axis=1)
    deviation = np.sqrt(np.sum(p * (u - mean[:, None]) ** 2, axis=1))
    np.testing.assert_allclose(call(UpperConfidence(kappa=3.0)), mean + 3 * deviation, atol=1e-12)


def test_a_label_model_learns_from_labelled_and_dev_rows():
    estimator = LogisticRegression()
    belief = LabelModel(estimator, X=TASK.X_dev, y=TASK.y_dev)
    got = Expected(belief)(scored(), TASK.fitted, TASK.X_pool)
    p = (
        LogisticRegression()
        .fit(np.vstack([TASK.X, TASK.X_dev]), np.append(TASK.y, TASK.y_dev))
        .predict_proba(TASK.X_pool)
    )
    np.testing.assert_allclose(got, np.sum(p * scored(), axis=1), atol=1e-10)
    assert not hasattr(estimator, "coef_")
    with pytest.raises(gw.errors.Unsupported, match="no predict_proba"):
        Expected(LabelModel(RidgeClassifier()))(scored(), TASK.fitted, TASK.X_pool)


def test_a_label_model_that_lacks_a_class_gives_it_no_chance():
    with pytest.warns(gw.errors.UnseenClass):
        fitted = gw.Logistic(classes=[0, 1, 2, 3]).fit(TASK.X, TASK.y)
    believe = LabelModel(KNeighborsClassifier(3)).prepare(fitted)
    belief = believe(Candidates(np.arange(40), TASK.X_pool, np.empty((40, 4))))
    np.testing.assert_array_equal(belief[:, 3], 0.0)
    np.testing.assert_allclose(belief.sum(axis=1), 1.0)


def test_only_vacuous_scores_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for operator in MEANS + OTHERS:
            operator(scored(), TASK.fitted, TASK.X_pool)
        exact = gw.utility.Retrain()(TASK.fitted, TASK.goal, TASK.X_pool)
        Expected(Predicted())(exact, TASK.fitted, TASK.X_pool)
        Expected(Predicted())(scored()[:1], TASK.fitted, TASK.X_pool[:1])
    with pytest.warns(gw.errors.VacuousUtility, match=r"Use Spread\(Predicted\(\)\)"):
        Expected(Predicted())(scored(), TASK.fitted, TASK.X_pool)


@pytest.mark.parametrize("operator", MEANS + OTHERS, ids=repr)
def test_operators_run_on_every_array_library(operator, to_xp):
    fitted = TASK.learner.fit(to_xp(TASK.X), TASK.y)
    got = operator(to_xp(scored()), fitted, to_xp(TASK.X_pool))
    assert type(got) is type(to_xp(TASK.X))
    exact = operator(scored(), TASK.fitted, TASK.X_pool)
    np.testing.assert_allclose(to_numpy(got), exact, atol=1e-9)


def test_shapes_must_fit():
    with pytest.raises(gw.errors.ShapeMismatch, match=r"\(40, 3\), rows by answers"):
        WorstCase()(scored()[:5], TASK.fitted, TASK.X_pool)
    with pytest.raises(gw.errors.ShapeMismatch, match=r"must have 40 ids.*got 2"):
        WorstCase()(scored(), TASK.fitted, TASK.X_pool, rows=[1, 2])

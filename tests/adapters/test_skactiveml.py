"""scikit-activeml, the real package: its conventions, its loop, its strategies in our simulations."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import goalward as gw
from goalward.errors import UnknownLabel, UnseenClass, Unsupported
from goalward.testing import check_strategy, problem
from tests.conftest import need

need("skactiveml")
from skactiveml.base import SingleAnnotatorPoolQueryStrategy  # noqa: E402
from skactiveml.classifier import ParzenWindowClassifier, SklearnClassifier  # noqa: E402
from skactiveml.pool import (  # noqa: E402
    Badge,
    MonteCarloEER,
    ProbabilisticAL,
    RandomSampling,
    UncertaintySampling,
)
from skactiveml.utils import MISSING_LABEL, unlabeled_indices  # noqa: E402

GoalQuery = gw.adapters.skactiveml.GoalQuery
QueryStrategy = gw.adapters.skactiveml.QueryStrategy


@pytest.fixture
def task():
    task = problem(n_labelled=20)
    X = np.vstack([task.X, task.X_pool])
    y = np.concatenate([task.y.astype(float), np.full(40, MISSING_LABEL)])
    clf = SklearnClassifier(LogisticRegression(), classes=[0, 1, 2])
    return task, X, y, clf


def test_the_loop_of_its_readme_learns_from_no_label_at_all(task):
    problem_, _, _, clf = task
    X = np.vstack([problem_.X, problem_.X_pool])
    truth = np.concatenate([problem_.y, problem_.y_pool])
    y = np.full(len(X), MISSING_LABEL)
    strategy = GoalQuery(problem_.goal, operator=gw.labels.Spread(), random_state=0)
    asked = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fewer than two classes")
        for _ in range(8):
            indices = strategy.query(X=X, y=y, clf=clf, batch_size=3)
            y[indices] = truth[indices]
            asked += indices.tolist()
    assert len(set(asked)) == 24
    assert len(unlabeled_indices(y)) == len(X) - 24
    clf.fit(X, y)
    assert clf.score(problem_.X_dev, problem_.y_dev) > 0.5


def test_it_follows_the_conventions_of_a_strategy(task):
    problem_, X, y, clf = task
    assert issubclass(GoalQuery, SingleAnnotatorPoolQueryStrategy)
    names = list(inspect.signature(GoalQuery.__init__).parameters)
    assert names[-2:] == ["missing_label", "random_state"]
    parameters = inspect.signature(GoalQuery.query).parameters
    assert list(parameters)[1:4] == ["X", "y", "clf"]
    assert {n: parameters[n].default for n in ("candidates", "batch_size", "return_utilities")} == {
        "candidates": None,
        "batch_size": 1,
        "return_utilities": False,
    }
    strategy = GoalQuery(problem_.goal, random_state=1)
    again = clone(strategy)
    assert again.get_params()["random_state"] == 1
    before = X.copy(), y.copy()
    rows, utilities = strategy.query(X, y, clf, batch_size=4, return_utilities=True)
    assert utilities.shape == (4, len(X))
    assert np.all(np.isnan(utilities[:, :20]))
    for i, row in enumerate(rows):
        assert np.isnan(utilities[i + 1 :, row]).all()
        assert row == np.nanargmax(utilities[i])
    assert np.array_equal(rows, again.query(X, y, clf, batch_size=4))
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
    assert not hasattr(clf, "estimator_")


def test_candidates_are_indices_or_rows(task):
    problem_, X, y, clf = task
    strategy = GoalQuery(problem_.goal, random_state=0)
    rows, utilities = strategy.query(X, y, clf, candidates=[25, 30, 50], return_utilities=True)
    assert rows[0] in (25, 30, 50)
    assert np.isfinite(utilities[0]).sum() == 3
    given, utilities = strategy.query(X, y, clf, candidates=X[[25, 30, 50]], return_utilities=True)
    assert [25, 30, 50][given[0]] == rows[0]
    assert utilities.shape == (1, 3)
    with pytest.warns(UserWarning, match="larger than number of"):
        assert len(strategy.query(X, y, clf, candidates=[25, 30], batch_size=9)) == 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"clf": LogisticRegression()}, TypeError),
        ({"fit_clf": "yes"}, TypeError),
        ({"batch_size": 0}, ValueError),
        ({"batch_size": 1.5}, TypeError),
        ({"return_utilities": None}, TypeError),
        ({"candidates": [999]}, ValueError),
        ({"y": np.zeros(3)}, ValueError),
        ({"clf": SklearnClassifier(LogisticRegression(), missing_label=-1)}, ValueError),
    ],
    ids=repr,
)
def test_wrong_arguments_are_refused_as_it_refuses_them(task, change, error):
    problem_, X, y, clf = task
    with pytest.raises(error):
        GoalQuery(problem_.goal).query(**{"X": X, "y": y, "clf": clf} | change)
    with pytest.raises(TypeError):
        GoalQuery("dev").query(X, y, clf)


@pytest.mark.parametrize(
    ("goal", "options"),
    [
        (lambda task: task.goal, {}),
        (lambda task: task.goal, {"operator": gw.labels.Spread()}),
        (lambda task: gw.goals.DecisionRisk(task.X_pool), {}),
        (lambda task: gw.goals.DecisionRisk(task.X_pool), {"selection": gw.selection.Sequential()}),
        (lambda task: gw.goals.Epig(task.X_pool), {}),
    ],
)
def test_its_choice_is_ours(task, goal, options):
    problem_, X, y, clf = task
    goal = goal(problem_)
    rows = GoalQuery(goal, **options, random_state=0).query(X, y, clf, batch_size=5)
    fitted = gw.adapters.from_sklearn(
        LogisticRegression().fit(problem_.X, problem_.y), problem_.X, problem_.y, polish=True
    )
    ours = gw.GoalOriented(goal, **options).suggest(fitted, problem_.X_pool, batch=5).rows
    assert np.array_equal(rows - 20, ours)


def test_a_class_without_a_label_and_a_classifier_without_curvature(task):
    problem_, X, y, clf = task
    some = np.where(y == 2, MISSING_LABEL, y)
    rows = GoalQuery(problem_.goal, random_state=0).query(X, some, clf, batch_size=2)
    assert np.isnan(some[rows]).all()
    knn = SklearnClassifier(KNeighborsClassifier(3), classes=[0, 1, 2])
    refit = GoalQuery(problem_.goal, utility=gw.utility.Retrain(), random_state=0)
    assert refit.query(X, y, knn, candidates=np.arange(20, 26)).shape == (1,)
    with pytest.warns(UnseenClass, match="at random"):
        GoalQuery(problem_.goal).query(X, np.where(y == 0, 0, MISSING_LABEL), clf)
    with pytest.raises(Unsupported, match="SklearnClassifier around"):
        refit.query(X, y, ParzenWindowClassifier(classes=[0, 1, 2]))


@pytest.mark.parametrize(
    "inner",
    [
        RandomSampling(),
        UncertaintySampling(method="margin_sampling"),
        ProbabilisticAL(metric="rbf"),
        Badge(),
    ],
    ids=lambda inner: type(inner).__name__,
)
def test_its_strategies_pass_our_check(inner):
    check_strategy(QueryStrategy(inner))


def test_its_margin_sampling_is_ours():
    task = problem()
    theirs = QueryStrategy(UncertaintySampling(method="margin_sampling"))
    rows = theirs.suggest(task.fitted, task.X_pool, batch=5).rows
    assert np.array_equal(rows, gw.strategies.Margin().suggest(task.fitted, task.X_pool, 5).rows)


def test_its_strategies_are_baselines_in_simulations():
    strategies = {
        "ours": "dev/spread",
        "margin": "margin",
        "their margin": QueryStrategy(UncertaintySampling(method="margin_sampling")),
        "probabilistic": QueryStrategy(ProbabilisticAL(metric="rbf")),
    }
    curves = gw.bench.simulate(
        "wine", strategies, budget=10, batch=5, seeds=2, n_jobs=1, progress=False
    )
    _, ours = curves.curve("margin")
    _, theirs = curves.curve("their margin")
    np.testing.assert_allclose(theirs, ours)


def test_expected_error_reduction_refits_our_model():
    task = problem(n_labelled=12, n_pool=5)
    strategy = QueryStrategy(MonteCarloEER())
    assert strategy.suggest(task.fitted, task.X_pool, batch=1).rows.shape == (1,)


def test_truth_and_schedules_follow_the_rows_and_the_labels(task):
    problem_, X, y, clf = task
    truth = np.concatenate([problem_.y, problem_.y_pool])
    oracle = gw.labels.Expected(gw.labels.Truth(truth))
    fitted = gw.Logistic().fit(problem_.X, problem_.y)
    for candidates in (None, [25, 30, 50]):
        rows = np.arange(20, 60) if candidates is None else np.array(candidates)
        u = gw.utility.FirstOrder()(fitted, problem_.goal, X[rows])
        exact = u[np.arange(len(rows)), truth[rows]]
        asked = GoalQuery(problem_.goal, oracle).query(X, y, clf, candidates=candidates)
        assert asked == rows[exact.argmax()]
    with pytest.raises(UnknownLabel, match="indices in scikit-activeml"):
        GoalQuery(problem_.goal, oracle).query(X, y, clf, candidates=X[[25, 30]])
    told = []

    def temperature(round):
        told.append(round)
        return 2.0

    annealed = gw.labels.Expected(gw.labels.Predicted(temperature))
    GoalQuery(problem_.goal, annealed).query(X, y, clf)
    assert told == [20]

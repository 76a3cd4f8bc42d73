"""scikit-activeml, the real package: its conventions, its loop, its strategies in our simulations."""

import inspect
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import goalward as gw
from goalward.errors import BadParameter, ShapeMismatch, Unsupported
from goalward.testing import check_strategy, problem
from tests.conftest import need

need("skactiveml")
from skactiveml.base import SingleAnnotatorPoolQueryStrategy  # noqa: E402
from skactiveml.classifier import (  # noqa: E402
    MixtureModelClassifier,
    ParzenWindowClassifier,
    SklearnClassifier,
)
from skactiveml.exceptions import MappingError  # noqa: E402
from skactiveml.pool import (  # noqa: E402
    Badge,
    MonteCarloEER,
    ProbabilisticAL,
    RandomSampling,
    UncertaintySampling,
)
from skactiveml.utils import MISSING_LABEL, unlabeled_indices  # noqa: E402

from tests.adapters import skactiveml_cases as cases  # noqa: E402
from tests.adapters.skactiveml_cases import CASES  # noqa: E402

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


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("kind", [MixtureModelClassifier, ParzenWindowClassifier])
def test_rows_without_a_label_count_where_its_classifier_learns_from_them(task, kind, words):
    _, X, y, _ = task
    order, missing = np.random.default_rng(0).permutation(len(X)), np.nan
    X, y = X[order], y[order]
    if words:
        missing, known = "?", ~np.isnan(y)
        y = np.where(known, np.array(["a", "bb", "ccc"])[np.nan_to_num(y).astype(int)], missing)
    clf = kind(classes=np.unique(y[y != missing])[:3], missing_label=missing, random_state=0)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    for given in ({}, {"sample_weight": weights}):
        theirs = UncertaintySampling("margin_sampling", missing_label=missing, random_state=0)
        ours = GoalQuery(strategy="margin", missing_label=missing, random_state=0)
        wanted = theirs.query(X, y, clf, batch_size=6, **given)
        assert ours.query(X, y, clf, batch_size=6, **given).tolist() == wanted.tolist()


def test_refits_of_its_classifier_see_rows_without_a_label_too(task):
    """Expected gains by refitting, row by row, with the label set where the row stands."""
    problem_, X, y, _ = task
    clf = MixtureModelClassifier(classes=[0, 1, 2], random_state=0)
    query = GoalQuery(problem_.goal, utility="retrain", random_state=0)
    _, utility = query.query(X, y, clf, candidates=[25, 33], return_utilities=True)

    def loss(labels):
        p = clone(clf).fit(X, labels).predict_proba(problem_.X_dev)
        p = 0.99 * p + 0.01 / 3
        return -np.log(p[np.arange(len(p)), problem_.y_dev]).sum()

    for row in (25, 33):
        gains = []
        for label in range(3):
            told = y.copy()
            told[row] = label
            gains.append(loss(y) - loss(told))
        assert utility[0, row] == pytest.approx(np.mean(gains), rel=1e-9)


def test_a_class_without_a_label_and_a_classifier_without_curvature(task):
    problem_, X, y, clf = task
    some = np.where(y == 2, MISSING_LABEL, y)
    rows = GoalQuery(problem_.goal, random_state=0).query(X, some, clf, batch_size=2)
    assert np.isnan(some[rows]).all()
    refit = GoalQuery(problem_.goal, utility=gw.utility.Retrain(), random_state=0)
    for other in (
        SklearnClassifier(KNeighborsClassifier(3), classes=[0, 1, 2]),
        ParzenWindowClassifier(classes=[0, 1, 2]),
    ):
        assert refit.query(X, y, other, candidates=np.arange(20, 26)).shape == (1,)
        assert GoalQuery(random_state=0).query(X, y, other, batch_size=3).shape == (3,)
    with pytest.raises(Unsupported, match="has no derivative"):
        GoalQuery(problem_.goal).query(X, y, other)


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_every_goal_and_recipe_keeps_the_conventions(options):
    X, y = cases.X, cases.Y
    query = GoalQuery(**options(cases.CLASSES), random_state=np.random.RandomState(0))
    ask = partial(query.query, X, y, cases.clf(), return_utilities=True)
    rows, utilities = ask(batch_size=5)
    assert len(set(rows.tolist()) & set(range(4, 12))) == 5
    assert utilities.shape == (5, 12)
    assert np.array_equal(np.isnan(utilities[0]), ~np.isnan(y))
    again, same = ask(batch_size=5)
    assert again.tolist() == rows.tolist()
    np.testing.assert_array_equal(same, utilities)
    # The same candidates, as indices and as rows.
    free = np.arange(4, 12)
    indexed, by_index = ask(candidates=free, batch_size=5)
    as_rows, by_row = ask(candidates=X[free], batch_size=5)
    np.testing.assert_allclose(by_index[0], utilities[0])
    np.testing.assert_allclose(by_row[0], utilities[0, free])
    assert indexed.tolist() == free[as_rows].tolist() == rows.tolist()
    # No labels, one, and labels of one class.
    for few in (
        np.full(12, np.nan),
        np.where(np.arange(12) < 1, 0, np.nan),
        np.where(y == 1, np.nan, y),
    ):
        assert np.isnan(few[query.query(X, few, cases.clf(), batch_size=2)]).all()


@pytest.mark.parametrize(
    ("missing", "classes", "kind"),
    [
        (np.nan, [1.0, 2.0], float),
        (0, [1, 2], int),
        (None, [1, 2], object),
        (None, ["A", "B"], object),
        ("", ["A", "B"], str),
    ],
)
@pytest.mark.parametrize("strategy", ["recommended", "entropy/spread/implicit", "decision-risk"])
def test_labels_of_any_kind_give_the_same_rows(strategy, missing, classes, kind):
    y = np.full(12, missing, dtype=kind)
    y[:4] = [classes[0], classes[1]] * 2
    clf = cases.clf(classes=classes, missing_label=missing)
    query = GoalQuery(strategy=strategy, missing_label=missing, random_state=0)
    plain = GoalQuery(strategy=strategy, random_state=0).query(cases.X, cases.Y, cases.clf())
    assert query.query(cases.X, y, clf).tolist() == plain.tolist()


def test_pipelines_weights_and_classifiers_that_are_fitted(task):
    problem_, X, y, _ = task
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    clf = SklearnClassifier(pipe, classes=[0, 1, 2])
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(y))
    query = GoalQuery(problem_.goal, random_state=0)
    got = query.query(X, y, clf, sample_weight=weights, return_utilities=True)[1][0, 20:]
    own = clone(pipe).fit(problem_.X, problem_.y, logisticregression__sample_weight=weights[:20])
    fitted = gw.adapters.from_sklearn(own, problem_.X, problem_.y, weights[:20], polish=True)
    want = gw.GoalOriented(problem_.goal).suggest(fitted, problem_.X_pool).utility
    np.testing.assert_allclose(got, want)
    frozen = SklearnClassifier(LogisticRegression(C=0.1), classes=[0, 1, 2]).fit(X, y)
    margin = GoalQuery(strategy="margin").query(X, y, frozen, fit_clf=False, return_utilities=True)
    p = np.sort(frozen.predict_proba(X[20:]), axis=1)
    np.testing.assert_allclose(margin[1][0, 20:], p[:, -2] - p[:, -1], atol=1e-3)
    with pytest.raises(NotFittedError):
        query.query(X, y, clf, fit_clf=False)
    with pytest.raises(ShapeMismatch, match="sample_weight"):
        query.query(X, y, clf, sample_weight=weights[:-1])
    knn = SklearnClassifier(KNeighborsClassifier(), classes=[0, 1, 2])
    with pytest.raises(Unsupported, match="does not support sample_weight"):
        query.query(X, y, knn, sample_weight=weights)


def test_a_goal_or_a_strategy_not_both(task):
    problem_, X, y, clf = task
    for options in ({"goal": problem_.goal}, {"operator": "spread"}):
        with pytest.raises(BadParameter, match="needs a goal with its parts, or a strategy"):
            GoalQuery(**options, strategy="margin").query(X, y, clf)


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
    curves = gw.lab.simulate(
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
        assert (
            GoalQuery(problem_.goal, oracle).query(X, y, clf, candidates=X[rows]) == exact.argmax()
        )
    with pytest.raises(MappingError, match="indices in scikit-activeml"):
        GoalQuery(problem_.goal, oracle).query(X, y, clf, candidates=X[[25, 30]] + 1)
    twice = np.vstack([X, X[25:26]])
    with pytest.raises(MappingError):  # which of two equal rows it is, nobody knows
        GoalQuery(problem_.goal, oracle).query(
            twice, np.append(y, np.nan), clf, candidates=X[[25, 30]]
        )
    told = []

    def temperature(round):
        told.append(round)
        return 2.0

    annealed = gw.labels.Expected(gw.labels.Predicted(temperature))
    GoalQuery(problem_.goal, annealed).query(X, y, clf)
    assert told == [20]

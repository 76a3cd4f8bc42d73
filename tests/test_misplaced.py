"""Mistakes of a newcomer: an object in the wrong place is told what it is and where it goes."""

import jaxtyping
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import goalward as gw
from goalward.errors import GoalwardError
from goalward.testing import problem

TASK = problem()
FIT, GOAL, X, Y, POOL = TASK.fitted, TASK.goal, TASK.X, TASK.y, TASK.X_pool
UTILITIES = gw.utility.FirstOrder()(FIT, GOAL, POOL)
MARGIN, SPREAD, STEP = gw.strategies.Margin(), gw.labels.Spread(), gw.utility.ImplicitStep()


def part(**options):
    return lambda: gw.GoalOriented(GOAL, **options)


def ask(model=None, rows=X, labels=Y, pool=POOL, **options):
    return lambda: gw.suggest(model, rows, labels, pool, **options)


MISTAKES = {
    "a strategy as goal": (
        lambda: gw.GoalOriented(MARGIN),
        r"DevLoss\(X_dev, y_dev\), got .*a strategy: ",
    ),
    "a class as goal": (lambda: gw.GoalOriented(gw.goals.DevLoss), r"made by DevLoss\(\.\.\.\)"),
    "a model as goal": (lambda: gw.GoalOriented(FIT), "DevLoss.*a fitted model"),
    "rows as goal": (lambda: gw.GoalOriented(X), "goal must be like gw.goals.DevLoss.*got ndarray"),
    "a class as operator": (part(operator=gw.labels.Spread), r"made by Spread\(\.\.\.\)"),
    "a goal as operator": (part(operator=GOAL), "a goal, which goes into gw.GoalOriented"),
    "a belief as operator": (part(operator=gw.labels.Uniform()), r"gw\.labels\.Expected\(belief\)"),
    "a utility as operator": (part(operator=STEP), "utility= of gw.GoalOriented"),
    "a class as utility": (part(utility=gw.utility.FirstOrder), r"made by FirstOrder\(\.\.\.\)"),
    "an operator as utility": (part(utility=SPREAD), "operator= of gw.GoalOriented"),
    "a solver as utility": (part(utility=gw.solvers.Cholesky()), "solver= of a utility"),
    "a number as selection": (part(selection=10), r"gw\.selection\.Sequential\(\)"),
    "a strategy as selection": (part(selection=gw.strategies.Badge()), "a strategy: strategy.sugg"),
    "an operator as belief": (
        lambda: gw.labels.Spread(SPREAD)(UTILITIES, FIT, POOL),
        r"belief must be like gw\.labels\.Predicted\(\), got Spread, an operator",
    ),
    "a word as belief": (
        lambda: gw.labels.Expected("uniform")(UTILITIES, FIT, POOL),
        r"gw\.labels\.Predicted\(\)",
    ),
    "a utility as solver": (
        lambda: gw.utility.FirstOrder(solver=STEP)(FIT, GOAL, POOL),
        r"'auto' or gw\.solvers\.Cholesky\(\), got .*a utility",
    ),
    "a learner as model": (lambda: MARGIN.suggest(gw.Logistic(), POOL), r"learner\.fit\(X, y\)"),
    "a class as model": (lambda: MARGIN.suggest(gw.Logistic, POOL), r"by Logistic\(\.\.\.\)"),
    "rows as model": (lambda: MARGIN.suggest(POOL, FIT), "must be a Fitted, got ndarray"),
    "an estimator as model": (lambda: GOAL.value(LogisticRegression()), "from_sklearn"),
    "goal and pool exchanged": (
        lambda: STEP(FIT, POOL, GOAL),
        "goal must be like gw.goals.DevLoss.*got ndarray",
    ),
    "utilities and model exchanged": (
        lambda: SPREAD(FIT, UTILITIES, POOL),
        "must be a Fitted, got ndarray",
    ),
    "a strategy as classifier": (ask(MARGIN), "a strategy: .*strategy= of gw.suggest"),
    "a word as classifier": (ask("logistic"), "a classifier such as .*or None for ours"),
    "a scaler as classifier": (ask(StandardScaler()), "StandardScaler, which predicts nothing"),
    "a pipeline without one": (ask(make_pipeline(StandardScaler())), "which predicts nothing"),
    "a regressor as classifier": (ask(LinearRegression()), "the regressor LinearRegression"),
    "a fitted model with labels": (ask(FIT), "Pass None for X_labelled and y_labelled"),
    "a class as classifier": (ask(SVC), r"made by SVC\(\.\.\.\)"),
    "rows and labels exchanged": (ask(None, Y, X), "in each other's place"),
    "no pool": (ask(pool=None), "X_pool must be the rows to choose from, got None"),
    "a path as pool": (ask(pool="pool.csv"), r"gw\.scale\.open_pool\(path\)"),
    "a goal as strategy": (ask(strategy=GOAL), r"'recommended'.*gw\.GoalOriented\(goal\)"),
    "a strategy's class": (ask(strategy=gw.strategies.Margin), r"made by Margin\(\.\.\.\)"),
    "a goal in turn": (lambda: gw.strategies.InTurn((MARGIN, GOAL)), r"gw\.GoalOriented\(goal\)"),
    "a goal among": (lambda: gw.strategies.Among(GOAL), r"gw\.GoalOriented\(goal\)"),
    "a class later": (
        lambda: gw.strategies.Then(MARGIN, gw.strategies.Random, labels=9),
        r"made by Random\(\.\.\.\)",
    ),
    "a goal as recipe": (lambda: gw.recipe(GOAL), "must be like 'margin' or 'dev/spread'"),
    "a goal in a simulation": (
        lambda: gw.lab.simulate("wine", [GOAL]),
        r"gw\.GoalOriented\(goal\)",
    ),
    "a strategy to relabel by": (lambda: gw.relabel(FIT, MARGIN), "got Margin, a strategy"),
    "a model as rows": (
        lambda: gw.goals.Entropy(FIT).value(FIT),
        "X of Entropy must be rows by features, .*, got Fitted, a fitted",
    ),
    "nothing as rows": (
        lambda: gw.Logistic().fit(None, Y),
        "X must be rows by features, \\(n, d\\), got NoneType",
    ),
    "a class to adapt": (
        lambda: gw.adapters.from_sklearn(LogisticRegression, X, Y),
        r"made by LogisticRegression\(\.\.\.\)",
    ),
    "a class to refit": (lambda: gw.adapters.from_classifier(SVC, X, Y), r"made by SVC\(\.\.\.\)"),
    "a model to adapt": (lambda: gw.adapters.from_sklearn(FIT, X, Y), "a fitted model, which goes"),
}


@pytest.fixture(autouse=True)
def as_users_have_it():
    """Leave the mistakes to the library: types are checked in tests alone."""
    jaxtyping.config.update("jaxtyping_disable", True)


@pytest.mark.parametrize(("call", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_thing_in_the_wrong_place_is_told_where_it_goes(call, message):
    with pytest.raises(GoalwardError, match=f"(?s){message}"):
        call()


def test_a_study_is_not_its_model(tmp_path):
    study = gw.Study.create(tmp_path / "s.db", pool=POOL, classes=[0, 1, 2])
    for call in (
        ask(study),
        lambda: MARGIN.suggest(study, POOL),
        lambda: gw.relabel(study),
        lambda: gw.adapters.from_sklearn(study, X, Y),
        lambda: gw.Logistic().fit(study, Y),
        lambda: gw.Study.open(study),
    ):
        with pytest.raises(GoalwardError, match=r"whose model is study\.model"):
            call()


def test_words_stand_for_parts_of_schedules():
    words = gw.strategies.InTurn(("margin", "random"))
    assert words == gw.strategies.InTurn((MARGIN, gw.strategies.Random()))
    later = gw.strategies.Then("random", "margin", labels=9)
    assert later == gw.strategies.Then(gw.strategies.Random(), MARGIN, labels=9)
    assert gw.strategies.Among("core-set", by="margin").by == MARGIN
    assert np.array_equal(words.suggest(FIT, POOL, 3).rows, words.suggest(FIT, POOL, 3).rows)

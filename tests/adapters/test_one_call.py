"""One call: any classifier, any number of labels, the same rows as the long way."""

import pickle
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.validation import check_is_fitted

import goalward as gw
from goalward.errors import BadInput, BadParameter, NotFinite, UnknownLabel, Unsupported

X, y = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(y))
KNOWN, POOL = ORDER[:30], ORDER[30:]
TEXTS = ["a fine film", "dull plot", "great cast", "a bore", "moving", "a mess", "witty", "stale"]


def test_it_is_the_long_way_in_one_line():
    model = LogisticRegression(C=0.5)
    found = gw.suggest(model, X[KNOWN], y[KNOWN], X[POOL], batch=5, exclude=[3, 4])
    own = gw.adapters.from_sklearn(
        LogisticRegression(C=0.5).fit(X[KNOWN], y[KNOWN]), X[KNOWN], y[KNOWN], polish=True
    )
    long = gw.GoalOriented.recommended(X[POOL]).suggest(own, X[POOL], 5, [3, 4])
    assert found.rows.tolist() == long.rows.tolist()
    assert not {3, 4} & set(found.rows.tolist())
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(model)  # a clone was fitted, not the object


def test_a_fitted_object_is_left_as_it_was():
    model = LogisticRegression().fit(X[KNOWN][:20], y[KNOWN][:20])
    before = model.coef_.copy()
    gw.suggest(model, X[KNOWN], y[KNOWN], X[POOL])
    assert np.array_equal(model.coef_, before)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (None, "by leave-one-out, was fitted to 30 labels; rows by hedged: "),
        (
            gw.Logistic(C=2.0),
            "Softmax regression on 4 columns, C = 2 was fitted to 30 labels; rows by hedged: ",
        ),
        (make_pipeline(StandardScaler(), LogisticRegression()), "clone of LogisticRegression"),
        (
            GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
            "The best LogisticRegression",
        ),
        (
            RandomForestClassifier(10, random_state=0),
            "rows by coverage among 4000 by random, margin",
        ),
        (KNeighborsClassifier(), "coverage"),
        (CalibratedClassifierCV(LinearSVC(), cv=2), "clone of CalibratedClassifierCV"),
        (
            SGDClassifier(loss="log_loss", random_state=0),
            "SGDClassifier was fitted to 30 labels (The estimator must be multinomial, got one-vs-rest",
        ),
        (SGDClassifier(loss="modified_huber", random_state=0), "clone of SGDClassifier"),
        (SGDClassifier(random_state=0), "SGDClassifier gives no probabilities: a logistic reg"),
        (
            LogisticRegressionCV(Cs=[0.1, 1.0], cv=2),
            "clone of LogisticRegressionCV was fitted to 30 labels; rows by hedged: ",
        ),
        (
            GridSearchCV(
                make_pipeline(StandardScaler(), RandomForestClassifier(3)),
                {"randomforestclassifier__max_depth": [2, 3]},
                cv=2,
            ),
            "The best RandomForestClassifier was fitted to 30 labels; rows by coverage",
        ),
        (LinearSVC(), "LinearSVC gives no probabilities: a logistic regression of its features"),
        (
            make_pipeline(StandardScaler(), SVC()),
            "SVC gives no probabilities: a logistic regression of its features",
        ),
        (LogisticRegression(C=np.inf), "no penalty"),
        (
            StackingClassifier(
                [
                    ("trees", RandomForestClassifier(5, random_state=0)),
                    ("near", KNeighborsClassifier(3)),
                ],
                LogisticRegression(),
                cv=2,
            ),
            "clone of StackingClassifier was fitted to 30 labels",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::FutureWarning:sklearn")
def test_every_classifier_gets_rows_and_is_told_how(model, says):
    found = gw.suggest(model, X[KNOWN], y[KNOWN], X[POOL], batch=4)
    assert len(set(found.rows.tolist())) == 4
    assert says in found.says


def test_frozen_means_as_it_is():
    fitted = LogisticRegression(C=0.1).fit(X[KNOWN], y[KNOWN])
    found = gw.suggest(FrozenEstimator(fitted), X[KNOWN], y[KNOWN], X[POOL], strategy="margin")
    p = np.sort(fitted.predict_proba(X[POOL]), axis=1)
    assert found.rows[0] == np.argmin(p[:, -1] - p[:, -2])
    assert "frozen" in found.says
    assert "by hedged: " in gw.suggest(FrozenEstimator(fitted), X[KNOWN], y[KNOWN], X[POOL]).says
    # Fitted to other rows, it is asked what it predicts, and no more.
    other = LogisticRegression().fit(X[POOL][:40], y[POOL][:40])
    found = gw.suggest(FrozenEstimator(other), X[KNOWN], y[KNOWN], X[POOL])
    assert "far from its optimum" in found.says
    assert "rows by coverage" in found.says


def test_stochastic_gradients_of_two_classes_go_by_influence():
    two = KNOWN[y[KNOWN] > 0]
    sgd = SGDClassifier(loss="log_loss", alpha=0.01, random_state=0)
    found = gw.suggest(sgd, X[two], y[two], X[POOL], batch=5)
    same = LogisticRegression(C=1 / (0.01 * len(two)))
    assert found.rows.tolist() == gw.suggest(same, X[two], y[two], X[POOL], batch=5).rows.tolist()
    assert "rows by hedged: " in found.says


@pytest.mark.parametrize(
    "model", [None, LogisticRegression(), make_pipeline(StandardScaler(), SVC())]
)
@pytest.mark.parametrize("labels", [None, [], [0, 0, 0]])
def test_a_start_from_nothing_covers_the_pool(model, labels):
    rows = None if labels is None else X[y == 0][: len(labels)]
    found = gw.suggest(model, rows, labels, X[POOL], batch=6)
    assert "until two classes have labels" in found.says
    assert found.model is None, "a stand-in with classes that nobody named is no model"
    # All three species are among six rows that cover the flowers.
    assert set(y[POOL][found.rows].tolist()) == {0, 1, 2}


def test_classes_without_a_label_are_known_by_name():
    two = KNOWN[y[KNOWN] < 2]
    found = gw.suggest(LogisticRegression(), X[two], y[two], X[POOL], classes=[0, 1, 2])
    assert len(found.rows) == 10


def test_frames_sparse_rows_and_texts():
    plain = gw.suggest(None, X[KNOWN], y[KNOWN], X[POOL]).rows.tolist()
    frame = pl.DataFrame(X, schema=list("abcd"))
    assert gw.suggest(None, frame[KNOWN], y[KNOWN], frame[POOL]).rows.tolist() == plain
    sparse = gw.suggest(None, csr_matrix(X[KNOWN]), y[KNOWN], csr_matrix(X[POOL]))
    as_they_come = gw.suggest(gw.Logistic(C="loo"), X[KNOWN], y[KNOWN], X[POOL])
    assert sparse.rows.tolist() == as_they_come.rows.tolist()
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    found = gw.suggest(model, TEXTS[:2], ["good", "bad"], TEXTS[2:], batch=2)
    assert len(found.rows) == 2
    assert len(gw.suggest(model, None, None, TEXTS, batch=2).rows) == 2


def test_dev_labels_and_objects():
    dev = (X[POOL][:20], y[POOL][:20])
    said = gw.suggest(None, X[KNOWN], y[KNOWN], X[POOL], strategy="dev/spread/implicit", dev=dev)
    by_hand = gw.GoalOriented(gw.goals.DevLoss(*dev), operator="spread", utility="implicit")
    again = gw.suggest(None, X[KNOWN], y[KNOWN], X[POOL], strategy=by_hand)
    assert said.rows.tolist() == again.rows.tolist()
    assert "rows by GoalOriented: GoalOriented(" in again.says


def test_words_stand_for_objects():
    goal = gw.goals.Entropy(X[:10])
    words = gw.GoalOriented(goal, operator="min", utility="corrected", selection="sequential")
    assert words.operator == gw.labels.WorstCase()
    assert words.utility == gw.utility.ImplicitStep(corrections=1)
    assert words.selection == gw.selection.Sequential()
    for name in ("operator", "utility", "selection"):
        with pytest.raises(
            BadParameter, match=f"{name} must be an object or one of .*, got 'spraed'"
        ):
            gw.GoalOriented(goal, **{name: "spraed"})
    with pytest.raises(BadParameter, match=r"goal must be an object with its rows, .*, got 'dev'"):
        gw.GoalOriented("dev")


def test_predictions_alone_are_enough_for_some():
    forest = RandomForestClassifier(10, random_state=0).fit(X[KNOWN], y[KNOWN])
    p = np.sort(forest.predict_proba(X[POOL]), axis=1)
    found = gw.strategies.Margin().suggest(forest, X[POOL], batch=1)
    gaps = p[:, -1] - p[:, -2]
    assert gaps[found.rows[0]] == gaps.min()
    with pytest.raises(Unsupported, match=r"gw\.suggest\(model, X_labelled"):
        gw.GoalOriented.recommended(X[POOL]).suggest(forest, X[POOL], batch=1, round=0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: gw.suggest(LogisticRegression, X, y, X),
            BadParameter,
            "made by LogisticRegression(...)",
        ),
        (lambda: gw.suggest(None, X[:5], None, X), BadParameter, "labels without rows"),
        (
            lambda: gw.suggest(None, X, y, X, strategy="margn"),
            BadParameter,
            "known are badge, bait",
        ),
        (
            lambda: gw.suggest(None, X, y, X, strategy=3),
            BadParameter,
            "strategy must be like 'recommended'",
        ),
        (lambda: gw.suggest(None, TEXTS[:2], [0, 1], TEXTS), BadInput, "Pipeline"),
        (
            lambda: gw.suggest(LogisticRegression(), X[:3], ["a", None, "b"], X),
            NotFinite,
            "The label of row 1 is None",
        ),
        (lambda: gw.strategies.Margin().suggest(LinearSVC(), X), Unsupported, "gw.suggest"),
        (lambda: gw.suggest(None, X, y, X, strategy="dev/average"), BadParameter, "dev="),
    ],
)
def test_what_does_not_fit_is_told_the_way_out(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize("strategy", ["recommended", "margin", gw.strategies.Margin()])
@pytest.mark.parametrize("model", [None, RandomForestClassifier(3, random_state=0)])
def test_a_loop_over_a_pool_ends_without_an_exception(model, strategy):
    known, left, sizes = list(KNOWN[:8]), POOL[:13], []
    while True:
        found = gw.suggest(model, X[known], y[known], X[left], batch=5, strategy=strategy)
        if not len(found.rows):
            break
        sizes.append(len(found.rows))
        known, left = [*known, *left[found.rows]], np.delete(left, found.rows)
    assert sizes == [5, 5, 3]
    assert found.says.endswith("No row is left of 0.")
    assert found.utility.shape == (0,)


def test_what_chose_is_named_and_from_how_many_rows():
    def says(**given):
        return gw.suggest(None, X[KNOWN], y[KNOWN], X[POOL], **given).says.split(": ", 1)[1]

    n = len(POOL)
    assert says(batch=4, strategy="margin", exclude=[0]) == f"Margin chose 4 of {n - 1} rows."
    short = "Margin chose 3 of 3 rows, all that are left: 10 were asked for."
    assert says(strategy="margin", exclude=range(3, n)) == short
    part = says(batch=2, strategy="coverage among 20 by random")
    assert part == f"GoalOriented(Coverage) chose 2 of 20 rows out of {n}."
    turns = {says(batch=batch).split(" chose")[0] for batch in (30, 15, 10)}
    assert turns == {"GoalOriented(DecisionRisk)", "Margin", "GoalOriented(Coverage)"}


@pytest.mark.parametrize(
    "model", [None, gw.Logistic(), LogisticRegression(), RandomForestClassifier(3), LinearSVC()]
)
@pytest.mark.parametrize("classes", [[0], [0, 3]])
def test_labels_outside_the_named_classes_are_refused(model, classes):
    with pytest.raises(UnknownLabel, match=r"y_labelled must be among the classes 0.*, got [12]"):
        gw.suggest(model, X[KNOWN], y[KNOWN], X[POOL], classes=classes)


def test_our_learner_is_told_of_classes_without_a_label():
    given = (X[KNOWN], y[KNOWN], X[POOL])
    found = [
        gw.suggest(model, *given, classes=[0, 1, 2, 3]).rows
        for model in (None, gw.Logistic(C="loo", features="auto"))
    ]
    assert found[0].tolist() == found[1].tolist()


def test_the_model_before_two_classes_is_the_one_asked_for_or_none():
    one = X[:1], ["yes"], X
    assert gw.suggest(gw.Logistic(C=0.001), *one, classes=["yes", "no"]).model.C == 0.001
    assert gw.suggest(gw.Logistic(classes=["yes", "no"]), None, None, X).model.n_classes == 2
    assert gw.suggest(RandomForestClassifier(), *one, classes=["yes", "no"]).model is None


def test_guesses_made_of_other_columns_than_the_models_are_refused():
    guesses = np.where(np.arange(len(X)) % 7 == 0, 0, y)
    raw = gw.labels.Opinion.of(X, guesses)
    with pytest.raises(BadParameter, match="made of rows as they come"):
        gw.suggest(None, X[::5], y[::5], X, guesses=raw)
    linear = gw.Logistic().fit(X[::5], y[::5])
    assert callable(raw.prepare(linear))
    mapped = gw.Logistic(features="landmarks").fit(X[::5], y[::5], pool=X)
    with pytest.raises(BadParameter, match="on the features of the model"):
        raw.prepare(mapped)


def test_guesses_are_left_out_where_the_map_replaces_the_columns():
    latent = np.random.default_rng(0).normal(size=(300, 3))
    rows = latent @ np.random.default_rng(1).normal(size=(3, 60))
    right = (latent[:, 0] > 0).astype(int)
    model = gw.Logistic(C="loo", features=["linear", gw.models.features.Components(5)])
    found = gw.suggest(model, rows[:80], right[:80], rows, guesses=right)
    assert np.mean(found.model.predict(rows) == right) > 0.9


def test_an_empty_pool_with_guesses_is_empty():
    found = gw.suggest(None, X, y, X[:0], guesses=[])
    assert found.rows.tolist() == []


def test_a_suggestion_can_be_sent_to_another_process():
    found = gw.suggest(None, X[::5], y[::5], X, batch=3)
    sent = pickle.loads(pickle.dumps(found))
    assert sent.rows.tolist() == found.rows.tolist()
    assert sent.model.predict(X).tolist() == found.model.predict(X).tolist()
    assert sent.predicted().keys() == found.predicted().keys()


def test_labels_that_are_arrays_of_no_dimension_are_labels():
    # As torch gives them: equal ones have other hashes.
    tensors = [SimpleNamespace(item=lambda: 1, ndim=0) for _ in range(2)]
    found = gw.suggest(None, X[:2], tensors, X)
    assert "2 labels of fewer than two classes: too few to fit Logistic" in found.says


@pytest.mark.parametrize("model", [RandomForestClassifier(5), LinearSVC()], ids=repr)
@pytest.mark.parametrize("labels", [["a"] * 3, ["a", "b", "b"]])
def test_columns_of_any_scale_are_ranked_before_and_after_two_classes(model, labels):
    rows = np.random.default_rng(0).random((100, 2)) * [1e6, 1e-4]
    found = gw.suggest(model, rows[:3], labels, rows, batch=4, exclude=range(3))
    assert len(found.rows) == 4

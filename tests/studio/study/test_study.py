import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits

import goalward as gw
from goalward.errors import BadParameter, NotFinite, PoolChanged, PoolExhausted, UnknownLabel
from goalward.goals import Coverage
from goalward.studio.study import advice as study_advice
from goalward.studio.study import ranking
from goalward.studio.study import why as study_why
from goalward.studio.study.rounds import DEV_MINIMUM, StudyRound
from goalward.studio.study.state import State
from goalward.studio.tables import Table

X, y = load_digits(n_class=3, return_X_y=True)
X = X / 16


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def made(tmp_path, name="labels.db", **options):
    options = {"pool": X, "classes": [0, 1, 2], "dev": 0.0, **options}
    return gw.Study.create(tmp_path / name, **options)


def answered(study, rounds, batch=10):
    for _ in range(rounds):
        for row in study.ask(batch):
            study.tell(row, y[row])
    return study


def trained_on(rows):
    learner = gw.Logistic(classes=[0, 1], penalize_intercept=True)
    return learner.fit(X[rows], [0] * len(rows))


def test_the_first_questions_cover_the_pool_and_the_later_ones_are_ranked(tmp_path):
    study = made(tmp_path)
    first = study.ask(10)
    assert first == made(tmp_path, "b.db").ask(10)
    covered = Coverage(X, radius=0.5, uncertain=False).value
    at_random = made(tmp_path, "c.db", strategy="random").ask(10)
    assert covered(trained_on(first)) > covered(trained_on(at_random)) + 0.05
    for row in first:
        study.tell(row, y[row])
    second = study.ask(10)
    ranking = study.state.ranking
    assert ranking.recipe == "hedged"
    assert second == list(ranking.queue[:10])
    assert not set(first) & set(second)
    assert study.state.question(second[0]) == (ranking.utilities[0], study.state.rounds[0][0])


@pytest.mark.parametrize("pool", [X, X.astype(np.float32), scipy.sparse.csr_array(X)])
def test_a_reopened_study_is_the_one_that_was_closed(tmp_path, pool):
    study = answered(made(tmp_path, pool=pool, dev=0.2), 3)
    ahead = made(tmp_path, "b.db", pool=pool, dev=0.2)
    answered(ahead, 3)
    study.close()
    again = gw.Study.open(tmp_path / "labels.db")
    assert dict(again.state.labels) == dict(ahead.state.labels)
    assert again.ask(10) == ahead.ask(10)
    got, was = again.pool.X, pool
    assert got.dtype == was.dtype
    assert abs(got - was).max() == 0


def test_labels_bought_make_a_better_model_and_a_curve(tmp_path):
    study = answered(made(tmp_path, dev=0.25), 6)
    curve = study.curve()
    assert curve[-1]["metric"] == "dev"
    assert curve[-1]["recipe"] == "hedged"
    assert curve[-1]["accuracy"] > 0.9
    assert curve[-1]["dev_labels"] >= DEV_MINIMUM
    assert [line["labels"] for line in curve] == sorted(line["labels"] for line in curve)
    assert all(math.isfinite(line["gain"]) and line["gain"] > 0 for line in curve)


def test_a_share_of_the_answers_measures_and_never_trains(tmp_path):
    study = answered(made(tmp_path, dev=0.2), 6)
    state = study.state
    assert len(state.dev) == 12
    assert not set(state.dev) & set(state.training)
    assert not any(set(ranked.queue) & set(state.dev) for _, ranked in state.rounds)
    # Another model asks for other rows, and for the same dev rows.
    other = answered(made(tmp_path, "b.db", dev=0.2, strategy="entropy"), 6)
    assert set(other.state.dev) == set(state.dev)
    assert set(other.state.training) != set(state.training)


def test_undo_gives_the_row_back_and_tell_may_change_its_mind(tmp_path):
    study = made(tmp_path)
    first, second = study.ask(2, by="ann")
    study.tell(first, 0, by="ann")
    study.tell(second, 1, by="ann")
    study.tell(second, 2, by="ann")
    assert study.undo(by="ann") == second
    assert study.state.labels[second] == 1
    assert study.undo(by="ann") == second
    assert second not in study.state.labels
    assert study.ask(1, by="ann", resume=True) == [second]
    assert second not in study.ask(20, by="bo")
    assert study.undo(by="bo") is None


def test_a_row_comes_back_when_its_time_is_over_and_a_late_answer_counts_once(tmp_path):
    clock = Clock()
    study = made(tmp_path, pool=X[:4], lease=60, clock=clock)
    rows = study.ask(4, by="ann")
    with pytest.raises(PoolExhausted, match="4 pending"):
        study.ask(1, by="bo")
    assert study.ask(1, by="bo", at_most=True) == []
    clock.now += 61
    assert sorted(study.ask(4, by="bo")) == sorted(rows)
    study.tell(rows[0], 1, by="bo")
    study.tell(rows[0], 1, by="ann")
    assert study.state.labels == {rows[0]: 1}


def test_a_clock_that_jumps_back_neither_reorders_nor_locks(tmp_path):
    clock = Clock()
    study = made(tmp_path, pool=X[:4], clock=clock)
    rows = study.ask(4, by="ann")
    study.tell(0, 1, by="ann")
    clock.now -= 900
    study.tell(0, 2, by="bo")
    assert study.state.labels[0] == 2
    assert set(study.ask(3, by="bo")) == set(rows) - {0}


def test_annotators_who_disagree_are_both_kept(tmp_path):
    study = made(tmp_path, label="majority", answers=3)
    row = study.ask(1, by="ann")[0]
    study.tell(row, 0, by="ann")
    assert study.ask(1, by="bo") == [row]
    assert study.ask(1, by="cy") == [row]
    assert row not in study.ask(3, by="di")
    study.tell(row, 0, by="bo")
    study.tell(row, 2, by="cy")
    assert study.state.labels[row] == 0
    assert {by: s.label for by, s in study.state.standings[row].items()} == {
        "ann": 0,
        "bo": 0,
        "cy": 2,
    }
    assert study.status()["disagreements"] == 1


def test_a_class_is_added_by_name_only(tmp_path):
    study = made(tmp_path, classes=[0, 1])
    with pytest.raises(UnknownLabel, match="add_class"):
        study.tell(0, 2)
    with pytest.raises(UnknownLabel):
        study.tell(0, True)
    study.add_class(2)
    study.add_class(2)
    study.tell(0, 2)
    assert study.state.classes == (0, 1, 2)
    answered(study, 3)
    assert study.state.ranking.recipe == "hedged"


def test_why_says_what_each_label_does_and_to_whom(tmp_path):
    study = made(tmp_path, dev=0.3)
    row = study.ask(1)[0]
    with pytest.raises(BadParameter, match="no model yet"):
        study.why(row)
    answered(study, 5)
    row = study.ask(1)[0]
    why = study.why(row)
    assert sum(why.proba.values()) == pytest.approx(1.0)
    # The dev rows' changes add up to the utility: both are first order.
    state = study.state
    full = study_why.explain(StudyRound(state, study.pool), row, count=len(state.dev))
    for label in state.classes:
        effects = {e.row: e.change for e in (*full.helps[label], *full.hurts[label])}
        assert sum(effects.values()) / len(state.dev) == pytest.approx(why.utility[label], rel=1e-5)
    assert why.helps[0][0].change == max(e.change for e in full.helps[0])


def test_why_judges_the_first_label_of_the_last_class_by_the_model_that_follows(tmp_path):
    """That label frees the intercepts; dev rows and their sum against the study's own next fit."""
    # With one map: another one may be chosen once the label is there.
    study = made(tmp_path, dev=0.3, learner=gw.Logistic(C="loo"))
    is_dev = study.state.settings.is_dev(range(len(X)))
    study.tell_many([(i, y[i]) for i in range(80) if is_dev[i] or y[i] < 2])
    row = next(i for i in range(80) if not is_dev[i] and y[i] == 2)
    now = StudyRound(study.state, study.pool)
    dev = list(study.state.dev)
    why = study_why.explain(now, row, count=len(dev))
    effects = {e.row: e.change for e in (*why.helps[2], *why.hurts[2])}
    study.tell(row, 2)
    after = StudyRound(study.state, study.pool).fitted
    log_p = [np.log(model.predict_proba(X[dev])) for model in (now.fitted, after)]
    codes = list(study.state.dev.values())
    changes = (log_p[1] - log_p[0])[np.arange(len(dev)), codes]
    assert why.utility[2] == pytest.approx(changes.mean(), rel=1e-5)
    np.testing.assert_allclose([effects[r] for r in dev], changes, rtol=1e-4, atol=1e-8)


def test_it_says_stop_when_a_label_costs_more_than_it_brings(tmp_path):
    study = made(tmp_path, dev=0.3)
    assert not study.stop(1.0).stop
    answered(study, 12)
    assert study.stop(1.0).stop
    assert not study.stop(1e-12).stop
    assert study.stop().price == 0.0002
    assert study.stop().high > 0.0
    with pytest.raises(BadParameter, match="price"):
        study.stop(0)


def test_it_says_stop_when_nothing_is_left_or_the_budget_is_spent(tmp_path):
    study = made(tmp_path, pool=X[:30], dev=0.2)
    for row in study.ask(29):
        study.tell(row, y[row])
    study.skip(study.ask(1)[0])
    study.refresh()
    advice = study.stop(1e-12)
    assert advice.stop
    assert advice.left == 0
    assert "Nothing is left" in advice.reason
    early = answered(made(tmp_path, "b.db", dev=0.2), 3)
    assert early.stop(1e-12).left == len(X) - early.state.settings.is_dev(range(len(X))).sum() - 24
    assert not early.stop(1e-12, budget=31).stop
    assert early.stop(1e-12, budget=30).stop
    with pytest.raises(BadParameter, match="budget must be at least 1"):
        early.stop(1.0, budget=0)


def test_the_account_charges_every_answer(tmp_path):
    study = answered(made(tmp_path, dev=0.3, answers=2), 8)
    row = next(iter(study.state.labels))
    study.tell(row, y[row], by="bo")
    found = study.account(0.01)
    assert found["answers"] == 81
    assert found["labels"] == found["training"] + found["dev"] == 80
    assert found["spent"] == pytest.approx(0.81)
    assert study.account()["spent"] is None
    assert study.status()["answers"] == 81
    dev = [line for line in study.curve() if line["metric"] == "dev"][1:]
    assert found["gained"] == pytest.approx(sum(r["goal"] - r["goal_before"] for r in dev))


def test_stopping_rules_follow_the_rounds_and_are_not_known_in_old_ones(tmp_path, monkeypatch):
    study = answered(made(tmp_path, dev=0.3), 12)
    known = {one.name: one for one in study.stop(0.001).criteria}
    assert all(one.stop is not None for name, one in known.items() if name != "budget")
    last = study.state.rounds[-1][1]
    rows = np.sort(study.state.settings.random_order(len(X), "stop")[:1000])
    assert (
        last.stop_set["predicted"]
        == StudyRound(study.state, study.pool).fitted.predict(X[rows]).tolist()
    )
    old = [(n, replace(r, stop_set=None)) for n, r in study.state.rounds]
    with monkeypatch.context() as patched:
        patched.setattr(State, "rounds", old)
        advice = study_advice.stop(study.state, 0.001)
    said = {one.name: one.verdict for one in advice.criteria}
    assert said["stabilizing predictions"] == said["gain below price"] == "not known"
    assert [asdict(one) for one in study.criteria(price=0.001)] == [
        asdict(k) for k in known.values()
    ]


def test_what_cannot_be_stored_as_data_is_refused(tmp_path):
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(BadParameter, match="never as code"):
        made(tmp_path, learner=LogisticRegression())
    with pytest.raises(BadParameter, match="numbers and names"):
        made(tmp_path, learner=gw.Logistic(solver=gw.solvers.Dual()))
    goal = gw.goals.DevLoss(X[:5], y[:5])
    with pytest.raises(BadParameter, match="must be a recipe"):
        made(tmp_path, strategy=gw.GoalOriented(goal))
    with pytest.raises(BadParameter, match="true labels"):
        made(tmp_path, strategy="entropy/oracle")
    with pytest.raises(BadParameter, match="dev=0"):
        made(tmp_path, strategy="dev/spread")
    assert not list(tmp_path.iterdir())
    study = made(tmp_path, strategy=gw.strategies.Badge(), learner=gw.Logistic(C=0.5))
    assert study.state.settings.strategy == "badge"
    assert study.state.settings.learner["C"] == 0.5


@pytest.mark.parametrize(
    "options",
    [
        {"classes": ["a"]},
        {"classes": "ab"},
        {"classes": ["a", "a"]},
        {"classes": ["a", "\ud800"]},
        {"classes": [None, "a"]},
        {"dev": 1.5},
        {"label": "best"},
        {"answers": 0},
        {"lease": 0},
        {"refit": 0},
        {"seed": -1},
    ],
)
def test_bad_settings_are_refused_before_anything_is_made(tmp_path, options):
    with pytest.raises(BadParameter):
        made(tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_bad_calls_change_nothing(tmp_path):
    study = made(tmp_path)
    for call in (
        lambda: study.tell(-1, 0),
        lambda: study.tell(10**6, 0),
        lambda: study.tell(True, 0),
        lambda: study.tell("0", 0),
        lambda: study.tell(0, 0, by=""),
        lambda: study.tell(0, 0, by="x" * 201),
        lambda: study.note(0, "\ud800"),
        lambda: study.ask(0),
        lambda: study.ask(1.5),
        lambda: study.tell_many([(0, 0), (1, "nonsense")]),
    ):
        with pytest.raises(gw.errors.BadInput):
            call()
    assert study.state.seq == 1
    with pytest.raises(NotFinite):
        made(tmp_path, "b.db", pool=[[np.nan]])


def test_texts_are_stored_inside_and_shown(tmp_path):
    texts = [f"{'good' if i % 2 else 'bad'} film {i}" for i in range(40)]
    study = made(tmp_path, pool=texts, classes=["good", "bad"])
    for _ in range(2):
        for row in study.ask(10):
            study.tell(row, texts[row].split()[0])
    again = gw.Study.open(tmp_path / "labels.db")
    assert again.show(3)["text"] == "good film 3"
    assert again.ask(1)
    assert again.curve()[-1]["labels"] == 20 or again.refresh().labels == 20


def test_a_table_that_is_moved_is_found_and_one_that_changed_is_refused(tmp_path):
    table = tmp_path / "a" / "rows.csv"
    table.parent.mkdir()
    table.write_text("x,z\n" + "".join(f"{i},{i % 3}\n" for i in range(20)))
    study = gw.Study.create(table.with_name("labels.db"), pool=str(table), classes=["a", "b"])
    rows = study.ask(5)
    study.close()
    # Both moved together: found by where one lies from the other.
    moved = tmp_path / "b"
    (tmp_path / "a").rename(moved)
    again = gw.Study.open(moved / "labels.db")
    assert again.show(rows[0])["columns"] == {"x": str(rows[0]), "z": str(rows[0] % 3)}
    again.close()
    (moved / "rows.csv").rename(tmp_path / "elsewhere.csv")
    with (
        gw.Study.open(moved / "labels.db") as lost,
        pytest.raises(PoolChanged, match="where it is"),
    ):
        lost.show(0)
    gw.Study.open(moved / "labels.db", pool=Table(tmp_path / "elsewhere.csv")).close()
    with (tmp_path / "elsewhere.csv").open("a") as file:
        file.write("99,0\n")
    with pytest.raises(PoolChanged, match="SHA-256"):
        gw.Study.open(moved / "labels.db", pool=tmp_path / "elsewhere.csv")


@pytest.mark.parametrize("strategy", ["auto", "decision-risk", "coverage"])
def test_large_studies_pick_no_more_with_care_than_are_answered(tmp_path, monkeypatch, strategy):
    study = answered(made(tmp_path, strategy=strategy, refit=7), 2)
    now = StudyRound(study.state, study.pool)
    assert ranking._strategy(now)[1] == ranking.HEAD
    monkeypatch.setattr(ranking, "LARGE", 0)
    assert ranking._strategy(now)[1] == 7


def test_many_classes_take_conjugate_gradients_to_the_same_rows(tmp_path, monkeypatch):
    study = answered(made(tmp_path, dev=0.2, strategy="decision-risk"), 6)
    before = study.refresh(force=True)
    monkeypatch.setattr("goalward.studio.study.ranking.LARGE", 0)
    after = study.refresh(force=True)
    assert after.accuracy == before.accuracy
    assert after.log_loss == pytest.approx(before.log_loss, rel=1e-6)
    assert after.queue[0] == before.queue[0]
    assert after.gain == pytest.approx(before.gain, rel=1e-4)


def test_an_answer_and_the_next_rows_in_one_transaction(tmp_path):
    with gw.Study.create(tmp_path / "a.db", pool=np.eye(8), classes=["a", "b"]) as study:
        first = study.ask(3, by="ann")
        before = study.state.seq
        seq, rows = study.tell_and_ask(first[0], "a", 3, by="ann")
        assert (seq, study.state.seq) == (before + 1, before + 2)
        assert rows[:2] == first[1:]
        assert len(set(rows) | set(first)) == 4
        # The same again changes nothing.
        assert study.tell_and_ask(first[0], "a", 3, by="ann") == (seq, rows)
        assert study.state.seq == before + 2
        with pytest.raises(gw.errors.UnknownLabel):
            study.tell_and_ask(rows[0], "c", 3, by="ann")
        assert rows[0] not in study.state.labels


def test_a_ranking_says_what_it_was_made_with(tmp_path):
    with gw.Study.create(tmp_path / "labels.db", pool=np.eye(6), classes=["a", "b"]) as study:
        for row in study.ask(4):
            study.tell(row, "ab"[row % 2])
        made = study.refresh().made
    assert set(made) == {"features", "C", "strategy"}
    with gw.Study.open(tmp_path / "labels.db") as study:
        assert study.state.ranking.made == made
        assert made["C"] == study.state.ranking.C
        assert made["features"]["map"]["kind"] == "Linear"
        assert made["features"]["digest"] == study.state.ranking.features
        assert made["strategy"]["recipe"] == study.state.ranking.recipe

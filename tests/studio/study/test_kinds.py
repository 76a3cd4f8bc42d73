"""Studies of several labels and of numbers: from the first answer to a prediction."""

import json
import re

import numpy as np
import polars as pl
import pytest

import goalward as gw
from goalward.errors import BadParameter, UnknownLabel, Unsupported
from goalward.strategies.recipes import RECOMMENDED_FOR
from goalward.studio.study import several_labels

NAMES = ["urgent", "billing", "praise"]
X = np.random.default_rng(0).normal(size=(160, 4))
WEIGHTS = np.random.default_rng(1).normal(size=(4, 3))
TABLE = X @ WEIGHTS > 0.3
PRICE = X @ WEIGHTS[:, 0] + 5.0


def holding(row):
    return {name for name, holds in zip(NAMES, TABLE[row], strict=True) if holds}


def labels(place, **options):
    return gw.Study.create(place, pool=X, classes=NAMES, learner=gw.MultiLabel(C=10.0), **options)


def numbers(place, **options):
    return gw.Study.create(place, pool=X, classes=["price"], learner=gw.Ridge(0.1), **options)


def answered(study, say, n=40):
    for _ in range(n):
        (row,) = study.ask()
        study.tell(row, say(row), by="ann")
    study.refresh()
    return study


def test_new_studies_of_labels_take_what_is_recommended_now_and_others_keep_theirs(
    tmp_path, monkeypatch
):
    with monkeypatch.context() as earlier:
        earlier.setattr(several_labels.SeveralLabels, "auto", "decision-risk")
        answered(labels(tmp_path / "old.db"), holding, 12).close()
    with gw.Study.open(tmp_path / "old.db") as study:
        assert study.refresh(force=True).recipe == "decision-risk"
    recommended = RECOMMENDED_FOR["labels"]
    with answered(labels(tmp_path / "new.db"), holding, 12) as study:
        assert study.refresh(force=True).recipe == recommended
    fitted = gw.MultiLabel().fit(X[:20], TABLE[:20])
    ours = [gw.GoalOriented.recommended(X, kind="labels"), gw.recipe(recommended).build(pool=X)]
    first, second = (one.suggest(fitted, X[20:], 5).rows for one in ours)
    np.testing.assert_array_equal(first, second)


def test_several_labels_from_the_first_answer_to_a_prediction(tmp_path):
    place = tmp_path / "labels.db"
    with answered(labels(place, dev=0.25), holding) as study:
        (row,) = study.ask()
        study.tell(row, {"urgent": True, "billing": None})
        status, last = study.status(), study.curve()[-1]
        assert study.state.labels[row] == (True, None, None)
        assert [one["label"] for one in status["classes"]] == NAMES
        assert status["classes"][0]["labels"] == 1 + sum(
            said[0] for r, said in study.state.labels.items() if r != row
        )
        good = status["accuracy"]
        assert good["low"] < good["value"] == status["ranking"]["score"] < good["high"]
        assert good["right"][1] < good["right"][0] < good["right"][2]
        assert re.match(r"About 9\d % of yes and no right \(\d+ to \d+ %\), macro", good["says"])
        assert status["headline"].startswith(good["says"])
        assert status["ranking"]["score"] > 0.6
        assert last["accuracy"] is None
        assert last["measure"] == "macro-F1"
        said = study.predict()
        assert np.mean(said.labels == TABLE) > 0.85
        assert said.probabilities.shape == TABLE.shape
        loaded = gw.load_model(study.save_model(tmp_path / "model"))
        assert (loaded.predict(X) == said.labels).all()
        assert loaded.kind == "labels"
        before, lines = dict(study.state.labels), tmp_path / "labels.csv"
        study.export(lines)
        study.write_predictions(tmp_path / "all.csv")
    with gw.Study.open(place) as study:
        assert study.state.labels == before
        assert study.undo() == row
        assert row not in study.state.labels
    table = pl.read_csv(lines)
    assert table.columns[:5] == ["row", *NAMES, "role"]
    assert table.filter(pl.col("row") == row).row(0)[1:4] == ("yes", None, None)
    everything = pl.read_csv(tmp_path / "all.csv")
    assert everything.filter(pl.col("row") == row)["urgent"].item() == "yes"
    assert set(everything["billing"]) == {"yes", "no"}, "what was left out is the model's"
    with labels(tmp_path / "other.db") as other:
        assert str(other.import_labels(lines)) == f"{len(before)} taken, 0 known already, 0 refused"
        assert other.state.labels == before


def test_numbers_from_the_first_answer_to_a_prediction(tmp_path):
    place = tmp_path / "numbers.db"
    with answered(numbers(place, dev=0.25), lambda row: PRICE[row]) as study:
        status, before = study.status(), dict(study.state.labels)
        good = status["accuracy"]
        assert good["low"] < good["value"] == status["ranking"]["score"] < good["high"]
        true = np.sqrt(np.mean((study._now().fitted.predict(X) - PRICE) ** 2))
        assert good["error"][1] < true < good["error"][2]
        assert re.match(r"R² about 1\.00 \(0\.\d+ to 1\.00\), typically off by", good["says"])
        assert status["headline"].startswith(good["says"])
        assert status["ranking"]["score"] > 0.9
        assert status["classes"] == [{"label": "price", "labels": 40}]
        assert np.abs(study.predict().labels - PRICE).max() < 0.5
        loaded = gw.load_model(study.save_model(tmp_path / "model"))
        assert loaded.predict(X) == pytest.approx(study.predict().labels)
        with pytest.raises(Unsupported, match="predict"):
            loaded.predict_proba(X)
        lines = tmp_path / "numbers.csv"
        study.export(lines)
        study.write_predictions(tmp_path / "all.csv")
        row = next(iter(before))
        study.tell(row, 99, by="ann")
        assert study.state.labels[row] == 99.0
        assert study.undo(by="ann") == row
        assert study.state.labels == before
    everything = pl.read_csv(tmp_path / "all.csv")
    assert everything["price"][row] == before[row]
    assert everything["answered"].sum() == 40
    with numbers(tmp_path / "other.db") as other:
        other.import_labels(lines)
        assert other.state.labels == before
        lines.write_text("row,price\n0,dear\n1,\n2,3.5\n")
        told = other.import_labels(lines, by="bob")
        assert [reason for _, reason in told.refused] == [
            "'dear' is not a finite number",
            "no number",
        ]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("urgent", BadParameter),
        ({"late"}, UnknownLabel),
        ({"urgent": 1}, BadParameter),
        ({}, BadParameter),
    ],
)
def test_what_is_no_set_of_labels_is_refused(tmp_path, answer, error):
    with labels(tmp_path / "labels.db") as study:
        with pytest.raises(error):
            study.tell(0, answer)
        assert not study.state.labels


@pytest.mark.parametrize(
    "answer", ["3", True, float("nan"), float("inf"), {"price": 3}, [3.0], 10**400]
)
def test_what_is_no_number_is_refused(tmp_path, answer):
    study = numbers(tmp_path / "numbers.db")
    with study, pytest.raises(BadParameter, match="finite number"):
        study.tell(0, answer)


def test_what_is_not_there_for_a_kind_is_refused(tmp_path):
    place = tmp_path / "z.db"
    for options in ({"label": "majority"}, {"guesses": ["urgent"] * 160}):
        with pytest.raises(Unsupported, match="not available"):
            labels(place, **options)
    with pytest.raises(Unsupported, match="Margin"):
        numbers(place, strategy="margin")
    for names in (["a", "b"], [], [3]):
        with pytest.raises(BadParameter, match="one number"):
            gw.Study.create(place, pool=X, classes=names, learner=gw.Ridge())
    assert not place.exists()
    study = answered(labels(place), holding, 12)
    with study, pytest.raises(Unsupported, match="got one of labels"):
        study.queue()


def played(study, say, n, step=10):
    for _ in range(n // step):
        for row in study.ask(step, refresh=False):
            study.tell(row, say(row), by="ann")
        study.refresh()
    return study


@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_a_study_says_when_to_stop(tmp_path, kind):
    make, say = (labels, holding) if kind == "labels" else (numbers, lambda row: PRICE[row])
    with played(make(tmp_path / "study.db", dev=0), say, 20) as study:
        words = (
            "5 yes and as many no to each label" if kind == "labels" else "30 answers come first"
        )
        assert words in study.stop().reason
        assert not study.stop().stop
        assert "Keep going" in study.status()["headline"]
        played(study, say, 120)
        advice = study.stop()
        assert advice.stop
        assert 0.0 < advice.high < 0.02
        measure = "macro-F1" if kind == "labels" else "R²"
        assert f"of {measure}; your" in advice.reason
        assert "threshold is 0.02: stop." in advice.reason
        assert (
            f"You could stop: the {advice.left} rows left would bring less than 0.02 of {measure}."
            in (study.status()["headline"])
        )
        assert not study.stop(price=1e-9).stop
        rules = {rule.name: rule for rule in advice.criteria}
        assert ("stabilizing predictions" in rules) == (kind == "labels")
        assert rules["gain below price"].value == advice.high
        before = study.stop()
    with gw.Study.open(tmp_path / "study.db") as study:
        assert study.stop() == before


def test_each_label_has_its_scores(tmp_path):
    def partly(row):
        told = {name: name in holding(row) for name in NAMES}
        return told | ({"praise": None} if row % 2 else {})

    with answered(labels(tmp_path / "study.db", dev=0), partly, 60) as study:
        found, now = study.scores(), study._now()
        assert [one.label for one in found.labels] == NAMES
        # By hand, each row left out of the fit.
        rows, hits, named = list(now.state.training), np.zeros(3), np.zeros(3)
        for row in rows:
            others = [other for other in rows if other != row]
            model = gw.MultiLabel(C=10.0, labels=NAMES).fit(
                X[others], now.state.targets({other: now.state.labels[other] for other in others})
            )
            told = np.array([value is not None for value in now.state.labels[row]])
            says = told & (model.predict(X[[row]])[0] == 1)
            hits += says & TABLE[row]
            named += says.astype(int) + (told & TABLE[row])
        assert [one.f1.value for one in found.labels] == pytest.approx(2 * hits / named, abs=0.03)
        for one in found.labels:
            assert one.f1.low < one.f1.value < one.f1.high
        assert found.on == found.chosen == 60
        assert found.right.low < found.right.value < found.right.high
        assert json.loads(json.dumps(found.record()))["labels"][0]["label"] == "urgent"


def test_numbers_have_errors_and_the_largest(tmp_path):
    noisy = PRICE + 0.5 * np.random.default_rng(3).normal(size=len(PRICE))
    with answered(numbers(tmp_path / "study.db", dev=0.4), lambda row: noisy[row], 60) as study:
        found, now = study.scores(), study._now()
        rows = list(now.state.dev)
        assert (found.on, found.chosen) == (len(rows), 0)
        off = np.abs(now.fitted.predict(X[rows]) - noisy[rows])
        assert found.mean_error.value == pytest.approx(off.mean())
        assert found.typical_error.value == pytest.approx(np.sqrt(np.mean(off**2)))
        assert found.r2.value == pytest.approx(1 - np.mean(off**2) / np.var(noisy[rows]))
        for it in (found.r2, found.mean_error, found.typical_error):
            assert it.low < it.value < it.high
        worst = found.largest[0]
        assert worst.row == rows[int(off.argmax())]
        assert abs(worst.answer - worst.says) == pytest.approx(off.max())
        assert json.loads(json.dumps(found.record()))["largest"][0]["row"] == worst.row


def test_why_says_what_the_model_makes_of_a_row_and_by_which_words(tmp_path):
    texts = [
        f"a {'late' if i % 2 else 'fine'} {'bill' if i % 3 else 'film'} of {i}" for i in range(60)
    ]
    given = {"pool": texts, "classes": ["late", "bill"], "learner": gw.MultiLabel(C=10.0)}
    with gw.Study.create(tmp_path / "labels.db", dev=0, **given) as study:
        for row in range(30):
            study.tell(row, {name for name in ("late", "bill") if name in texts[row]})
        why = study.why(41)
        expected = study._now().fitted.predict_proba(study.pool.take([41]))[0]
        assert list(why.proba.values()) == pytest.approx(expected)
        assert why.says[0].startswith("late: probability 0.")
        push = {one.word: one.push for one in why.words()}
        # Each label by itself: what speaks for one says nothing against the other.
        assert push["late"]["late"] > 0.5 > abs(push["late"]["bill"])
        assert why.utility == {}
    given = {"pool": texts, "classes": ["price"], "learner": gw.Ridge(0.1)}
    with gw.Study.create(tmp_path / "numbers.db", dev=0, **given) as study:
        for row in range(30):
            study.tell(row, 10.0 * ("bill" in texts[row]))
        why = study.why(41)
        assert why.proba["price"] == pytest.approx(study.predict().labels[41])
        assert why.spread > 0
        assert re.match(r"price: about [\d.]+, give or take", why.says[0])
        strongest = max(why.words(), key=lambda one: abs(one.push["price"]))
        assert strongest.word == "bill"


def test_mistakes_are_doubted_first(tmp_path):
    wrong = {3: {"urgent", "billing", "praise"} - holding(3)}
    with labels(tmp_path / "labels.db", dev=0) as study:
        for row in range(80):
            study.tell(row, wrong.get(row, holding(row)))
        found = study.doubts()
        assert found.rows[0] == 3
        assert found.says[0] == {name: name in holding(3) for name in NAMES}
        assert found.doubt[0] > 0.9
        assert sorted(found.rows) == list(range(80))
        kind = study.state.settings.answer
        assert kind.mistake(study.state.labels[3], found.says[0], 0.9, NAMES)
        assert kind.mistake((None, None, None), found.says[0], 0.9, NAMES) is None
        assert "most doubtful" in found._repr_html_()
    noisy = PRICE + 0.1 * np.random.default_rng(3).normal(size=len(PRICE))
    with numbers(tmp_path / "numbers.db", dev=0) as study:
        for row in range(80):
            study.tell(row, noisy[row] + 5.0 * (row == 7))
        found = study.doubts()
        assert found.rows[0] == 7
        assert found.says[0] == pytest.approx(noisy[7], abs=0.5)
        assert found.doubt[0] > 0.99
        likely = [row for row, doubt in zip(found.rows, found.doubt, strict=True) if doubt > 0.95]
        assert len(likely) < 8


def test_a_label_added_later_begins_a_new_comparison(tmp_path):
    with played(labels(tmp_path / "study.db", dev=0), holding, 60) as study:
        assert study.stop().high is not None
        study.add_class("late")
        study.tell(159, {"late"})
        study.refresh()
        assert study.stop().high is None
        assert "late: yes has 1" in study.stop().reason


def test_labels_that_were_not_answered_are_left_out_of_what_is_measured(tmp_path):
    def partly(row):
        answered = {name: name in holding(row) for name in NAMES}
        return answered | ({"praise": None} if row % 2 else {})

    with answered(labels(tmp_path / "study.db", dev=0), partly, 60) as study:
        good = study.status()["accuracy"]
        assert 0.6 < good["low"] < good["value"] < good["high"] <= 1.0


def test_labels_are_added_renamed_and_settle_in_columns(tmp_path):
    place = tmp_path / "labels.db"
    with answered(labels(place), holding, 20) as study:
        study.add_class("late")
        study.describe("praise", name="of")
        study.tell(159, {"late", "of"})
        study.tell(158, {"praise"})
        assert study.state.labels[159] == (False, False, True, True)
        assert study.state.labels[158] == (False, False, True, False), "the old name is understood"
        counts = [one["labels"] for one in study.status()["classes"]]
        study.refresh()
        assert study.predict().labels.shape == (160, 4)
        before = dict(study.state.labels)
    with gw.Study.open(place) as study:
        assert study.state.labels == before
        assert [one["labels"] for one in study.status()["classes"]] == counts
        assert study.check() == study.state.seq

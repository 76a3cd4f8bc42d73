"""What a study says of its model, and what its model says of rows."""

import json
import zipfile
from hashlib import sha256
from io import BytesIO

import numpy as np
import polars as pl
import pytest

import goalward as gw
from goalward.core.files import NpyFile
from goalward.errors import BadInput, Damaged, DataMissing, WouldOverwrite
from goalward.studio.server.shown_rows import AnswerFilter, answered_rows
from goalward.studio.study.answers import LeftOut
from goalward.studio.study.kind import estimated
from goalward.studio.study.scores import wilson
from goalward.studio.study.several_labels import measured_labels

CLASSES = ["no", "yes"]


def answered(place, n=60, rows=500, **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 5))
    truth = (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=rows) > 0).astype(int)
    options = {"dev": 0.1, "refit": 20} | options
    study = gw.Study.create(place / "labels.db", pool=X, classes=CLASSES, **options)
    while len(study.state.labels) < n:
        for row in study.ask(10):
            study.tell(row, CLASSES[truth[row]])
    study.refresh()
    return study, X, np.array(CLASSES)[truth]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return answered(tmp_path_factory.mktemp("told"))


def test_accuracy_comes_with_an_interval_that_holds_the_truth(told):
    study, _, truth = told
    said = study.status()["accuracy"]
    right = np.mean(study.predict().labels == truth)
    assert said["low"] <= right <= said["high"]
    assert said["low"] < said["value"] < said["high"] < said["low"] + 0.4
    assert said["on"] == 60
    assert said["says"] in study.status()["headline"]


def noise(place, pool, n, **options):
    """Return a study of classes that have nothing to do with the rows."""
    said = np.random.default_rng(3).integers(2, size=500)
    study = gw.Study.create(place / "noise.db", pool=pool, classes=CLASSES, refit=5, **options)
    for _ in range(n // 5):
        for row in study.ask(5, refresh=False):
            study.tell(row, CLASSES[said[row]])
        study.refresh()
    return study


@pytest.mark.parametrize("seed", range(4))
def test_no_accuracy_is_told_below_the_share_of_the_commonest_class(tmp_path, seed):
    pool = np.random.default_rng(seed).normal(size=(200, 30))
    study = noise(tmp_path, pool, 40, dev=0.0, seed=seed)
    told = [line for line in study.curve() if line["accuracy"] is not None]
    assert all(line["accuracy"] > 0.5 for line in told)
    if study.curve()[-1]["accuracy"] is None:
        assert study.status()["accuracy"] is None
        assert "Not known to be better yet than always answering" in study.status()["headline"]


@pytest.mark.heavy
def test_features_that_tell_nothing_are_named(tmp_path):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefghij"), 6) + "x") for _ in range(400)]
    said = noise(tmp_path, texts, 150).status()["headline"]
    assert "Your texts as word counts tell the classes apart little better than chance" in said


def test_what_answers_will_bring_is_told_as_a_bound_alone(told):
    study, *_ = told
    for n in ("+", "more answers, about"):
        assert n not in study.status()["headline"]
    assert "forecast" not in study.status()


def test_few_rows_are_right_more_or_less_often_by_chance():
    lead = np.full(60, 2.0)
    right, chosen = np.arange(60) % 10 > 0, np.zeros(60, dtype=bool)
    few, many = (estimated(lead, right, chosen, lead, left) for left in (8, 10_000))
    assert few.high - few.low > many.high - many.low + 0.1


def test_macro_f1_is_below_the_share_of_right_labels():
    proba = np.array([[0.9, 0.2], [0.3, 0.6], [0.8, 0.1], [0.2, 0.4]])
    known = LeftOut(np.arange(4), (proba > 0.5).astype(float), proba, np.ones(4, dtype=bool))
    f1, right = measured_labels(known, proba)
    assert right.low < right.value < right.high
    assert f1.value < right.value


def test_no_more_is_promised_than_rows_are_left_or_wrong(tmp_path):
    study, *_ = answered(tmp_path, n=130, rows=150)
    left = study.stop().left
    assert 0 < left < 20
    assert f"the {left} rows left" in study.stop().reason
    assert study.stop().high <= 1 - study.state.ranking.low
    assert "100" not in study.status()["headline"].split("%).")[-1]


def test_accuracy_is_that_of_rows_without_an_answer(tmp_path):
    # The strategy asks for the hard rows first: what is left is easy.
    study, _, truth = answered(tmp_path, n=400, rows=500)
    rest = np.delete(np.arange(500), list(study.state.labels))
    said = study.status()["accuracy"]
    assert said["low"] <= np.mean(study.predict().labels[rest] == truth[rest]) <= said["high"]


def test_a_model_whose_answers_were_taken_back_or_turned_round_says_no_accuracy(tmp_path):
    study, *_ = answered(tmp_path, n=30)
    assert study.status()["accuracy"] is not None
    labels = study.state.labels
    for row, label in list(labels.items())[:6]:
        study.tell(row, CLASSES[label == "no"])
    assert study.status()["accuracy"] is None
    assert "Answers were changed since the last fit" in study.status()["headline"]
    study.refresh()
    assert "were changed" not in study.status()["headline"]
    for row in labels:
        study.withdraw(row)
    assert study.state.n_labels == 0
    assert study.status()["accuracy"] is None
    assert study.status()["headline"].startswith("No model yet")


def test_a_study_without_a_model_says_so(tmp_path):
    study = gw.Study.create(tmp_path / "labels.db", pool=np.eye(4), classes=CLASSES)
    status = study.status()
    assert status["accuracy"] is None
    assert status["headline"].startswith("No model yet")


def test_the_model_is_trained_on_the_answers_that_measure_too(told):
    study, X, _ = told
    labels = study.state.labels
    assert len(study.state.dev) > 0
    features = study.model.features
    learner = gw.Logistic(C=study.state.ranking.C, features=features)
    whole = learner.fit(X[list(labels)], list(labels.values()))
    np.testing.assert_allclose(study.model.predict_proba(X), whole.predict_proba(X), atol=1e-6)
    found = study.predict(X[:7])
    assert found.labels.tolist() == whole.predict(X[:7]).tolist()
    np.testing.assert_allclose(found.probabilities, whole.predict_proba(X[:7]), atol=1e-6)


def test_predictions_are_written_beside_the_rows(told, tmp_path):
    study, X, truth = told
    path = tmp_path / "out.csv"
    assert study.write_predictions(path) == len(X)
    frame = pl.read_csv(path)
    assert frame.columns == ["row", "label", "probability", "answered", "look"]
    labels = study.state.labels
    assert frame.filter("answered")["row"].to_list() == list(labels)
    assert frame.filter("answered")["label"].to_list() == list(labels.values())
    assert np.mean(frame["label"].to_numpy() == truth) > 0.8
    looked, others = frame.filter("look"), frame.filter(~pl.col("look") & ~pl.col("answered"))
    assert looked.height == np.ceil(0.05 * (len(X) - len(labels)))
    assert looked["probability"].max() <= others["probability"].min()
    with pytest.raises(WouldOverwrite, match="force"):
        study.write_predictions(path)
    with pytest.raises(WouldOverwrite, match="what is read here"):
        study.write_predictions(study.url.removeprefix("sqlite:///"), force=True)


def test_texts_are_refused_where_rows_are_numbers(told):
    with pytest.raises(BadInput, match="5 numbers"):
        told[0].predict(["a text"])


def test_the_wrong_answer_is_doubted_most(tmp_path):
    study, X, _ = answered(tmp_path)
    sure = study.state.labels.keys() & set(np.flatnonzero(X[:, 0] + X[:, 1] > 1.5).tolist())
    row = min(sure)
    study.tell(row, "no")
    doubts = study.doubts()
    assert sorted(doubts.rows) == list(study.state.labels)
    assert doubts.doubt == sorted(doubts.doubt, reverse=True)
    assert row in doubts.rows[:2]
    at = doubts.rows.index(row)
    assert doubts.says[at] == "yes"
    # In the goal's unit: it is the answer to look at again, and the first of all things to do.
    trains = [i for i, gain in enumerate(doubts.look) if gain is not None]
    assert [doubts.rows[i] for i in trains] == [r for r in doubts.rows if r in study.state.training]
    queue = study.queue(200)
    if row in study.state.training:
        assert doubts.look[at] == max(doubts.look[i] for i in trains)
        assert queue[0].row == row
    assert {step.row for step in queue if step.what != "label"} <= set(study.state.training)
    assert not {step.row for step in queue if step.what == "label"} & set(study.state.labels)
    assert study.queue(3) == queue[:3]


def test_scores_count_every_answer_that_measures(told):
    study, *_ = told
    scores = study.scores()
    assert np.sum(scores.confusion) == scores.on == 60
    for one in scores.classes:
        for share in (one.precision, one.recall, one.f1):
            assert share.low <= share.value <= share.high
        harmonic = 2 / (1 / one.precision.value + 1 / one.recall.value)
        assert one.f1.value == pytest.approx(harmonic)
    json.dumps(scores.record())


def test_wilsons_interval():
    # Newcombe (1998), table I: 81 of 263.
    assert wilson(81, 263) == pytest.approx((0.308, 0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 0) == (None, 0.0, 1.0)


TEXTS = [f"{'a fine' if i % 2 else 'an awful'} film number {i}" for i in range(60)]


def texts_answered(place, n=30, **options):
    study = gw.Study.create(place / "texts.db", classes=["good", "bad"], **options)
    for row in range(n):
        study.tell(row, "good" if row % 2 else "bad")
    return study


def test_a_model_is_saved_without_code_and_reads_new_texts(tmp_path):
    study = texts_answered(tmp_path, pool=TEXTS)
    folder = study.save_model(tmp_path / "model")
    assert sorted(p.name for p in folder.iterdir()) == ["arrays.npz", "model.json"]
    loaded = gw.load_model(folder)
    new = ["a fine day", "an awful day", *TEXTS[:5]]
    np.testing.assert_array_equal(loaded.predict_proba(new), study.model.predict_proba(new))
    assert loaded.predict(new[:2]).tolist() == ["good", "bad"]
    np.testing.assert_allclose(
        loaded.predict_proba(TEXTS), study.predict().probabilities, atol=1e-5
    )
    assert json.loads((folder / "model.json").read_text())["labels"] == 30
    with pytest.raises(BadInput, match="list of texts"):
        loaded.predict("a fine day")


def test_a_model_that_cannot_be_read_says_which_file_and_what_to_do(told, tmp_path):
    study, X, _ = told
    folder = study.save_model(tmp_path / "model")
    with pytest.raises(WouldOverwrite, match="force"):
        study.save_model(folder)
    study.save_model(folder, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    (tmp_path / "mine").mkdir()
    with pytest.raises(WouldOverwrite):
        study.save_model(tmp_path / "mine", force=True)
    with pytest.raises(DataMissing, match="goalward model STUDY"):
        gw.load_model(tmp_path / "none")
    np.testing.assert_array_equal(gw.load_model(folder).predict(X), study.predict().labels)
    arrays, words = folder / "arrays.npz", folder / "model.json"
    whole = arrays.read_bytes()
    arrays.write_bytes(whole[:-9])
    with pytest.raises(Damaged, match=r"arrays\.npz"):
        gw.load_model(folder)
    arrays.write_bytes(whole)
    described = json.loads(words.read_text())
    for wrong in ({"classes": ["a"]}, {"encoder": {"kind": "vectors"}}, {"encoder": 3}):
        words.write_text(json.dumps(described | wrong))
        with pytest.raises((Damaged, BadInput)):
            gw.load_model(folder)
    words.write_text(json.dumps(described | {"model of goalward": 3}))
    with pytest.raises(BadInput, match="Upgrade"):
        gw.load_model(folder)
    for text in ("{", "[" * 100_000):
        words.write_text(text)
        with pytest.raises(Damaged, match=r"model\.json"):
            gw.load_model(folder)


def packed(**arrays):
    into = BytesIO()
    np.savez(into, **arrays)
    return into.getvalue()


def declared(shape):
    """Return an archive whose array says that it is larger than it is."""
    into, array = BytesIO(), BytesIO()
    np.lib.format.write_array_header_1_0(
        array, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr("params.npy", array.getvalue())
    return into.getvalue()


def bomb():
    into = BytesIO()
    np.savez_compressed(into, params=np.zeros((2**24, 2)))
    return into.getvalue()


@pytest.mark.attack("models that lie")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04" + bytes(99),
        packed(params=np.full((6, 2), np.nan)),
        packed(params=np.full((6, 2), np.inf)),
        packed(params=np.ones((6, 2), dtype=object)),
        packed(params=np.ones((6, 2)))[:-30],
        declared((2**43, 2)),
        bomb(),
    ],
    ids=["empty", "no archive", "nan", "inf", "pickle", "cut", "73 TiB", "bomb"],
)
def test_a_model_with_lying_arrays_is_damaged(told, tmp_path, content):
    folder = told[0].save_model(tmp_path / "model")
    described = json.loads((folder / "model.json").read_text())
    (folder / "arrays.npz").write_bytes(content)
    described["sha256"] = sha256(content).hexdigest()
    (folder / "model.json").write_text(json.dumps(described))
    with pytest.raises(Damaged, match="holds no model"):
        gw.load_model(folder)


def test_a_new_table_is_predicted_and_keeps_its_columns(tmp_path):
    table, new = tmp_path / "films.csv", tmp_path / "new.csv"
    pl.DataFrame({"text": TEXTS, "label": range(60)}).write_csv(table)
    pl.DataFrame({"year": [1999, 2001], "text": ["a fine one", "an awful one"]}).write_csv(new)
    study = texts_answered(tmp_path, pool=gw.tables.Table(str(table), text="text"))
    out = tmp_path / "out.csv"
    assert study.write_predictions(out, new) == 2
    found = pl.read_csv(out)
    assert found.columns == ["year", "text", "label", "probability", "answered", "look"]
    assert found["label"].to_list() == ["good", "bad"]
    assert found["answered"].to_list() == [False, False]
    study.write_predictions(tmp_path / "own.csv")
    own = pl.read_csv(tmp_path / "own.csv")
    assert own.columns[:3] == ["text", "label_of_table", "label"]
    assert own["label_of_table"].to_list() == list(range(60))
    pl.DataFrame({"body": ["x"]}).write_csv(tmp_path / "other.csv")
    with pytest.raises(BadInput, match="'text'"):
        study.write_predictions(tmp_path / "never.csv", tmp_path / "other.csv")
    with pytest.raises(WouldOverwrite):
        study.write_predictions(new, new, force=True)
    assert not (tmp_path / "never.csv").exists()


def test_nothing_left_to_ask_is_not_told_to_go_on(tmp_path):
    study = texts_answered(tmp_path, n=60, pool=TEXTS)
    study.refresh()
    assert study.status()["headline"] == "Nothing is left to ask: 60 of 60 rows have an answer."
    assert study.stop().stop


def test_new_studies_keep_a_tenth_of_the_answers_to_measure(tmp_path):
    study = gw.Study.create(tmp_path / "a.db", pool=np.eye(30), classes=CLASSES)
    assert study.state.settings.dev == 0.1


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_vectors_on_disk_are_predicted_where_they_are(told, tmp_path, kind, order):
    study, X, _ = told
    rows = np.asarray(np.round(4 * X), dtype=kind, order=order)
    np.save(tmp_path / "rows.npy", rows)
    model = study.model
    codes, confidence = model.likeliest(NpyFile(tmp_path / "rows.npy"))
    proba = model.predict_proba(rows.astype(float))
    np.testing.assert_array_equal(codes, proba.argmax(axis=1))
    np.testing.assert_allclose(confidence, proba.max(axis=1), atol=1e-3)


def test_a_row_that_is_no_number_is_named(told):
    study, X, _ = told
    X = X[:50].copy()
    X[17, 2] = np.nan
    with pytest.raises(BadInput, match="row 17"):
        study.predict(X)


def test_copies_are_asked_once_and_their_answer_covers_all(tmp_path):
    texts = [f"{'a fine' if i % 2 else 'an awful'} film number {i % 40}" for i in range(60)]
    path = tmp_path / "films.csv"
    pl.DataFrame({"id": range(60), "text": texts}).write_csv(path)
    for name, pool in (("in.db", texts), ("of.db", gw.tables.Table(str(path), text="text"))):
        study = gw.Study.create(tmp_path / name, pool=pool, classes=["good", "bad"], dev=0.2)
        asked = []
        while rows := study.ask(5, at_most=True):
            asked += rows
            for row in rows:
                study.tell(row, "good" if row % 2 else "bad")
        assert sorted(asked) == list(range(40))
        assert "Nothing is left to ask" in study.status()["headline"]
        out = tmp_path / f"{name}.csv"
        study.write_predictions(out)
        found = pl.read_csv(out)
        assert found["answered"].all()
        assert found["label"].to_list() == ["good" if i % 2 else "bad" for i in range(60)]
    notes = study.pool_notes
    assert (
        "20 rows are copies of others: one of each is asked, and its answer holds for all." in notes
    )


def test_rows_with_nothing_to_read_are_predicted_as_nothing(tmp_path):
    texts = [*TEXTS, "", "", "  ...", "a fine one"]
    frame = pl.DataFrame({"text": texts, "n": range(64)})
    frame.write_csv(tmp_path / "films.csv", quote_style="always")
    study = texts_answered(tmp_path, pool=gw.tables.Table(str(tmp_path / "films.csv"), text="text"))
    for table in (None, tmp_path / "films.csv"):
        out = tmp_path / "out.csv"
        study.write_predictions(out, table, force=True)
        found = pl.read_csv(out)
        assert found["label"].is_null().arg_true().to_list() == [60, 61, 62]
        assert found["probability"].is_null().arg_true().to_list() == [60, 61, 62]
        assert found["look"][60:63].all()


def test_a_single_class_is_named_and_another_looked_for(tmp_path):
    study = gw.Study.create(tmp_path / "a.db", pool=TEXTS, classes=["good", "bad"])
    for row in range(1, 20, 2):
        study.tell(row, "good")
    said = study.status()["headline"]
    assert said.startswith("All answers so far are “good” (10), and a model needs another class.")
    assert "Search all rows" in said
    first = answered_rows(study, AnswerFilter(only="open"), 0)["rows"][:10]
    assert sum("awful" in line["preview"] for line in first) >= 8

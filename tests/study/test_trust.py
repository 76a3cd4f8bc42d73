"""What a study says of its model, and what its model says of rows."""

import json

import numpy as np
import polars as pl
import pytest

import goalward as gw
from goalward.errors import BadInput, WouldOverwrite
from goalward.study.answers import wilson

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


def test_a_study_without_a_model_says_so(tmp_path):
    study = gw.Study.create(tmp_path / "labels.db", pool=np.eye(4), classes=CLASSES)
    status = study.status()
    assert status["accuracy"] is None
    assert status["headline"].startswith("No model yet")


def test_the_model_is_trained_on_the_answers_that_measure_too(told):
    study, X, _ = told
    labels = study.state.labels
    assert len(study.state.dev) > 0
    whole = gw.Logistic(C=study.state.ranking.C).fit(X[list(labels)], list(labels.values()))
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
    assert doubts.says[doubts.rows.index(row)] == "yes"


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

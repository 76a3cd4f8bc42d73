"""The words of a row that speak for each label."""

import numpy as np
import polars as pl
import pytest

import goalward as gw
from goalward.studio.study.rounds import StudyRound
from goalward.studio.study.why import _read_without

TEXTS = [
    f"{start} {word} {thing}"
    for start in ("a", "such a", "The")
    for word, thing in [
        *(("fine", "film"), ("great", "play"), ("witty", "book"), ("moving", "song")),
        *(("dull", "film"), ("stale", "play"), ("boring", "book"), ("weak", "song")),
    ]
]
GOOD = ("fine", "great", "witty", "moving")


def told(study):
    for row in range(16):
        good = any(word in TEXTS[row] for word in GOOD)
        study.tell(row, "good" if good else "bad")
    return study


@pytest.fixture(params=["texts", "table"])
def study(request, tmp_path):
    pool = TEXTS
    if request.param == "table":
        # A category is a text too; other columns stay as they are.
        frame = pl.DataFrame(
            {"id": range(len(TEXTS)), "said": pl.Series(TEXTS, dtype=pl.Categorical)}
        )
        frame.write_parquet(tmp_path / "t.parquet")
        pool = gw.tables.Table(tmp_path / "t.parquet", "said")
    with gw.Study.create(tmp_path / "s.db", pool=pool, classes=["good", "bad"]) as made:
        yield told(made)


def test_a_words_push_is_what_leaving_it_out_takes_away(study):
    found = study.why(17).words()
    assert found[0].word == "great"
    pushes = {one.word: one.push for one in found}
    assert pushes["great"]["good"] > 0 > pushes["great"]["bad"]
    now = StudyRound(study.state, study.pool)
    encoder = study.pool.encoder()
    texts = ["The great play", "The  play"]
    rows = texts if study.pool.table is None else pl.DataFrame({"said": texts})
    f = np.asarray(now.fitted.logits(encoder.transform(rows).astype(float)))
    margin = f[:, 0] - f[:, 1]
    said = pushes["great"]["good"] - pushes["great"]["bad"]
    assert said == pytest.approx(margin[0] - margin[1], rel=1e-6)


def test_words_that_explain_nothing_are_left_out_unless_there_are_no_others(tmp_path):
    pool = [*TEXTS, "the play is not for them, and it's great", "it is what it is"]
    with gw.Study.create(tmp_path / "s.db", pool=pool, classes=["good", "bad"]) as study:
        made = told(study)
        assert {one.word for one in made.why(len(TEXTS)).words()} <= {"play", "not", "great"}
        assert all(one.word in ("it", "is", "what") for one in made.why(len(TEXTS) + 1).words())


def test_a_word_goes_wherever_it_stands_and_however_it_is_written(tmp_path):
    pool = [*TEXTS, "Great! A GREAT and greatest greatness"]
    with gw.Study.create(tmp_path / "s.db", pool=pool, classes=["good", "bad"]) as study:
        found = told(study).why(len(TEXTS)).words()
    assert found[0].word == "Great"
    assert sum(one.word.lower() == "great" for one in found) == 1


def test_words_of_several_columns_and_the_columns_beside_them_speak_too(tmp_path):
    rng = np.random.default_rng(0)
    stars = [5 if any(word in text for word in GOOD) else 1 for text in TEXTS]
    frame = {"title": TEXTS, "body": ["by Ann"] * 24, "stars": stars, "noise": rng.normal(size=24)}
    pl.DataFrame(frame).write_csv(tmp_path / "t.csv")
    table = gw.tables.Table(tmp_path / "t.csv", ("title", "body"), numeric=("stars", "noise"))
    with gw.Study.create(tmp_path / "s.db", pool=table, classes=["good", "bad"]) as study:
        found = {one.word: one.push["good"] for one in told(study).why(17).words()}
        # As it is: the words of all columns in one give the features that the row has.
        names, X = _read_without(study.pool, 17, study.show(17)["text"], [])
        np.testing.assert_allclose(X[0], study.pool.take([17])[0], atol=1e-5)
    assert names[0] == "stars: 5"
    assert found["stars: 5"] > 0
    assert found["great"] > 0
    numbers = gw.tables.Table(tmp_path / "t.csv", numeric=("stars", "noise"))
    with gw.Study.create(tmp_path / "n.db", pool=numbers, classes=["good", "bad"]) as study:
        found = told(study).why(17).words()
    assert found[0].word == "stars: 5"
    assert len(found) == 2


def test_where_no_text_is_read_no_word_speaks(tmp_path):
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(24, 3)))
    pl.DataFrame({"said": TEXTS}).write_csv(tmp_path / "t.csv")
    table = gw.tables.Table(tmp_path / "t.csv", "said")
    with gw.Study.create(tmp_path / "a.db", pool=table, classes=["good", "bad"]) as study:
        assert told(study).why(17).words() == []
    X = np.random.default_rng(1).normal(size=(24, 3))
    with gw.Study.create(tmp_path / "b.db", pool=X, classes=["good", "bad"]) as study:
        assert told(study).why(17).words() == []

"""Studies, teams and models that version 1.0 made are read and worked on by this version.

`scripts/make_fixtures.py` made them, and they stay as they are: every later version must read them.
"""

import gzip
import json
import runpy
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import goalward as gw
from goalward.errors import NewerVersion
from goalward.studio.store.database import opened
from goalward.studio.store.events import KINDS, Event, OfRow
from goalward.studio.team import Team
from tests.studio.store.test_store import changed

HERE = Path(__file__).parent / "format1"
SCRIPT = runpy.run_path(
    str(Path(__file__).parents[3] / "scripts/make_fixtures.py"), run_name="read"
)
BEGAN, TABLES, WORDS = SCRIPT["BEGAN"], SCRIPT["TABLES"], SCRIPT["WORDS"]
EXPECTED = json.loads(gzip.decompress((HERE / "expected.json.gz").read_bytes()))
STUDIES = ("class", "labels", "numbers")
CLOSE = 0.02
"""Probabilities and prices may differ so much where NumPy, SciPy or scikit-learn are others."""
ANSWERS = {
    "class": "rim",
    "labels": {"money": True, "broken": None, "urgent": False},
    "numbers": 2.5,
}


def unpacked(name, folder):
    """Return a fixture in a folder of its own, with the table beside it."""
    place = folder / f"{name}.db"
    place.write_bytes(gzip.decompress((HERE / f"{name}.db.gz").read_bytes()))
    if name in TABLES:
        shutil.copy(HERE / TABLES[name], folder)
    return place


@pytest.fixture(params=[*STUDIES, "postgresql"])
def kept(request, tmp_path):
    """A study of each kind in a file, and that of classes in PostgreSQL, with what is expected of it."""
    name, given = request.param, {"clock": lambda: BEGAN + 3000}
    if name == "postgresql":
        place, name = request.getfixturevalue("postgres"), "class"
        import psycopg

        unpacked(name, tmp_path)
        given["pool"] = tmp_path / TABLES[name]
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute(gzip.decompress((HERE / "postgresql.sql.gz").read_bytes()))
    else:
        place = unpacked(name, tmp_path)
    with gw.Study.open(place, **given) as study:
        yield study, name, dict(EXPECTED[name])


def test_a_study_says_what_it_said(kept):
    study, _, expected = kept
    predicted, ranking = expected.pop("predicted"), expected.pop("ranking")
    del expected["asked"]
    said = SCRIPT["described"](study)
    np.testing.assert_allclose(said.pop("predicted"), predicted, atol=CLOSE)
    # A later version may keep more of a ranking.
    stored = said.pop("ranking")
    assert {key: stored[key] for key in ranking} == ranking
    assert said == expected
    assert study.check() == expected["events"]


def test_a_study_goes_on(kept, tmp_path):
    study, name, expected = kept
    first, second, third, last = study.ask(4, by="dee", refresh=False)
    assert [first, second, third, last] == expected["asked"]
    answer = ANSWERS[name]
    study.tell(first, answer, by="dee")
    study.tell_many([(second, answer), (third, answer)], by="dee")
    assert study.undo(by="dee") == third
    study.skip(last, by="dee")
    study.note(last, "blurred", by="dee")
    assert study.undo(by="ann") is not None
    study.describe(expected["classes"][0], text="As it was.")
    if name in TABLES:
        with (tmp_path / TABLES[name]).open("a", encoding="utf-8") as table:
            table.write("new,0.1,0.2,inside\n" if name == "class" else "900,One more.\n")
        assert study.extend() == 1
    else:
        assert study.extend([[0.5, 0.5, 0.5]]) == 1
    assert study.due("any")
    ranking = study.refresh()
    assert set(ranking.made) >= {"features", "C", "strategy"}
    written = study.export(tmp_path / "labels.csv")
    assert written == len(study.state.labels) == pl.read_csv(tmp_path / "labels.csv").height
    assert study.write_predictions(tmp_path / "all.csv") == expected["rows"] + 1
    backup, now = tmp_path / "backup.db", study.state
    assert study.backup(backup) == study.check() == now.seq > expected["events"]
    assert now.said(first)["dee"].label is not None
    pool = tmp_path / TABLES[name] if name in TABLES else None
    gw.Study.restore(backup, tmp_path / "again.db").close()
    with gw.Study.open(tmp_path / "again.db", pool=pool) as again:
        assert again.state.mark == now.mark
        assert again.state.labels == now.labels
        assert len(again.predict().labels) == expected["rows"] + 1


@pytest.mark.parametrize("name", STUDIES)
def test_a_ranking_is_made_again_from_what_it_says(name, tmp_path):
    with gw.Study.open(unpacked(name, tmp_path), clock=lambda: BEGAN + 3000) as study:
        stored = study.state.ranking
        model, made = study.model, stored.made
        assert made["features"]["digest"] == stored.features
        assert made["features"]["map"] == model.features.state()[0]
        assert made["features"]["map"]["kind"] == "Landmarks"
        again = study.refresh(force=True)
        # Numbers of texts may differ in the last digits, and with them their digest.
        made["features"]["digest"] = again.features
        assert again.made == made
        assert again.recipe == stored.recipe == made["strategy"]["recipe"]
        assert len(set(again.queue[:10]) & set(stored.queue[:10])) >= 8


@pytest.mark.parametrize("name", STUDIES)
def test_a_model_predicts_what_it_predicted(name, tmp_path):
    model = gw.load_model(HERE / f"{name}.model")
    with gw.Study.open(unpacked(name, tmp_path)) as study:
        rows = study.pool.X if study.pool.frame is None else study.pool.frame
        numbers, proba = model.predictions(rows)
    said = numbers if proba is None else proba
    np.testing.assert_allclose(said, EXPECTED[name]["predicted"], atol=1e-3)


def test_a_team_signs_in(tmp_path):
    team = Team.open(unpacked("team", tmp_path), clock=lambda: BEGAN + 3000)
    session = team.sign_in("ANN", WORDS)
    assert team.signed_in(session).role() == "owner"
    assert team.members.person("Bo").role("4f") == "annotator"
    assert team.members.person("Bo").role("5a") == "reviewer"
    assert team.members.person("Bo").role() is None
    assert team.members.person("Ed") is None
    assert [link.name for link in team.members.invitations.values()] == ["Cy"]
    assert team.sign_in("bo", "four words of theirs") is None
    team.join(team.invite("Di", "annotator", by="Ann"), WORDS)
    team.close()


def test_everything_that_can_happen_happened_in_them(tmp_path):
    happened = set()
    for name in (*STUDIES, "team"):
        with opened(unpacked(name, tmp_path)) as file:
            query = "SELECT DISTINCT json_extract(body, '$.kind') FROM goalward_events"
            happened |= {kind for (kind,) in file.execute(query)}
    assert happened == {name for name, kind in KINDS.items() if kind not in (Event, OfRow)}


def schema(place):
    with sqlite3.connect(place) as file:
        return set(file.execute("SELECT name, sql FROM sqlite_master"))


def test_a_new_study_has_the_tables_of_the_format(tmp_path):
    gw.Study.create(tmp_path / "new.db", pool=[[0.0], [1.0]], classes=["a", "b"]).close()
    new = schema(tmp_path / "new.db")
    for name in STUDIES:
        assert schema(unpacked(name, tmp_path)) == new


def test_a_study_of_a_newer_format_is_refused_in_words(storage):
    gw.Study.create(storage, pool=[[0.0], [1.0]], classes=["a", "b"]).close()
    newer = "UPDATE goalward_study SET version = 2"
    if storage.startswith("postgresql"):
        import psycopg

        with psycopg.connect(storage, autocommit=True) as connection:
            connection.execute(newer)
    else:
        changed(storage, newer)
    with pytest.raises(NewerVersion, match=r"format version 2, .* reads version 1.*--upgrade"):
        gw.Study.open(storage)

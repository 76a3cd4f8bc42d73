"""Backups made while others work, put back, and what is left of damaged studies."""

import contextlib
import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.errors import (
    Damaged,
    EventsLost,
    NewerVersion,
    NotAStudy,
    StudyExists,
    WouldOverwrite,
)
from goalward.studio.store import Store
from tests.conftest import some_heavy
from tests.studio.store.test_store import changed

POOL = [[i / 100] for i in range(100)]


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "labels.db"
    with gw.Study.create(path, pool=POOL, classes=["low", "high"], refit=5) as study:
        for row in range(0, 100, 4):
            study.ask(1, by="ann")
            study.tell(row, "low" if row < 50 else "high", by="ann")
        study.add_class("middle")
        study.tell(51, "middle", by="ann")
        study.undo(by="ann")
        study.tell(50, "middle", by="bo")
    return path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_a_backup_is_the_study_to_the_letter(place, tmp_path):
    copy = tmp_path / "backup.db"
    with gw.Study.open(place) as study:
        events = study.backup(copy)
        with gw.Study.open(copy) as other:
            assert other.state.mark == study.state.mark
            assert other.state.labels == study.state.labels
            assert other.pool.digest == study.pool.digest
            assert events == study.state.seq
            other.tell(3, "low")
    with pytest.raises(WouldOverwrite), gw.Study.open(place) as study:
        study.backup(copy)
    with pytest.raises(WouldOverwrite, match="than what is read"), gw.Study.open(place) as study:
        study.backup(place, force=True)
    with gw.Study.open(place) as study:
        study.backup(copy, force=True)
    assert Store.open(copy).read() == Store.open(place).read()


def test_a_backup_is_put_back(place, tmp_path):
    copy, target = tmp_path / "backup.db", tmp_path / "restored.db"
    assert run("backup", place, copy).exit_code == 0
    said = run("restore", copy, target)
    assert "are back" in said.output
    assert Store.open(target).read() == Store.open(place).read()
    with pytest.raises(WouldOverwrite):
        gw.Study.restore(copy, target)
    with gw.Study.open(target) as study:
        study.tell(1, "high")
    said = run("restore", copy, target, "--force")
    assert "restored.db.replaced-1" in said.output.replace("\n", "")
    with gw.Study.open(tmp_path / "restored.db.replaced-1") as kept, gw.Study.open(target) as back:
        assert kept.state.labels[1] == "high"
        assert 1 not in back.state.labels


@pytest.mark.attack("kill -9 inside a write")
def test_a_restore_that_is_cut_short_leaves_a_study_at_its_path(place, tmp_path, monkeypatch):
    copy = tmp_path / "backup.db"
    run("backup", place, copy)
    replace = Path.replace

    def killed(path, target):
        if Path(target) == place:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        gw.Study.restore(copy, place, force=True)
    for path in (place, tmp_path / "labels.db.replaced-1"):
        assert Store.open(path).read() == Store.open(copy).read()


def test_studies_move_between_sqlite_and_postgresql(place, tmp_path, postgres):
    with gw.Study.restore(place, postgres) as study:
        study.tell(1, "low", by="bo")
        study.backup(tmp_path / "backup.db")
    with pytest.raises(StudyExists):
        gw.Study.restore(place, postgres, force=True)
    with gw.Study.open(tmp_path / "backup.db") as back, gw.Study.open(place) as first:
        assert back.identity == first.identity
        assert dict(back.state.labels) == {**first.state.labels, 1: "low"}
        assert back.pool.digest == first.pool.digest


def test_a_backup_of_a_newer_version_is_refused(place, tmp_path):
    changed(place, "UPDATE goalward_study SET version = 99")
    with pytest.raises(NewerVersion):
        gw.Study.restore(place, tmp_path / "newer.db")
    assert not (tmp_path / "newer.db").exists()


def test_a_damaged_study_is_not_backed_up(place, tmp_path):
    with gw.Study.open(place) as study:
        changed(place, "UPDATE goalward_blobs SET content = zeroblob(length(content))")
        with pytest.raises(Damaged):
            study.backup(tmp_path / "backup.db")
    assert [p.name for p in tmp_path.iterdir()] == ["labels.db"]


DAMAGE = {
    "text": "UPDATE goalward_events SET body = replace(body, '\"at\":', '\"at\":1') WHERE seq = ?",
    "digest": "UPDATE goalward_events SET digest = '0' || substr(digest, 2, 62) || 'g' WHERE seq = ?",
    "bytes": "UPDATE goalward_events SET body = CAST(x'ff00fe' AS TEXT) WHERE seq = ?",
    "gone": "DELETE FROM goalward_events WHERE seq = ?",
}
KEPT = {"text": 1, "digest": 0, "bytes": 1, "gone": 2}
"""Events lost of one that is damaged: without its digest the one after it cannot be checked."""


@pytest.mark.parametrize("kind", some_heavy(DAMAGE, [*DAMAGE][1:]))
@pytest.mark.attack("one event damaged, then recovered")
def test_one_damaged_event_costs_one_event(place, tmp_path, kind, tried):
    whole = Store.open(place).read()
    random.seed(0)
    for seq in [2, 3, *random.sample(range(4, len(whole)), 8), len(whole)]:
        damaged, rescued = tmp_path / f"d{seq}.db", tmp_path / f"r{seq}.db"
        shutil.copyfile(place, damaged)
        changed(damaged, DAMAGE[kind], seq)
        before = damaged.read_bytes()
        with pytest.raises(Damaged):
            gw.Study.open(damaged)
        expected = min(KEPT[kind], len(whole) - seq + 1)
        if expected:
            with pytest.warns(EventsLost, match=f"{expected} of {len(whole)} events"):
                study = gw.Study.recover(damaged, rescued)
        else:
            study = gw.Study.recover(damaged, rescued)
        with study:
            # Numbers stay, so everything that points to an event still does.
            assert [s for s, _ in study.state.lost] == list(range(seq, seq + expected))
            events = {r.seq: r.event for r in Store.open(rescued).read()}
            assert all(events[r.seq] == r.event for r in whole if not seq <= r.seq < seq + expected)
            study.refresh(force=True)
            row = study.ask(1, by="bo")[0]
            study.tell(row, "low", by="bo")
        assert damaged.read_bytes() == before
        # Again: nothing more is lost.
        again = tmp_path / f"a{seq}.db"
        if expected:
            with pytest.warns(EventsLost):
                second = gw.Study.recover(rescued, again)
        else:
            second = gw.Study.recover(rescued, again)
        with second:
            assert second.state.labels == gw.Study.open(rescued).state.labels
    tried(11)


def test_a_whole_study_recovered_is_the_same(place, tmp_path):
    with gw.Study.recover(place, tmp_path / "rescued.db") as study:
        assert study.state.lost == ()
    assert Store.open(tmp_path / "rescued.db").read() == Store.open(place).read()


@pytest.mark.attack("damaged pages")
def test_a_damaged_page_costs_what_stood_on_it(place, tmp_path):
    with gw.Study.open(place) as study:
        for row in range(100):
            study.note(row, "x" * 300, by="ann")
        total = study.state.seq
    raw = sqlite3.connect(place)
    size = raw.execute("PRAGMA page_size").fetchone()[0]
    leaf = (
        [
            page
            for page, kind, name in raw.execute("SELECT pageno, pagetype, name FROM dbstat")
            if kind == "leaf" and name == "goalward_events"
        ]
        if _has_dbstat(raw)
        else []
    )
    raw.close()
    content = bytearray(place.read_bytes())
    where = (leaf[len(leaf) // 2] - 1) * size if leaf else _page_with(content, size, b"x" * 300)
    content[where : where + size] = b"\xff" * size
    place.write_bytes(content)
    with pytest.warns(EventsLost):
        study = gw.Study.recover(place, tmp_path / "rescued.db")
    with study:
        assert study.state.seq == total
        assert 1 <= len(study.state.lost) <= 20
        assert len(study.state.labels) >= 20


FLIPS = int(os.environ.get("GOALWARD_FLIPS", "30"))


def _one_bit(content, rng):
    where = rng.randrange(len(content))
    content[where] ^= 1 << rng.randrange(8)
    return content


def _cut(content, rng):
    return content[: rng.randrange(len(content))]


def _bad_page(content, rng):
    where = rng.randrange(len(content) // 4096) * 4096
    content[where : where + 4096] = rng.randbytes(4096)
    return content


@pytest.mark.parametrize("damage", [_one_bit, _cut, _bad_page])
@pytest.mark.attack("one bit, a cut, a bad page anywhere in a study's file")
def test_damage_anywhere_is_found_or_changes_nothing(place, tmp_path, damage, tried):
    """What was said is never something else without a word."""
    with gw.Study.open(place) as study:
        said, classes, rows = dict(study.state.labels), study.state.classes, study.pool.X.tolist()
    whole, rng, copy = place.read_bytes(), random.Random(1), tmp_path / "copy.db"
    for _ in range(FLIPS):
        copy.write_bytes(damage(bytearray(whole), rng))
        with contextlib.suppress(Damaged, NotAStudy), gw.Study.open(copy) as study:
            assert dict(study.state.labels) == said
            assert study.state.classes == classes
            assert study.pool.X.tolist() == rows
        copy.with_name("copy.db-journal").unlink(missing_ok=True)
    tried(FLIPS)


def _has_dbstat(raw):
    try:
        raw.execute("SELECT pageno FROM dbstat LIMIT 1").fetchall()
    except sqlite3.OperationalError:
        return False
    return True


def _page_with(content, size, text):
    pages = [p for p in range(size, len(content), size) if text in content[p : p + size]]
    return pages[len(pages) // 2]


def test_answers_survive_the_loss_of_the_first_event(place, tmp_path):
    with gw.Study.open(place) as study:
        expected = dict(study.state.labels)
    changed(place, DAMAGE["text"], 1)
    with pytest.raises(Damaged, match=r"answers\.csv"):
        gw.Study.recover(place, tmp_path / "rescued.db")
    assert not (tmp_path / "rescued.db").exists()
    said = run("restore", "--recover", place, tmp_path / "answers.csv")
    assert "lost, 1 of 1" in said.output
    classes = ["low", "high", "middle"]
    with gw.Study.create(tmp_path / "new.db", pool=POOL, classes=classes) as study:
        done = study.import_labels(tmp_path / "answers.csv")
        assert not done.refused
        assert dict(study.state.labels) == expected


def test_the_declaration_of_a_class_may_be_lost(place, tmp_path):
    raw = sqlite3.connect(place)
    query = "SELECT seq FROM goalward_events WHERE body LIKE '%classadded%'"
    seq = raw.execute(query).fetchone()[0]
    raw.close()
    changed(place, DAMAGE["text"], seq)
    with pytest.warns(EventsLost):
        study = gw.Study.recover(place, tmp_path / "rescued.db")
    with study:
        assert study.state.classes == ("low", "high", "middle")
        assert study.state.labels[50] == "middle"
        study.refresh(force=True)


def test_what_was_lost_is_shown(place, tmp_path):
    changed(place, DAMAGE["text"], 5)
    said = run("restore", "--recover", place, tmp_path / "rescued.db", "--json")
    assert '"lost": [[5,' in said.output
    status = run("status", tmp_path / "rescued.db", "--json")
    assert '"lost": 1' in status.output

"""One file is all of a study: copied, moved, replaced, deleted."""

import os
import shutil
import signal

import pytest

import goalward as gw
from goalward.errors import NotWritten, Replaced
from goalward.studio.store import Store
from tests.studio.study.test_storage import started
from tests.studio.study.worker import answer, truth

POOL = [[i / 300] for i in range(300)]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "labels.db"


@pytest.fixture
def study(place):
    with gw.Study.create(place, pool=POOL, classes=["low", "high"]) as made:
        yield made


def labels_in(path):
    with gw.Study.open(path) as opened:
        return dict(opened.state.labels)


@pytest.mark.attack("file copied or moved while in use")
def test_a_copied_file_holds_every_answer(study, place):
    for row in range(200):
        study.tell(row, "low")
    copy = place.with_name("copy.db")
    shutil.copyfile(place, copy)
    assert len(labels_in(copy)) == 200
    assert sorted(p.name for p in place.parent.iterdir()) == ["copy.db", "labels.db"]


@pytest.mark.attack("file copied or moved while in use")
def test_a_copy_between_answers_is_whole_every_time(study, place, tried):
    copy = place.with_name("copy.db")
    for row in range(60):
        study.tell(row, "low" if row % 2 else "high")
        shutil.copyfile(place, copy)
        assert len(Store.open(copy).read()) == study.state.seq
        if row % 20 == 5:
            study.refresh()
    tried(60)


@pytest.mark.attack("file copied or moved while in use")
def test_a_file_moved_after_a_kill_holds_every_answer(study, place):
    """Only the one file is taken away, from under a process that had it open and was killed."""
    rows = range(0, 300, 15)
    worker, reports = started(str(place), "ann", answer, rows)
    assert [int(reports.recv_bytes()) for _ in rows] == list(rows)
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    moved = place.with_name("moved.db")
    place.rename(moved)
    assert labels_in(moved) == {row: truth(row) for row in rows}


@pytest.mark.attack("study deleted or replaced while in use")
def test_answers_to_a_deleted_study_are_refused(study, place, tried):
    study.tell(0, "low")
    aside = place.with_name("aside.db")
    place.rename(aside)
    for _ in range(2):
        with pytest.raises(NotWritten, match="is gone"):
            study.tell(1, "low")
    assert not place.exists()
    aside.rename(place)
    study.tell(1, "low")
    assert labels_in(place) == {0: "low", 1: "low"}
    tried(2)


@pytest.mark.attack("study deleted or replaced while in use")
def test_answers_to_another_study_at_the_same_place_are_refused(study, place, tmp_path, tried):
    study.tell(0, "low")
    place.unlink()
    with gw.Study.create(place, pool=POOL, classes=["low", "high"]) as other:
        for row in range(5):
            other.tell(row, "high")
        assert other.identity != study.identity
    for verb in (lambda: study.tell(1, "low"), study.undo, lambda: study.state):
        with pytest.raises(Replaced, match="another study"):
            verb()
    assert set(labels_in(place).values()) == {"high"}
    tried(3)


@pytest.mark.attack("study deleted or replaced while in use")
def test_an_older_copy_put_back_under_a_running_study_is_noticed(study, place):
    study.tell(0, "low")
    older = place.with_name("older.db")
    shutil.copyfile(place, older)
    study.tell(1, "high")
    os.replace(older, place)
    with pytest.raises(Replaced, match="older copy"):
        study.tell(2, "low")
    with gw.Study.open(place) as again:
        assert again.identity == study.identity
        again.tell(2, "low")


def test_a_study_is_its_owners_alone(study, place, tmp_path):
    study.backup(tmp_path / "backup.db")
    gw.Study.restore(tmp_path / "backup.db", tmp_path / "restored.db").close()
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path


@pytest.mark.parametrize("name", ["a#b.db", "a?b.db", "a%41.db", "a b&c=d.db", "ü;'\".db", "a#.db"])
@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
@pytest.mark.attack("odd paths")
def test_any_path_can_hold_a_study(tmp_path, name, prefix):
    place = f"{prefix}{tmp_path}/{name}"
    with gw.Study.create(place, pool=POOL, classes=["low", "high"]) as study:
        study.tell(0, "low")
        study.backup(tmp_path / f"backup-{name}")
    with gw.Study.open(place) as study:
        assert dict(study.state.labels) == {0: "low"}
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, f"backup-{name}"])
    assert labels_in(tmp_path / f"backup-{name}") == {0: "low"}

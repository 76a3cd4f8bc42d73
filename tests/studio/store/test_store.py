"""Files that are damaged, foreign, newer, older, locked, full or read-only."""

import multiprocessing
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import goalward as gw
from goalward.errors import (
    BadParameter,
    Damaged,
    EventsLost,
    Locked,
    NewerVersion,
    NotAStudy,
    NotWritten,
    StudyExists,
)
from goalward.studio.store import Store

POOL = [[i / 10] for i in range(10)]


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "labels.db"
    with gw.Study.create(path, pool=POOL, classes=["low", "high"]) as study:
        study.tell(0, "low", by="ann")
        study.tell(9, "high", by="ann")
    return path


def changed(path, statement, *values):
    connection = sqlite3.connect(path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


@pytest.mark.attack("bytes changed in a study")
def test_a_changed_byte_inside_an_event_is_found_on_opening(place):
    changed(place, "UPDATE goalward_events SET body = replace(body, 'high', 'HIGH') WHERE seq = 3")
    before = place.read_bytes()
    with pytest.raises(Damaged, match="Event 3"):
        gw.Study.open(place)
    assert place.read_bytes() == before
    with pytest.warns(EventsLost, match="1 of 3 events"):
        rescued = gw.Study.recover(place, place.with_name("rescued.db"))
    with rescued:
        assert dict(rescued.state.labels) == {0: "low"}
        assert rescued.ask(3, by="ann")
    assert place.read_bytes() == before


@pytest.mark.attack("bytes changed in a study")
def test_bytes_flipped_on_disk_are_found(place):
    content = bytearray(place.read_bytes())
    where = content.index(b'"label":"high"')
    content[where + 10] ^= 1
    place.write_bytes(content)
    with pytest.raises(Damaged):
        gw.Study.open(place)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM goalward_events WHERE seq = 3",
        "DELETE FROM goalward_events WHERE seq = 2",
        "UPDATE goalward_study SET head_seq = 2",
        "UPDATE goalward_events SET seq = 7 WHERE seq = 3",
    ],
)
@pytest.mark.attack("events cut off or moved")
def test_events_cut_off_or_moved_are_found(place, statement):
    changed(place, statement)
    with pytest.raises(Damaged):
        gw.Study.open(place)


def test_a_damaged_array_is_found_when_it_is_needed(place):
    changed(place, "UPDATE goalward_blobs SET content = zeroblob(length(content))")
    with gw.Study.open(place) as study, pytest.raises(Damaged, match="array"):
        study.pool  # noqa: B018


@pytest.mark.parametrize("left", [0.3, 0.6, 0.9])
@pytest.mark.attack("files cut off")
def test_a_truncated_file_is_a_clear_error_and_is_left_alone(place, left):
    content = place.read_bytes()[: int(place.stat().st_size * left)]
    place.write_bytes(content)
    with pytest.raises((Damaged, NotAStudy)), gw.Study.open(place) as study:
        study.pool  # noqa: B018
    assert place.read_bytes() == content


@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n", os.urandom(5000), b"SQLite format 3\0" + b"x" * 90]
)
@pytest.mark.attack("files that are no study")
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "labels.db"
    path.write_bytes(content)
    with pytest.raises(NotAStudy):
        gw.Study.open(path)
    with pytest.raises(StudyExists):
        gw.Study.create(path, pool=POOL, classes=["a", "b"])
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["labels.db"]


def test_a_database_of_somebody_else_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    changed(path, "CREATE TABLE people (name)")
    before = path.read_bytes()
    with pytest.raises(NotAStudy):
        gw.Study.open(path)
    with pytest.raises(StudyExists):
        gw.Study.create(path, pool=POOL, classes=["a", "b"])
    assert path.read_bytes() == before


def test_a_place_without_a_study_and_one_that_is_taken(tmp_path, place):
    with pytest.raises(NotAStudy, match="no study"):
        gw.Study.open(tmp_path / "absent.db")
    assert not (tmp_path / "absent.db").exists()
    with pytest.raises(StudyExists, match="already"):
        gw.Study.create(place, pool=POOL, classes=["a", "b"])
    with pytest.raises(NotWritten):
        gw.Study.create(tmp_path / "no" / "folder.db", pool=POOL, classes=["a", "b"])


def test_a_creation_that_was_cut_off_can_be_repeated(tmp_path):
    path = tmp_path / "labels.db"
    Store.create(path, lambda transaction: None).close()
    with pytest.raises(NotAStudy, match="never finished"):
        gw.Study.open(path)
    gw.Study.create(path, pool=POOL, classes=["a", "b"]).close()


@pytest.mark.parametrize("address", ["mysql://x/y", "sqlite://", "sqlite:///:memory:", "::://"])
def test_an_address_that_cannot_hold_a_study_is_refused(address):
    with pytest.raises(BadParameter):
        gw.Study.open(address)


@pytest.mark.parametrize("version", [0, 99])
def test_a_file_of_another_version_is_refused_and_left_alone(place, version):
    changed(place, "UPDATE goalward_study SET version = ?", version)
    before = place.read_bytes()
    with pytest.raises(NewerVersion, match=f"version {version}, this goalward reads version 1"):
        gw.Study.open(place)
    assert place.read_bytes() == before


@pytest.mark.attack("full disk, locked study")
def test_a_study_held_by_another_process_is_a_clear_error(place):
    holder = sqlite3.connect(place, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with gw.Study.open(place, timeout=0.1) as study:
        with pytest.raises(Locked, match="held by another"):
            study.tell(1, "low", by="ann")
        assert 1 not in study.state.labels
        holder.execute("ROLLBACK")
        study.tell(1, "low", by="ann")
        assert study.state.labels[1] == "low"
    holder.close()


def fill(path, report):
    """Answer until the disk is full: the largest size of a file stands in for it."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with gw.Study.open(path) as study:
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40_000, resource.RLIM_INFINITY))
        acknowledged = 0
        try:
            for i in range(10_000):
                study.note(i % 10, "x" * 500, by="ann")
                acknowledged += 1
        except NotWritten as error:
            seen = sum(len(notes) for notes in study.state.notes.values())
            report.send((acknowledged, seen, str(error)))
            return
    report.send((acknowledged, -1, "no error"))


@pytest.mark.attack("full disk, locked study")
def test_a_full_disk_is_a_clear_error_and_loses_nothing_acknowledged(place, tried):
    context = multiprocessing.get_context("forkserver")
    heard, report = context.Pipe(duplex=False)
    worker = context.Process(target=fill, args=(place, report))
    worker.start()
    acknowledged, seen, error = heard.recv()
    worker.join()
    assert 0 < acknowledged == seen
    assert "Nothing was stored" in error
    with gw.Study.open(place) as study:
        assert sum(len(notes) for notes in study.state.notes.values()) == acknowledged
        study.tell(3, "low", by="ann")
    tried(acknowledged)


CUT_OFF = """
import os, signal, sqlite3, sys
raw = sqlite3.connect(sys.argv[1], isolation_level=None)
raw.execute("PRAGMA cache_size=1")
raw.execute("BEGIN IMMEDIATE")
raw.execute("UPDATE goalward_events SET body = 'half-written'")
raw.execute("INSERT INTO goalward_blobs VALUES ('x', zeroblob(1000000))")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.attack("kill -9 inside a write")
def test_what_a_killed_process_left_half_written_is_undone_on_opening(place):
    """Its pages are in the file already, and the way back in the journal beside it."""
    before = place.stat().st_size
    subprocess.run([sys.executable, "-c", CUT_OFF, str(place)], check=False)
    assert place.stat().st_size > before
    assert place.with_name("labels.db-journal").stat().st_size > 0
    with gw.Study.open(place) as study:
        assert dict(study.state.labels) == {0: "low", 9: "high"}
    assert not place.with_name("labels.db-journal").exists()


MADE_IN_PART = """
import os, signal, sys
from goalward.studio.store import Store

def fill(transaction):
    connection = transaction.connection
    connection.exec_driver_sql("PRAGMA cache_size=1")
    connection.exec_driver_sql("CREATE TABLE filler (x)")
    for _ in range(50):
        connection.exec_driver_sql("INSERT INTO filler VALUES (randomblob(4000))")
    os.kill(os.getpid(), signal.SIGKILL)

Store.create(sys.argv[1], fill)
"""


@pytest.mark.attack("kill -9 inside a write")
def test_a_study_whose_maker_was_killed_half_way_is_a_free_place(tmp_path):
    """Looking at it undoes what was written, and leaves an empty file."""
    path = tmp_path / "labels.db"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", MADE_IN_PART, str(path)], check=False)
        assert path.stat().st_size > 0
        assert path.with_name("labels.db-journal").stat().st_size > 0
        with pytest.raises(NotAStudy, match="no study"):
            gw.Study.open(path)
    subprocess.run([sys.executable, "-c", MADE_IN_PART, str(path)], check=False)
    with gw.Study.create(path, pool=POOL, classes=["low", "high"]) as study:
        assert study.n_rows == 10


READ_ONLY = """
import os, sys
from goalward.studio.study import Study
from goalward.errors import StudyError
USER
try:
    Study.open(sys.argv[1]).tell(3, "low", by="ann")
except StudyError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def folder():
    """A folder of its own, that another user may look into whatever others do to theirs."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_read_only_file_is_a_clear_error(place, folder):
    inner = folder / "inner"
    inner.mkdir()
    shutil.copyfile(place, inner / "labels.db")
    (inner / "labels.db").chmod(0o444)
    inner.chmod(0o555)
    # Root may write anywhere: try as somebody who may not.
    user = "os.setuid(65534)" if os.geteuid() == 0 else ""
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY.replace("USER", user), str(inner / "labels.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    inner.chmod(0o755)
    assert done.stdout.startswith("NotWritten"), done
    with gw.Study.open(inner / "labels.db") as study:
        assert len(study.state.labels) == 2


def test_threads_share_a_study(place):
    with gw.Study.open(place) as study:
        asked = []
        threads = [
            threading.Thread(target=lambda i=i: asked.extend(study.ask(2, by=f"p{i}")))
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(asked) == len(set(asked)) == 8


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_uses_connections_of_its_own(place):
    with gw.Study.open(place) as study:
        study.tell(1, "low", by="ann")
        child = os.fork()
        if child == 0:
            study.tell(2, "low", by="child")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        study.tell(3, "high", by="ann")
        assert set(study.state.labels) == {0, 1, 2, 3, 9}


def test_the_disk_is_asked_to_keep_every_answer(place):
    store = Store.open(place)

    def said(connection):
        return [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("synchronous", "journal_mode")
        ]

    # EXTRA, the folder too; and no answer in another file than the study's.
    assert store.run(said) == [3, "delete"]
    store.close()

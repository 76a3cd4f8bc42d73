"""What every database must keep to, under several processes and kill -9: one contract for all."""

import contextlib
import csv
import multiprocessing
import os
import random
import signal
import time

import numpy as np
import pytest
from sqlalchemy import event

import goalward as gw
from goalward.errors import Locked, NotAStudy, StudyExists
from goalward.studio.store import Ranked, Store, Told, Undone
from tests.studio.study.test_study import X, answered, made
from tests.studio.study.worker import busy, grow, repeat, truth, work

KILLS = int(os.environ.get("GOALWARD_KILLS", "4"))
POOL = np.linspace(-1, 1, 100)[np.arange(3000) % 100, None] + np.arange(3000)[:, None] * 1e-6


# A clean process that has everything imported and forks the workers: real processes, cheaply.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.studio.study.worker"])


def started(place, by, target=work, *more):
    reports, report = CONTEXT.Pipe(duplex=False)
    worker = CONTEXT.Process(target=target, args=(place, by, report, *more))
    worker.start()
    report.close()
    return worker, reports


def killed(place, by, answers, rng, target=work, *more):
    """Run a worker to some reports, kill it later, and return what it had acknowledged."""
    worker, reports = started(place, by, target, *more)
    said = [reports.recv_bytes().decode() for _ in range(answers)]
    # Any moment will do: what is checked does not depend on how far it got.
    time.sleep(rng.uniform(0.0, 0.15))
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    return said + heard(reports)


def heard(reports):
    said = []
    # What was cut off while being reported was not acknowledged.
    with contextlib.suppress(EOFError, OSError):
        while True:
            said.append(reports.recv_bytes().decode())
    reports.close()
    return said


def written(place):
    """Return what the journal says of answers and undone ones, in order."""
    store = Store.open(place)
    events = [recorded.event for recorded in store.read()]
    store.close()
    return [
        str(e.row) if isinstance(e, Told) else "undo"
        for e in events
        if isinstance(e, (Told, Undone))
    ]


def harness(place, kills):
    gw.Study.create(place, pool=POOL, classes=["low", "high"], lease=1e-3, dev=0.1).close()
    rng = random.Random(0)
    before = least = 0
    for _ in range(kills):
        answers = rng.choice([0, 1, 1, 2, 3])
        least += answers
        said = killed(place, "ann", answers, rng)
        journal = written(place)
        new, before = journal[before:], len(journal)
        # All that was acknowledged, once, in order; and at most the one that was cut off between
        # being stored and being reported.
        assert new[: len(said)] == said
        assert len(new) - len(said) in (0, 1)
    assert before >= least
    with gw.Study.open(place) as study, gw.Study.open(place) as other:
        assert all(label == truth(row) for row, label in study.state.labels.items())
        now = time.time()
        dealt = study._questions.next(study.state, 5, "next", now)
        assert dealt == other._questions.next(other.state, 5, "next", now)
        row = study.ask(1, by="bo")[0]
        study.tell(row, truth(row), by="bo")
        assert other.state.labels[row] == truth(row)


def busy_harness(place, folder, kills):
    """Kill runs that import, rank, export, back up and create."""
    with gw.Study.create(place, pool=POOL, classes=["low", "high"]) as study:
        study.tell_many([(row, truth(row)) for row in range(2945, 2955)])
    rng = random.Random(1)
    said = []
    for _ in range(kills):
        said += killed(place, "p", rng.randrange(4), rng, busy, folder)
        # Whatever was cut off: the study opens, and every file under its own name is whole.
        with gw.Study.open(place) as study:
            labels = study.state.labels
            assert len(labels) % 5 == 0, "a file of labels is taken in whole, or not"
            assert all(label == truth(row) for row, label in labels.items())
        for path in sorted(folder.glob("[0-9]*")):
            if path.exists():
                check_file(path, int(path.name.partition(".")[0]), said)
        for path in folder.iterdir():
            path.unlink()
    events = [recorded.event for recorded in Store.open(place).read()]
    told = [event.row for event in events if isinstance(event, Told)]
    assert len(told) == len(set(told)), "no answer twice"
    imports = [int(word.split()[1]) for word in said if word.startswith("import")]
    assert set(told) >= {row for first in imports for row in range(first, first + 5)}
    assert sum(isinstance(event, Ranked) for event in events) >= said.count("refresh")


def check_file(path, first, said):
    """Raise unless a file is whole, and holds all that was answered before it."""
    if path.name.endswith(".out.csv"):
        with path.open(newline="") as file:
            rows = {int(line["row"]) for line in csv.DictReader(file) if line["note"] == ""}
        assert set(range(first, first + 5)) <= rows
        assert len(rows) % 5 == 0
    elif path.name.endswith(".backup.db"):
        with gw.Study.open(path) as study:
            assert set(range(first, first + 5)) <= set(study.state.labels)
            assert study.pool.X.shape == POOL.shape
    elif path.name.endswith(".new.db"):
        try:
            with gw.Study.open(path) as study:
                assert study.n_rows == 2
        except NotAStudy:
            # Cut off while it was made: undone, and a free place.
            assert path.stat().st_size == 0
            assert f"create {first}" not in said
    else:
        # SQLite's own, by which it undoes what was cut off; and what the run took in.
        assert path.name.endswith((".in.csv", ".new.db-journal")), path


@pytest.mark.attack("kill -9 of a process that answers")
@pytest.mark.often
def test_nothing_is_torn_when_a_busy_process_is_killed(storage, tmp_path, tried):
    (tmp_path / "files").mkdir()
    busy_harness(storage, tmp_path / "files", KILLS)
    tried(KILLS)


@pytest.mark.attack("kill -9 of a process that answers")
@pytest.mark.often
def test_no_acknowledged_answer_is_lost_when_the_process_is_killed(storage, tried):
    harness(storage, KILLS)
    tried(KILLS)


@contextlib.contextmanager
def at_work(place, *targets):
    """Have processes work on a study meanwhile; each has done something before, and is killed after."""
    workers = [started(place, f"p{n}", target) for n, target in enumerate(targets)]
    try:
        for _, reports in workers:
            reports.recv_bytes()
        yield [reports for _, reports in workers]
        assert all(worker.is_alive() for worker, _ in workers)
    finally:
        for worker, reports in workers:
            worker.kill()
            worker.join()
            heard(reports)


@pytest.mark.attack("processes at once")
def test_two_workers_at_once_never_answer_the_same_row(storage):
    gw.Study.create(storage, pool=POOL, classes=["low", "high"], lease=600).close()
    with at_work(storage, work, work) as workers:
        for reports in workers:
            for _ in range(30):
                reports.recv_bytes()
    with gw.Study.open(storage) as study:
        assert len(study.state.labels) > 30
        assert all(len(said) == 1 for said in study.state.standings.values())
        assert not study.status()["disagreements"]


@pytest.mark.attack("looks while others answer")
@pytest.mark.often
def test_a_look_while_others_answer_sees_a_whole_study(storage, tmp_path, tried):
    """Two processes answer, one adds rows; here the study is opened, and backed up."""
    gw.Study.create(storage, pool=POOL[:300], classes=["low", "high"]).close()
    with at_work(storage, repeat, repeat, grow):
        for look in range(KILLS):
            with gw.Study.open(storage) as study:
                before = study.state.seq
                if look % 5 == 0:
                    assert study.backup(tmp_path / f"{look}.db") >= before
                    with gw.Study.open(tmp_path / f"{look}.db") as copy:
                        assert copy.pool.n_rows == copy.n_rows > 300
    tried(KILLS)


def test_a_look_is_one_moment_whatever_is_stored_in_it(storage):
    """Somebody answers after the head was read, and before the events are."""
    gw.Study.create(storage, pool=POOL, classes=["low", "high"]).close()
    with gw.Study.open(storage) as study, gw.Study.open(storage, timeout=0.1) as other:
        other.tell(0, "low")
        reader, told = Store.open(storage), []

        def tell(_connection, _cursor, statement, *_):
            if "head_seq" in statement and not told:
                told.append(0)
                # SQLite has others wait for a look to end.
                with contextlib.suppress(Locked):
                    told.append(other.tell(1, "low"))

        event.listen(reader._engine, "after_cursor_execute", tell)
        assert [recorded.seq for recorded in reader.read()] == [1, 2]
        assert told
        reader.close()
        assert study.state.seq == max(2, *told)


def test_a_study_is_the_same_in_every_database(storage, tmp_path):
    ours = answered(made(tmp_path, "first.db", dev=0.2), 3)
    with gw.Study.create(storage, pool=X, classes=[0, 1, 2], dev=0.2) as study:
        answered(study, 3)
        assert dict(study.state.labels) == dict(ours.state.labels)
        expected = ours.ask(5)
    with gw.Study.open(storage) as again:
        assert again.ask(5) == expected
    with pytest.raises(StudyExists):
        gw.Study.create(storage, pool=X, classes=[0, 1, 2])

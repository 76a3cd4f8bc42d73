"""kill -9 at random moments of a busy run: no acknowledged answer is lost, none is doubled."""

import contextlib
import multiprocessing
import os
import random
import signal
import time

import numpy as np

import goalward as gw
from goalward.journal import Store, Told, Undone
from tests.study.worker import truth, work

KILLS = int(os.environ.get("GOALWARD_KILLS", "10"))
POOL = np.linspace(-1, 1, 100)[np.arange(3000) % 100, None] + np.arange(3000)[:, None] * 1e-6


# A clean process that has everything imported and forks the workers: real processes, cheaply.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.study.worker"])


def started(place, by):
    reports, report = CONTEXT.Pipe(duplex=False)
    worker = CONTEXT.Process(target=work, args=(place, by, report))
    worker.start()
    report.close()
    return worker, reports


def killed(place, by, answers, rng):
    """Run a worker to some answers, kill it later, and return what it had acknowledged."""
    worker, reports = started(place, by)
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
        dealt = study._dealer.deal(study.state, 5, "next", now)
        assert dealt == other._dealer.deal(other.state, 5, "next", now)
        row = study.ask(1, by="bo")[0]
        study.tell(row, truth(row), by="bo")
        assert other.state.labels[row] == truth(row)


def test_no_acknowledged_answer_is_lost_when_the_process_is_killed(tmp_path):
    harness(f"sqlite:///{tmp_path}/labels.db", KILLS)


def test_no_acknowledged_answer_is_lost_on_postgresql(postgres):
    harness(postgres, KILLS)


def test_two_workers_at_once_never_answer_the_same_row(tmp_path):
    place = f"sqlite:///{tmp_path}/labels.db"
    gw.Study.create(place, pool=POOL, classes=["low", "high"], lease=600).close()
    workers = [started(place, by) for by in ("ann", "bo")]
    for _, reports in workers:
        for _ in range(30):
            reports.recv_bytes()
    for worker, reports in workers:
        worker.kill()
        worker.join()
        heard(reports)
    with gw.Study.open(place) as study:
        assert len(study.state.labels) > 30
        assert all(len(said) == 1 for said in study.state.standings.values())
        assert not study.status()["disagreements"]

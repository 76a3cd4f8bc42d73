"""Ctrl-C inside any verb: stored or not, never half; no lock is left, memory agrees with the disk."""

import gc
import os
import random
import signal
import sqlite3
import sys
from itertools import count

import pytest

import goalward as gw
from goalward.errors import GoalwardError
from goalward.journal import Store
from goalward.study.state import State, folded

TRIES = int(os.environ.get("GOALWARD_INTERRUPTS", "200"))
"""Of each kind; more in CI."""
# Python swallows an interrupt that strikes in a finaliser, and says so.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
POOL = [[i / 200] for i in range(200)]
LABELS = ("low", "high")
STRUCK = ("goalward/journal", "goalward/study", "sqlalchemy", "contextlib", "whole_file")
"""Files whose lines are struck one by one: where a transaction begins and ends."""


@pytest.fixture
def study(tmp_path):
    with gw.Study.create(tmp_path / "labels.db", pool=POOL, classes=LABELS, refit=50) as made:
        for row in (0, 50, 150, 199):
            made.tell(row, LABELS[row > 100])
        made.refresh()
        yield made


def verbs(study, folder):
    rng, names = random.Random(1), count()
    return [
        lambda: study.tell(rng.randrange(200), rng.choice(LABELS)),
        lambda: study.ask(2, by=rng.choice("bc"), at_most=True),
        study.undo,
        lambda: study.skip(rng.randrange(200)),
        lambda: study.note(rng.randrange(200), "a note"),
        lambda: study.withdraw(rng.randrange(200)),
        lambda: study.state,
        study.refresh,
        lambda: study.export(folder / f"{next(names)}.csv"),
        lambda: study.backup(folder / f"{next(names)}.db"),
        lambda: gw.Study.create(folder / f"{next(names)}.db", pool=POOL, classes=LABELS).close(),
    ]


def check_lock(place):
    """Raise unless others can write at once."""
    if str(place).startswith("postgresql"):
        import psycopg

        with psycopg.connect(place) as other:
            other.execute("SELECT version FROM goalward_study FOR UPDATE NOWAIT")
        return
    other = sqlite3.connect(place, timeout=0.0, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        other.execute("ROLLBACK")
    finally:
        other.close()


def check(study, folder, place=None):
    """Raise unless others can write at once, and memory is what the disk says."""
    place = place or folder / "labels.db"
    check_lock(place)
    state, disk = study._state, folded(State(), Store.open(place).read())
    # What was stored before the strike may not be known yet; what is known is on the disk.
    assert state.seq <= disk.seq
    state = study.state
    assert state.mark == disk.mark
    assert (state.labels, state.skipped, state.moves) == (disk.labels, disk.skipped, disk.moves)
    assert state.pending == disk.pending
    for path in folder.iterdir():
        if path.name != "labels.db" and not path.name.startswith("."):
            # Files that a verb wrote are whole.
            if path.suffix == ".db" and path.stat().st_size:
                assert Store.open(path).read()
            elif path.suffix == ".csv":
                assert path.read_text().endswith("\n")
            path.unlink()


def test_a_signal_at_any_moment(study, tmp_path):
    strike_often(study, verbs(study, tmp_path), TRIES, lambda: check(study, tmp_path))


def test_a_signal_at_any_moment_on_postgresql(postgres, tmp_path):
    with gw.Study.create(postgres, pool=POOL, classes=LABELS) as study:
        todo = verbs(study, tmp_path)[:-2]
        strike_often(study, todo, TRIES // 4, lambda: check(study, tmp_path, postgres))


def strike_often(study, todo, tries, check):
    """A timer strikes where a person would press Ctrl-C; tracebacks are kept, as notebooks do."""
    rng, armed, kept = random.Random(0), False, []

    def strike(*_):
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, strike)
    try:
        while len(kept) < tries:
            armed = True
            try:
                signal.setitimer(signal.ITIMER_REAL, 10 ** rng.uniform(-4.5, -1.8))
                rng.choice(todo)()
            except GoalwardError:
                pass
            except BaseException as error:
                # Libraries may answer an interrupt with an error of their own.
                if armed:
                    raise
                kept.append(error)
            finally:
                armed = False
            check()
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # What the tracebacks held is let go of here, where it is expected.
    kept.clear()
    gc.collect()
    for row in range(10):
        study.tell(row, "low", by="last")


def struck(verb, at):
    """Run a verb with an interrupt in its `at`-th line; return how many lines there were."""
    lines = 0

    def trace(frame, kind, _):
        nonlocal lines
        if not any(part in frame.f_code.co_filename for part in STRUCK):
            return None
        if frame.f_code.co_name in ("_let_go", "__del__") or "weakref" in frame.f_code.co_name:
            return None  # where an interrupt is already being dealt with
        if kind == "line":
            lines += 1
            if lines == at:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        verb()
    except GoalwardError:
        pass
    finally:
        sys.settrace(before)
    return lines


def test_an_interrupt_in_any_line(study, tmp_path):
    """Every line of a few verbs, or as many as are tried, is struck once."""
    rng, kept = random.Random(0), []
    tell, ask, undo, *_, refresh, _, backup, create = verbs(study, tmp_path)
    for verb in (tell, ask, undo, refresh, backup, create):
        total = struck(verb, 0)
        check(study, tmp_path)
        tries = max(TRIES // 6, 1)
        for at in sorted(rng.sample(range(1, total + 1), min(tries, total))):
            try:
                struck(verb, at)
            except KeyboardInterrupt as error:
                kept.append(error)
            check(study, tmp_path)
    assert len(kept) > TRIES // 2

"""Ctrl-C inside any verb, over and over, in a process of its own.

An interrupt can strike inside a lock of Python's own logging or threads, which then stays held:
whoever else runs in the process would pay for it.
"""

import random
import signal
import sqlite3
import sys
import traceback
from itertools import count

import goalward as gw
from goalward.errors import GoalwardError
from goalward.studio.store import Store
from goalward.studio.study.ledger import Replica

POOL = [[i / 200] for i in range(200)]
LABELS = ("low", "high")
STRUCK = (
    "goalward/studio/store",
    "goalward/studio/study",
    "sqlalchemy",
    "contextlib",
    "goalward/core/files",
)
"""Files whose lines are struck one by one: where a transaction begins and ends."""


def answered(place):
    study = gw.Study.create(place, pool=POOL, classes=LABELS, refit=50)
    for row in (0, 50, 150, 199):
        study.tell(row, LABELS[row > 100])
    study.refresh()
    return study


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
            # A server ends what a closed connection had begun a moment after it was closed.
            other.execute("SET lock_timeout = '20s'")
            other.execute("SELECT version FROM goalward_study FOR UPDATE")
        return
    other = sqlite3.connect(place, timeout=0.0, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        other.execute("ROLLBACK")
    finally:
        other.close()


def check(study, folder, place):
    """Raise unless others can write at once, and memory is what the disk says."""
    check_lock(place)
    state, disk = study._ledger.known, Replica().take(Store.open(place).read())
    # What was stored before the strike may not be known yet; what is known is on the disk.
    assert state.seq <= disk.seq
    state = study.state
    assert state.mark == disk.mark
    assert (state.labels, state.skipped, state.moves) == (disk.labels, disk.skipped, disk.moves)
    assert state.pending == disk.pending
    assert state.header() == disk.header()
    assert study.check() == disk.seq
    for path in folder.iterdir():
        if path.name != "labels.db" and not path.name.startswith("."):
            # Files that a verb wrote are whole.
            if path.suffix == ".db" and path.stat().st_size:
                assert Store.open(path).read()
            elif path.suffix == ".csv":
                assert path.read_text().endswith("\n")
            path.unlink()


def signals(folder, place, tries):
    """Strike by a timer; return how often it struck."""
    with answered(place) as study:
        return strike_often(study, verbs(study, folder), tries, lambda: check(study, folder, place))


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
    for row in range(10):
        study.tell(row, "low", by="last")
    return len(kept)


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


def lines(folder, place, tries):
    """Strike lines of a few verbs, drawn at random, once each; return how often it struck."""
    rng, kept = random.Random(0), []
    study = answered(place)
    tell, ask, undo, *_, refresh, _, backup, create = verbs(study, folder)
    for verb in (tell, ask, undo, refresh, backup, create):
        total = struck(verb, 0)
        check(study, folder, place)
        for at in sorted(rng.sample(range(1, total + 1), min(max(tries // 6, 1), total))):
            try:
                struck(verb, at)
            except KeyboardInterrupt as error:
                kept.append(error)
            check(study, folder, place)
    return len(kept)


def reported(target, report, *arguments):
    """Run one of the above and send how often it struck, or what went wrong."""
    try:
        report.send(target(*arguments))
    except BaseException:
        report.send(traceback.format_exc())

"""A study that has grown old: its tables follow from its events, and are all that is read."""

import gc
import sqlite3
import threading
from collections import Counter
from dataclasses import replace
from itertools import islice, starmap

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import goalward as gw
from goalward.cli.studies import status
from goalward.core.rows import Labelled
from goalward.errors import Damaged
from goalward.studio.store import Recorded, events
from goalward.studio.store.store import Store
from goalward.studio.store.tables import FOLDED
from goalward.studio.study import decisions, ledger
from goalward.studio.study import settings as study_settings
from goalward.studio.study.ledger import Replica
from goalward.studio.study.reader import Reader
from goalward.studio.study.state import State

ROWS, PEOPLE, NAMES = 6, ("ann", "bo", "cy"), ("a", "b", "c", "d")


class Plain:
    """The same events in dictionaries: what everybody says, and what they can undo."""

    def __init__(self):
        self.said, self.done, self.asked, self.held = {}, {}, {}, set()

    def say(self, row, by, what):
        self.done.setdefault(by, []).append((row, self.said.get((row, by))))
        self.put(row, by, what)

    def put(self, row, by, what):
        self.held.discard((row, by))
        self.said.pop((row, by), None)
        if what is not None:
            self.said[row, by] = what

    def rename(self, old, new):
        def now(what):
            return (new, what[1]) if what is not None and what[0] == old else what

        self.said = {key: now(what) for key, what in self.said.items()}
        self.done = {by: [(r, now(what)) for r, what in d] for by, d in self.done.items()}


@st.composite
def journals(draw):
    """Return events that a study could have, and what they add up to."""
    answers = draw(st.sampled_from([1, 2]))
    rule = draw(st.sampled_from(["latest", "majority", "weighed"]))
    options = {"label": rule, "answers": answers, "dev": 0.3}
    settings_ = study_settings.Settings.checked(["a", "b", "c"], None, "margin", **options)
    pool = {"kind": "inside", "n_rows": ROWS, "aside": [0]}
    found = [events.Created(at=0.0, settings=settings_.to_json(), pool=pool, versions={})]
    plain, classes = Plain(), ["a", "b", "c"]
    acts = (
        "tell",
        "tell",
        "tell",
        "skip",
        "withdraw",
        "undo",
        "undo",
        "ask",
        "rename",
        "lost",
        "more",
    )
    for _ in range(draw(st.integers(1, 40))):
        seq, at = len(found) + 1, float(len(found))
        row, by = draw(st.integers(0, ROWS - 1)), draw(st.sampled_from(PEOPLE))
        one = {"at": at, "row": row, "by": by}
        act = draw(st.sampled_from(acts))
        if act == "tell":
            label = draw(st.sampled_from(classes))
            found.append(events.Told(**one, label=label))
            plain.say(row, by, (label, seq))
        elif act == "skip":
            found.append(events.Skipped(**one))
            plain.say(row, by, (None, seq))
        elif act == "withdraw" and (row, by) in plain.said:
            found.append(events.Withdrawn(**one))
            plain.say(row, by, None)
        elif act == "undo" and plain.done.get(by):
            row, before = plain.done[by].pop()
            found.append(events.Undone(**{**one, "row": row}, until=at + 9))
            plain.put(row, by, before)
            if before is None:
                plain.held.add((row, by))
        elif act == "ask":
            asked = {"rows": (row,), "utilities": (at,), "ranking": None, "dev": 0}
            found.append(events.Asked(at=at, by=by, until=at + 9, **asked))
            plain.asked[row] = (at, None)
            plain.held.add((row, by))
        elif act == "rename":
            place = draw(st.integers(0, 2))
            free = next(name for name in NAMES if name not in classes)
            said = {"label": classes[place], "name": free, "colour": None, "text": None}
            found.append(events.Described(at=at, **said))
            plain.rename(classes[place], free)
            classes[place] = free
        elif act == "lost":
            found.append(events.Lost(at=at, text="?"))
        elif act == "more":
            aside = draw(st.sampled_from([[0], [], [0, 1]]))
            found.append(events.Extended(at=at, pool={**pool, "aside": aside}))
    return found, plain


def written(state):
    """Return all of a state that can be compared."""
    found = {name: getattr(state, name) for name in ("training", "dev", "skipped", "annotators")}
    found |= {name: dict(getattr(state, name)) for name in ("standings", "labels", "leases")}
    found["first"] = [column.tolist() for column in state.first_answers]
    found["closed"] = state.closed.tolist()
    return found, state.header(), state.mark


def recorded(found):
    return list(starmap(Recorded, ((seq, e, f"{seq:064x}") for seq, e in enumerate(found, 1))))


def tables(replica):
    return [replica.connection.execute(sa.select(table)).all() for table in FOLDED]


@pytest.mark.heavy
@given(journals(), st.integers(1, 40))
@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
def test_tables_and_counts_are_those_of_a_plain_fold(journal, at):
    found, plain = journal
    whole, steps = Replica(), Replica()
    once = whole.take(recorded(found))
    states = [steps.take([one]) for one in recorded(found)]
    assert written(states[-1]) == written(once)
    assert tables(steps) == tables(whole)
    # In any batches; and a state that was read before more came stays as it was.
    parts, at = Replica(), min(at, len(found))
    middle = parts.take(recorded(found)[:at])
    before = written(middle)
    assert written(parts.take(recorded(found)[at:])) == written(once)
    assert tables(parts) == tables(whole)
    fresh = State.of(middle.mark, middle.header(), NoEvents(middle, parts.reader.run))
    assert written(fresh) == before
    said = {(row, by): s[:2] for row, all_ in once.standings.items() for by, s in all_.items()}
    assert said == plain.said
    for by in PEOPLE:
        _, undone = decisions.undone(once, 0.0, by)
        assert [e.row for e in undone] == [row for row, _ in plain.done.get(by, [])[-1:]]
    assert {(row, by) for row, held in once.leases.items() for by in held} == plain.held
    for row in range(ROWS):
        assert once.question(row) == plain.asked.get(row, (None, None))
    _counts_are_a_recount(once)


class NoEvents(Reader):
    """A reader of tables without a journal beside them."""

    def __init__(self, state, run):
        super().__init__(run)
        self._settings, self.pool = state.settings, state.pool

    def event(self, seq):
        return self


def _counts_are_a_recount(state):
    said = {row: [s.label for s in all_.values()] for row, all_ in state.standings.items()}
    answered = {row: [x for x in labels if x is not None] for row, labels in said.items()}
    assert state.n_labels == len(state.labels) == sum(bool(x) for x in answered.values())
    assert state.n_training == len(state.training)
    assert state.n_skipped == len(state.skipped)
    assert state.n_answers == sum(map(len, answered.values()))
    assert state.n_closed == len(state.closed)
    done = {row for row in said if not state.needs_answer(row)} | state.aside
    assert set(state.closed.tolist()) == done
    assert set(state.begun) == {row for row in said if state.needs_answer(row)}
    assert state.counted("disagreements") == sum(len(set(x)) > 1 for x in answered.values())
    people = Counter(by for all_ in state.standings.values() for by in all_)
    assert {by: state.counted("by", by) for by in people} == people
    dev, place = state.settings.is_dev, state.classes.index
    counts = Counter((bool(dev([r])[0]), place(x)) for r, x in state.labels.items())
    assert state.counts == counts
    assert {row: state.label(row) for row in said if state.label(row) is not None} == state.labels


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A study of more events than are checked when it is opened."""
    monkeypatch.setattr(ledger, "FEW", 10)
    place = tmp_path / "old.db"
    with gw.Study.create(place, pool=np.eye(60)[:, :3], classes=["a", "b"], dev=0) as study:
        for row in range(50):
            study.tell(row, "ab"[row % 2], by=PEOPLE[row % 3])
            if row % 10 == 0:
                study.note(row, "odd", by="ann")
        study.ask(3, refresh=False)
        study.refresh()
    return place


def _changed(place, command):
    Store.open(place, damaged=True).run(lambda c: c.exec_driver_sql(command), purpose="write")


def test_an_old_study_opens_without_reading_its_journal(old, monkeypatch):
    read = []
    monkeypatch.setattr(Store, "events", lambda *args: read.append(args))
    with gw.Study.open(old) as study:
        assert not study.checked
        assert len(study.state.labels) == study.status()["labels"] == 50
    assert not read


WRONG = {
    "an answer": "UPDATE goalward_answers SET label = '1' WHERE id = 5",
    "no answer": "DELETE FROM goalward_answers WHERE id = 5",
    "one more": "UPDATE goalward_answers SET id = 999 WHERE id = 5",
    "a row": "UPDATE goalward_rows SET label = '0' WHERE row = 1",
    "a note": "UPDATE goalward_notes SET text = 'even'",
    "a question": "UPDATE goalward_questions SET released = 3",
    "a ranking": "UPDATE goalward_rankings SET labels = 3",
    "the counts": "UPDATE goalward_study SET header = replace(header, '\"labelled\", 50', '\"labelled\", 51')",
}


@pytest.mark.parametrize("command", WRONG.values(), ids=WRONG)
def test_a_table_that_does_not_follow_from_the_events_is_found_and_made_anew(
    old, tmp_path, command, monkeypatch
):
    with gw.Study.open(old) as study:
        assert study.check() == study.state.seq
        before = written(study.state)
    _changed(old, command)
    with gw.Study.open(old) as study, pytest.raises(Damaged, match="is not what its events add up"):
        study.check()
    monkeypatch.setattr(ledger, "FEW", 1000)
    with pytest.raises(Damaged, match="is not what its events add up"):
        gw.Study.open(old)
    with gw.Study.recover(old, tmp_path / "rescued.db") as rescued:
        assert written(rescued.state) == before


def test_a_damaged_old_event_is_found_by_a_check_and_recovered(old, tmp_path):
    _changed(old, "UPDATE goalward_events SET body = replace(body, '\"a\"', '\"b\"') WHERE seq = 5")
    with gw.Study.open(old) as study, pytest.raises(Damaged, match="Event 5 of"):
        study.check()
    with pytest.raises(Damaged, match="Event 5 of"):
        status(str(old), check=True)
    with pytest.raises(Damaged, match="Event 5 of"), gw.Study.open(old) as study:
        study.backup(tmp_path / "copy.db")
    with pytest.warns(gw.errors.EventsLost):
        rescued = gw.Study.recover(old, tmp_path / "rescued.db")
    assert len(rescued.state.labels) == 49
    rescued.close()


def test_answers_that_come_during_a_check_are_checked_too(old, monkeypatch):
    monkeypatch.setattr(ledger, "GLANCE", 7)
    with gw.Study.open(old) as study, gw.Study.open(old) as other:
        rest = iter(range(50, 60))
        monkeypatch.setattr(
            ledger.time, "sleep", lambda _: [other.tell(row, "b") for row in islice(rest, 1)]
        )
        assert study.check() == other.state.seq
        assert not list(rest)


@pytest.fixture
def held(old):
    """Another program that holds a study, and nothing can be read meanwhile."""
    other = sqlite3.connect(old, timeout=0.0, isolation_level=None, check_same_thread=False)

    def hold():
        other.execute("BEGIN EXCLUSIVE")
        return lambda: other.execute("ROLLBACK")

    yield hold
    other.close()


def test_a_look_does_not_wait_for_who_holds_the_study(old, held):
    with gw.Study.open(old, timeout=600) as study:
        assert study.status()["labels"] == 50
        let_go = held()
        assert study.status()["labels"] == 50
        assert "held by another process" in study.behind
        # Nor for an answer that waits itself.
        telling = threading.Thread(target=study.tell, args=(55, "a"))
        telling.start()
        while study._ledger._lock.acquire(blocking=False):
            study._ledger._lock.release()
        assert study.status()["labels"] == 50
        let_go()
        telling.join()
        while study.behind is not None:
            study.status()
        assert study.status()["labels"] == 51


def test_of_many_rankings_only_the_newest_has_what_grows(tmp_path):
    with gw.Study.create(tmp_path / "s.db", pool=np.eye(60), classes=["a", "b"], dev=0) as study:
        for row in range(4):
            study.tell(row, "ab"[row % 2])
        first = study.refresh()
        created = study._ledger.store.read()[0].event
    for labels, kept in (
        (lambda n: 4 + n, [0, *range(199, 300)]),
        (lambda n: 4, [299]),
    ):
        replica = Replica()
        replica.take(recorded([created]))
        many = [replace(first, labels=labels(n)) for n in range(300)]
        state = replica.take([Recorded(2 + n, one, f"{n:064x}") for n, one in enumerate(many)])
        assert all(ranked.queue == () for _, ranked in state.rounds)
        seen = [n for n, (_, ranked) in enumerate(state.rounds) if ranked.stop_set]
        assert set(kept[1:]) <= set(seen)
        assert len(seen) <= len(kept) + 1


def test_the_rows_of_an_earlier_model_are_forgotten_at_once(tmp_path, rng):
    """They are the largest thing there is; Python looks for rings of objects now and then only."""
    held = lambda: sum(type(thing) is Labelled for thing in gc.get_objects())
    X = rng.normal(size=(200, 4))
    with gw.Study.create(tmp_path / "a.db", pool=X, classes=[0, 1]) as study:
        study.tell_many([(row, int(X[row, 0] > 0)) for row in range(60)])
        study.refresh()
        gc.collect()
        before = held()
        gc.disable()
        try:
            for row in range(60, 63):
                study.tell(row, int(X[row, 0] > 0))
                study.refresh()
            assert held() == before
        finally:
            gc.enable()

"""A study that has grown old: columns, what is counted, and what is kept beside the journal."""

import gc
import sqlite3
import threading
from collections import Counter
from dataclasses import replace
from itertools import starmap

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import goalward as gw
from goalward.cli.studies import status
from goalward.core.rows import Labelled
from goalward.errors import Damaged
from goalward.studio.store import Recorded, events
from goalward.studio.store.store import Store
from goalward.studio.study import decisions, fold, ledger
from goalward.studio.study import settings as study_settings
from goalward.studio.study.fold import add_ranking
from goalward.studio.study.state import State, packed, unpacked

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
    found |= {name: dict(getattr(state, name)) for name in ("standings", "labels")}
    found["first"] = [column.tolist() for column in state.first_answers]
    found["closed"] = state.closed.tolist()
    return found, packed(state), state.mark


def recorded(found):
    return list(starmap(Recorded, ((seq, e, f"{seq:064x}") for seq, e in enumerate(found, 1))))


@given(journals(), st.integers(0, 40))
@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
def test_columns_and_counts_are_those_of_a_plain_fold(journal, at):
    found, plain = journal
    once = fold.folded(State(), recorded(found))
    # Event by event, and from a checkpoint on the way.
    states = [State()]
    for one in recorded(found):
        states.append(fold.advance(states[-1], one))
    assert written(states[-1]) == written(once)
    middle = states[min(at, len(found))]
    before = written(middle)
    again = unpacked(middle.mark, packed(middle))
    assert written(fold.folded(again, recorded(found)[middle.seq :])) == written(once)
    # Another way on from an earlier state changes neither.
    other = events.Told(at=0.0, row=1, by="bo", label="a")
    fold.folded(middle, [Recorded(middle.seq + 1, other)] * 2)
    assert written(middle)[0] == before[0]
    assert written(fold.folded(middle, recorded(found)[middle.seq :]))[0] == written(once)[0]
    said = {(row, by): s[:2] for row, all_ in once.standings.items() for by, s in all_.items()}
    assert said == plain.said
    for by in PEOPLE:
        _, undone = decisions.undone(once, 0.0, by)
        assert [e.row for e in undone] == [row for row, _ in plain.done.get(by, [])[-1:]]
    assert {(row, by) for row, held in once.leases.items() for by in held} == plain.held
    for row in range(ROWS):
        assert once.question(row) == plain.asked.get(row, (None, None))
    _counts_are_a_recount(once)


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
    counts = Counter((bool(state.settings.is_dev([r])[0]), x) for r, x in state.labels.items())
    assert state.counts == counts
    assert {row: state.label(row) for row in said if state.label(row) is not None} == state.labels


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A study with a checkpoint after its 50 answers, and another answer after it."""
    monkeypatch.setattr(ledger, "EVERY", 10)
    place = tmp_path / "old.db"
    with gw.Study.create(place, pool=np.eye(60)[:, :3], classes=["a", "b"], dev=0) as study:
        for row in range(49):
            study.tell(row, "ab"[row % 2], by=PEOPLE[row % 3])
    with gw.Study.open(place) as study:
        study.tell(49, "b", by="bo")
    return place


def kept(place):
    return Store.open(place).checkpoint()


def _damage(place, table, column, seq, content):
    def strike(connection):
        query = f"UPDATE {table} SET {column} = :new WHERE seq = :seq"
        connection.exec_driver_sql(query, {"new": content, "seq": seq})

    Store.open(place, damaged=True).run(strike, purpose="write")


def test_an_old_study_opens_from_its_checkpoint_and_reads_only_the_rest(old, monkeypatch):
    assert kept(old)[0].seq == 50
    read = []
    monkeypatch.setattr(Store, "read", _heard(Store.read, read))
    with gw.Study.open(old) as study:
        assert not study.checked
        assert len(study.state.labels) == 50
    assert sum(map(len, read)) == 1


def _heard(read, heard):
    def listening(self, *args, **options):
        heard.append(found := read(self, *args, **options))
        return found

    return listening


@pytest.mark.parametrize("place", [0, 5, 40, 300, -1])
def test_a_flipped_bit_in_a_checkpoint_is_seen_and_made_anew(old, place):
    before, content = kept(old), bytearray(kept(old)[1])
    content[place] ^= 4
    _damage(old, "goalward_checkpoint", "content", 50, bytes(content))
    assert kept(old) is None
    with gw.Study.open(old) as study:
        assert study.checked
        assert study.state.labels == {row: "ab"[row % 2] for row in range(50)}
    assert kept(old)[0].seq == before[0].seq + 1


def test_a_checkpoint_of_another_journal_is_not_used(old):
    _damage(old, "goalward_checkpoint", "digest", 50, "0" * 64)
    assert kept(old) is None
    with gw.Study.open(old) as study:
        assert len(study.state.labels) == 50
    assert kept(old)[0] == Store.open(old).read()[-1][0:3:2]


def test_a_wrong_checkpoint_is_found_by_a_check(old):
    good = kept(old)
    wrong = fold.folded(State(), Store.open(old).read()[:49])
    Store.open(old).save_checkpoint(good[0], packed(wrong))
    with gw.Study.open(old) as study:
        assert len(study.state.labels) == 49
        assert study.check() == 51
        assert len(study.state.labels) == 50
    assert kept(old) == good


def test_a_damaged_old_event_is_found_by_a_check_and_recovered(old, tmp_path):
    body = Store.open(old).read()[4].body
    _damage(old, "goalward_events", "body", 5, body.replace('"a"', '"b"').replace('"b"', '"a"'))
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
        let_go = held()
        assert study.state.labels == {row: "ab"[row % 2] for row in range(50)}
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
    rounds = []
    for n in range(300):
        add_ranking(rounds, n, replace(first, labels=4 + n))
    assert [ranked.queue for _, ranked in rounds[:-1]] == [()] * 299
    assert rounds[-1][1].queue == first.queue
    seen = [n for n, ranked in rounds if ranked.stop_set["predicted"] is not None]
    assert seen[0] == 0
    assert seen[1:] == list(range(199, 300))
    same = []
    for n in range(300):
        add_ranking(same, n, first)
    assert [n for n, r in same if r.stop_set["predicted"] is not None] == [299]


def test_a_checkpoint_is_kept(storage, monkeypatch):
    monkeypatch.setattr(ledger, "EVERY", 10)
    with gw.Study.create(storage, pool=np.eye(60)[:, :3], classes=["a", "b"], dev=0) as study:
        for row in range(30):
            study.tell(row, "ab"[row % 2], by=PEOPLE[row % 3])
    for _ in range(2):
        with gw.Study.open(storage) as study:
            assert len(study.state.labels) == 30
            assert study.check() == 31
        assert kept(storage)[0].seq == 31


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


def test_what_a_list_and_an_export_need_is_computed_once(tmp_path, rng, monkeypatch):
    X = rng.normal(size=(200, 4))
    with gw.Study.create(tmp_path / "a.db", pool=X, classes=[0, 1]) as study:
        study.tell_many([(row, int(X[row, 0] > 0)) for row in range(60)])
        study.refresh()
        doubts = study.doubts()
        study.tell(60, 0)
        assert study.doubts(last=True) is doubts
        study.refresh(force=True)
        assert len(study.doubts(last=True).rows) == 61
        said, asked = State.said, []
        monkeypatch.setattr(State, "said", lambda state, row: asked.append(row) or said(state, row))
        study.export(tmp_path / "labels.csv")
        assert sorted(asked) == list(range(61))

"""Where a study stands: a fold over its journal.

`advance` is pure and states are frozen, so a page may read one while another thread goes on. The
maps are persistent (rpds): a new state shares all but a few nodes with the one before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from types import MappingProxyType
from typing import Any, TypeAlias

from rpds import HashTrieMap

from goalward.journal import (
    Asked,
    Changed,
    ClassAdded,
    Created,
    Event,
    Lost,
    Mark,
    Noted,
    Ranked,
    Recorded,
    Skipped,
    Told,
    Undone,
    Withdrawn,
)
from goalward.journal.events import Label
from goalward.study.settings import Settings
from goalward.study.standing import Change, Lease, Note, Standing

__all__ = ["State", "advance", "folded"]


Nested: TypeAlias = "HashTrieMap[int, HashTrieMap[str, Any]]"


@dataclass(frozen=True, eq=False)
class State:
    """A study at one moment.

    Parameters
    ----------
    seq, digest
        The number of the last event, and its digest: how far the journal is known.
    identity
        The digest of the first event: that of every copy of the study, and of no other.
    standings
        row -> annotator -> what they last said.
    leases
        row -> annotator -> until when it is theirs.
    changes
        annotator -> what they did, newest first, each with what came before it.
    questions
        row -> (utility, number of the ranking) that led to it being asked last.
    rounds
        (number, ranking), oldest first.
    turns, dev_turns
        Questions handed out, and those of them for the dev set.
    moves
        How often what an annotator says of a row has changed.
    changed
        The number of the last change of the settings.
    lost
        (number, what could be read of it) of the events that a recovery could not save.
    """

    seq: int = 0
    digest: str = ""
    identity: str = ""
    settings: Settings = Settings()
    pool: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[Label, ...] = ()
    standings: HashTrieMap[int, HashTrieMap[str, Standing]] = HashTrieMap()
    leases: HashTrieMap[int, HashTrieMap[str, Lease]] = HashTrieMap()
    changes: HashTrieMap[str, Change | None] = HashTrieMap()
    notes: HashTrieMap[int, tuple[Note, ...]] = HashTrieMap()
    questions: HashTrieMap[int, tuple[float | None, int | None]] = HashTrieMap()
    rounds: tuple[tuple[int, Ranked], ...] = ()
    turns: int = 0
    dev_turns: int = 0
    moves: int = 0
    changed: int = 0
    lost: tuple[tuple[int, str], ...] = ()

    @property
    def mark(self) -> Mark:
        """How far the journal is known."""
        return Mark(self.seq, self.digest)

    @cached_property
    def labels(self) -> Mapping[int, Label]:
        """Row -> label used, in the order of the rows; dev rows too."""
        used = {}
        for row in sorted(self.standings):
            label = self.label(row)
            if label is not None:
                used[row] = label
        return MappingProxyType(used)

    @cached_property
    def training(self) -> Mapping[int, Label]:
        """Row -> label, of the rows a model may be fitted on."""
        return self._part(dev=False)

    @cached_property
    def dev(self) -> Mapping[int, Label]:
        """Row -> label, of the rows that measure the model."""
        return self._part(dev=True)

    @cached_property
    def first_answers(self) -> Mapping[int, int]:
        """Row -> number of its first answer, of the rows that have a label; corrections are later."""
        found: dict[int, int] = {}
        for row, said in self.standings.items():
            for standing in said.values():
                _earlier(found, row, standing)
        for last in self.changes.values():
            change = last
            while change is not None:
                _earlier(found, change.row, change.before)
                change = change.earlier
        return MappingProxyType({row: found[row] for row in self.labels})

    @cached_property
    def skipped(self) -> frozenset[int]:
        """Rows that somebody skipped and nobody answered."""
        return frozenset(row for row in self.standings if self.label(row) is None)

    @cached_property
    def pending(self) -> frozenset[int]:
        """Rows handed out and not answered yet; those whose time is over too."""
        return frozenset(self.leases)

    @property
    def ranking(self) -> Ranked | None:
        """The newest ranking."""
        return self.rounds[-1][1] if self.rounds else None

    @property
    def news(self) -> float:
        """How often answers changed since the newest ranking; no end if that is of other settings."""
        ranking = self.ranking
        if ranking is None or ranking.based_on < self.changed:
            return math.inf
        return self.moves - ranking.moves

    @property
    def annotators(self) -> tuple[str, ...]:
        """Everybody who said something."""
        return tuple(sorted(self.changes))

    def label(self, row: int) -> Label | None:
        """Return the label used for a row: the latest, or that of most annotators."""
        answers = [
            s for s in self.standings.get(row, HashTrieMap()).values() if s.label is not None
        ]
        if not answers:
            return None
        newest_first = sorted(answers, key=lambda s: -s.seq)
        if self.settings.label == "latest":
            return newest_first[0].label
        # Counter keeps the order of arrival, so that of equally many the newest wins.
        return Counter(s.label for s in newest_first).most_common(1)[0][0]

    def _part(self, *, dev: bool) -> Mapping[int, Label]:
        chosen = self.settings.is_dev(list(self.labels)) == dev
        pairs = zip(self.labels.items(), chosen.tolist(), strict=True)
        return MappingProxyType({row: label for (row, label), mine in pairs if mine})


def _earlier(found: dict[int, int], row: int, standing: Standing | None) -> None:
    if standing is not None and standing.label is not None:
        found[row] = min(standing.seq, found.get(row, standing.seq))


def advance(state: State, recorded: Recorded) -> State:
    """Return the state after an event."""
    seq, event, digest = recorded
    after = _after(state, seq, event)
    return replace(after, seq=seq, digest=digest, identity=state.identity or digest)


def folded(state: State, news: Iterable[Recorded]) -> State:
    """Return the state after all of these."""
    return reduce(advance, news, state)


def _after(state: State, seq: int, event: Event) -> State:
    match event:
        case Created(settings=settings, pool=pool):
            known = Settings.from_json(settings)
            return replace(state, settings=known, pool=pool, classes=known.classes)
        case Changed(settings=settings):
            return replace(state, settings=state.settings.changed(settings), changed=seq)
        case Asked():
            return _asked(state, seq, event)
        case Told(row=row, label=label, by=by, at=at):
            return _said(_with_class(state, label), row, by, Standing(label, seq, at))
        case Skipped(row=row, by=by, at=at):
            return _said(state, row, by, Standing(None, seq, at))
        case Withdrawn(row=row, by=by):
            if by in state.standings.get(row, HashTrieMap()):
                return _said(state, row, by, None)
            return replace(state, leases=_without(state.leases, row, by))
        case Undone(row=row, by=by, at=at, until=until):
            # Newest undone first, and before anything that was asked.
            return _undone(state, row, by, Lease(at, until, -seq))
        case Noted(row=row, by=by, text=text, at=at):
            notes = (*state.notes.get(row, ()), Note(by, text, at))
            return replace(state, notes=state.notes.insert(row, notes))
        case ClassAdded(label=label):
            return replace(state, classes=(*state.classes, label))
        case Ranked():
            return replace(state, rounds=(*state.rounds, (seq, event)))
        case Lost(text=text):
            # It may have been an answer: what was fitted before is out of date.
            return replace(state, lost=(*state.lost, (seq, text)), moves=state.moves + 1)
    raise TypeError(f"an event of type {type(event).__name__}")


def _asked(state: State, seq: int, event: Asked) -> State:
    leases, questions = state.leases, state.questions
    for place, (row, utility) in enumerate(zip(event.rows, event.utilities, strict=True)):
        lease = Lease(event.at, event.until, seq * 2**20 + place)
        leases = _with(leases, row, event.by, lease)
        questions = questions.insert(row, (utility, event.ranking))
    return replace(
        state,
        leases=leases,
        questions=questions,
        turns=state.turns + len(event.rows),
        dev_turns=state.dev_turns + event.dev,
    )


def _undone(state: State, row: int, by: str, lease: Lease) -> State:
    last = state.changes.get(by)
    if last is None or last.row != row:
        # What was undone is among the lost events, so there is nothing to take back.
        return replace(state, leases=_with(state.leases, row, by, lease))
    restored = _set(state, row, by, last.before)
    if last.before is None:
        restored = replace(restored, leases=_with(restored.leases, row, by, lease))
    return replace(restored, changes=state.changes.insert(by, last.earlier))


def _with_class(state: State, label: Label) -> State:
    """Return the state with the class of an answer, whose declaration may be lost."""
    if not state.lost or label in state.classes:
        return state
    return replace(state, classes=(*state.classes, label))


def _said(state: State, row: int, by: str, standing: Standing | None) -> State:
    before = state.standings.get(row, HashTrieMap()).get(by)
    change = Change(row, before, state.changes.get(by))
    return replace(_set(state, row, by, standing), changes=state.changes.insert(by, change))


def _set(state: State, row: int, by: str, standing: Standing | None) -> State:
    if standing is None:
        standings = _without(state.standings, row, by)
    else:
        standings = _with(state.standings, row, by, standing)
    leases = _without(state.leases, row, by)
    return replace(state, standings=standings, leases=leases, moves=state.moves + 1)


def _with(nested: Nested, row: int, by: str, value: Any) -> Nested:
    return nested.insert(row, nested.get(row, HashTrieMap()).insert(by, value))


def _without(nested: Nested, row: int, by: str) -> Nested:
    inner = nested.get(row, HashTrieMap()).discard(by)
    return nested.insert(row, inner) if len(inner) else nested.discard(row)

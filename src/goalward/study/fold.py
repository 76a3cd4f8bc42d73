"""How a study moves: its state after an event, and after a journal.

`advance` is pure, so the same events give the same state in any process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import Any, TypeAlias

from rpds import HashTrieMap

from goalward.errors import NotAStudy
from goalward.journal import Recorded, events
from goalward.study.settings import Settings
from goalward.study.state import Change, Description, Lease, Note, Standing, State, position

__all__ = ["advance", "folded"]

Nested: TypeAlias = "HashTrieMap[int, HashTrieMap[str, Any]]"


def folded(state: State, news: Iterable[Recorded]) -> State:
    """Return the state after all of these."""
    return reduce(advance, news, state)


def advance(state: State, recorded: Recorded) -> State:
    """Return the state after an event."""
    seq, event, digest = recorded.seq, recorded.event, recorded.digest
    state = replace(state, seq=seq, digest=digest, identity=state.identity or digest)
    match event:
        case events.Created(settings=settings, pool=pool):
            known = Settings.from_json(settings)
            aside = frozenset(pool.get("aside", ()))
            return replace(state, settings=known, pool=pool, classes=known.classes, aside=aside)
        case events.Changed(settings=settings):
            return replace(state, settings=state.settings.changed(settings), changed=seq)
        case events.Asked():
            return _asked(state, seq, event)
        case events.Told(row=row, label=label, by=by, at=at):
            if state.lost and label not in state.classes:
                # The declaration of its class is among the lost events.
                state = replace(state, classes=(*state.classes, label))
            return _said(state, row, by, Standing(label, seq, at))
        case events.Skipped(row=row, by=by, at=at):
            return _said(state, row, by, Standing(None, seq, at))
        case events.Withdrawn(row=row, by=by):
            if by in state.said(row):
                return _said(state, row, by, None)
            return replace(state, leases=_without(state.leases, row, by))
        case events.Undone(row=row, by=by, at=at, until=until):
            # Newest undone first, and before anything that was asked.
            return _undone(state, row, by, Lease(at, until, -seq))
        case events.Noted(row=row, by=by, text=text, at=at):
            notes = (*state.notes.get(row, ()), Note(by, text, at))
            return replace(state, notes=state.notes.insert(row, notes))
        case events.ClassAdded(label=label):
            names = state.renamed.discard(label)
            return replace(state, classes=(*state.classes, label), renamed=names)
        case events.Extended(pool=pool):
            # What was ranked before did not know the new rows.
            aside = frozenset(pool.get("aside", ()))
            return replace(state, pool=pool, aside=aside, changed=seq)
        case events.Described():
            return _described(state, event)
        case events.Ranked():
            return replace(state, rounds=(*state.rounds, (seq, event)))
        case events.Lost(text=text):
            # It may have been an answer: what was fitted before is out of date.
            return replace(state, lost=(*state.lost, (seq, text)), moves=state.moves + 1)
        case events.Exported():
            return state
    raise NotAStudy(
        f"There is a {type(event).__name__} in this journal; that of a study was expected. Check the "
        "address: a team's is for --team."
    )


def _asked(state: State, seq: int, event: events.Asked) -> State:
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


def _described(state: State, event: events.Described) -> State:
    if event.label is None:
        return replace(state, guidelines=event.text or "")
    place = position(state.classes, event.label)
    if place is None:
        return state  # its class is among the lost events
    before = state.described.get(place, Description())
    colour = before.colour if event.colour is None else event.colour
    text = before.text if event.text is None else event.text
    state = replace(state, described=state.described.insert(place, Description(colour, text)))
    return state if event.name is None else _renamed(state, place, event.name)


def _renamed(state: State, place: int, name: events.Label) -> State:
    """Return the state with another name for a class, in every answer, earlier ones too."""
    old = state.classes[place]

    def said(standing: Standing | None) -> Standing | None:
        ours = standing is not None and position((old,), standing.label) == 0
        return standing._replace(label=name) if standing is not None and ours else standing

    standings = state.standings
    for row, by_whom in state.standings.items():
        for by, standing in by_whom.items():
            standings = _with(standings, row, by, said(standing))
    changes = state.changes
    for by, last in state.changes.items():
        steps, step = [], last
        while step is not None:
            steps.append(step)
            step = step.earlier
        earlier = None
        for step in reversed(steps):
            earlier = Change(step.row, said(step.before), earlier)
        changes = changes.insert(by, earlier)
    classes = (*state.classes[:place], name, *state.classes[place + 1 :])
    # Pages that have not heard of it still say the old name.
    names = {known: name if new == old else new for known, new in state.renamed.items()}
    renamed = HashTrieMap({**names, old: name}).discard(name)
    return replace(state, standings=standings, changes=changes, classes=classes, renamed=renamed)


def _undone(state: State, row: int, by: str, lease: Lease) -> State:
    last = state.changes.get(by)
    if last is None or last.row != row:
        # What was undone is among the lost events, so there is nothing to take back.
        return replace(state, leases=_with(state.leases, row, by, lease))
    restored = _set(state, row, by, last.before)
    if last.before is None:
        restored = replace(restored, leases=_with(restored.leases, row, by, lease))
    return replace(restored, changes=state.changes.insert(by, last.earlier))


def _said(state: State, row: int, by: str, standing: Standing | None) -> State:
    before = state.said(row).get(by)
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

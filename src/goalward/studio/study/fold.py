"""How a study moves: its state after an event, and after a journal.

`advance` is pure, so the same events give the same state in any process. After every `EVERY` events
what came since goes into the columns, in any process after the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any, TypeAlias

from rpds import HashTrieMap, HashTrieSet

from goalward.errors import NotAStudy
from goalward.studio.store import Recorded, events
from goalward.studio.study.kind import position
from goalward.studio.study.lines import AskedRows, Change, Standing
from goalward.studio.study.settings import Settings
from goalward.studio.study.snapshots import part_of
from goalward.studio.study.state import Description, Lease, Note, State
from goalward.studio.study.tally import add_ranking, adjusted

EVERY = 4096
"""Events between two bases: few enough to be read again at once, enough to be worth one."""
Nested: TypeAlias = "HashTrieMap[int, HashTrieMap[str, Any]]"


def folded(state: State, news: Iterable[Recorded]) -> State:
    """Return the state after all of these."""
    return reduce(advance, news, state)


def advance(state: State, recorded: Recorded) -> State:
    """Return the state after an event."""
    seq, digest = recorded.seq, recorded.digest
    after = _after(state.moved(seq=seq, digest=digest, identity=state.identity or digest), recorded)
    return settled(after) if seq % EVERY == 0 else after


def settled(state: State) -> State:
    """Return the same state with everything in its columns, and what came since as a part to keep."""
    questions = ((row, *why) for row, why in sorted(state.asked_since.items()))
    nothing: HashTrieMap[Any, Any] = HashTrieMap()
    return state.moved(
        base=state.mark,
        unsaved=(*state.unsaved, part_of(state)),
        lines=state.columns,
        asked=state.asked.joined(AskedRows.of(questions)) if state.asked_since else state.asked,
        reopened=HashTrieSet(),
        **dict.fromkeys(("recent", "changes", "cuts", "asked_since"), nothing),
    )


def _after(state: State, recorded: Recorded) -> State:
    seq, event = recorded.seq, recorded.event
    match event:
        case events.Created(settings=settings, pool=pool):
            known = Settings.from_json(settings)
            aside = frozenset(pool.get("aside", ()))
            return state.moved(settings=known, pool=pool, classes=known.classes, aside=aside)
        case events.Changed(settings=settings):
            return _recounted(state, settings=state.settings.changed(settings), changed=seq)
        case events.Asked():
            return _asked(state, seq, event)
        case events.Told(row=row, label=label, by=by, at=at):
            if state.lost:
                # The declaration of its class may be among the lost events.
                state = state.moved(classes=state.settings.answer.declared(label, state.classes))
            return _said(state, seq, row, by, Standing(label, seq, at))
        case events.Skipped(row=row, by=by, at=at):
            return _said(state, seq, row, by, Standing(None, seq, at))
        case events.Withdrawn(row=row, by=by):
            if by in state.said(row):
                return _said(state, seq, row, by, None)
            return state.moved(leases=_without(state.leases, row, by))
        case events.Undone(row=row, by=by, at=at, until=until):
            # Newest undone first, and before anything that was asked.
            return _undone(state, row, by, Lease(at, until, -seq))
        case events.Noted(row=row, by=by, text=text, at=at):
            notes = (*state.notes.get(row, ()), Note(by, text, at, seq))
            return state.moved(notes=state.notes.insert(row, notes))
        case events.ClassAdded(label=label):
            names = state.renamed.discard(label)
            return state.moved(classes=(*state.classes, label), renamed=names)
        case events.Extended(pool=pool):
            # What was ranked before did not know the new rows.
            aside = frozenset(pool.get("aside", ()))
            return _recounted(state, pool=pool, aside=aside, changed=seq)
        case events.Described():
            return _described(state, event)
        case events.Ranked():
            rounds = list(state.rounds)
            add_ranking(rounds, seq, event)
            return state.moved(rounds=tuple(rounds))
        case events.Lost(text=text):
            # It may have been an answer: what was fitted before is out of date.
            return state.moved(lost=(*state.lost, (seq, text)), moves=state.moves + 1)
        case events.Exported():
            return state
    raise NotAStudy(
        f"There is a {type(event).__name__} in this journal; that of a study was expected. Check the "
        "address: a team's is for --team."
    )


def _asked(state: State, seq: int, event: events.Asked) -> State:
    leases, questions = state.leases, state.asked_since
    for place, (row, utility) in enumerate(zip(event.rows, event.utilities, strict=True)):
        lease = Lease(event.at, event.until, seq * 2**20 + place)
        leases = _with(leases, row, event.by, lease)
        questions = questions.insert(row, (utility, event.ranking))
    return state.moved(
        leases=leases,
        asked_since=questions,
        turns=state.turns + len(event.rows),
        dev_turns=state.dev_turns + event.dev,
    )


def _described(state: State, event: events.Described) -> State:
    if event.label is None:
        return state.moved(guidelines=event.text or "")
    place = position(state.classes, event.label)
    if place is None:
        return state  # its class is among the lost events
    before = state.described.get(place, Description())
    colour = before.colour if event.colour is None else event.colour
    text = before.text if event.text is None else event.text
    state = state.moved(described=state.described.insert(place, Description(colour, text)))
    return state if event.name is None else _renamed(state, place, event.name)


def _renamed(state: State, place: int, name: events.Label) -> State:
    """Return the state with another name for a class, in every answer, earlier ones too."""
    old = state.classes[place]

    def said(standing: Standing | None) -> Standing | None:
        ours = standing is not None and position((old,), standing.label) == 0
        return standing._replace(label=name) if standing is not None and ours else standing

    recent = {
        row: HashTrieMap({by: said(standing) for by, standing in by_whom.items()})
        for row, by_whom in state.recent.items()
    }
    changes = {}
    for by, last in state.changes.items():
        steps, step = [], last
        while step is not None:
            steps.append(step)
            step = step.earlier
        earlier = None
        for step in reversed(steps):
            earlier = Change(step.seq, step.row, said(step.after), said(step.before), earlier)
        changes[by] = earlier
    names = (name if position((old,), known) == 0 else known for known in state.lines.names)
    counts = {
        (*key[:2], name) if key[0] == "label" and position((old,), key[2]) == 0 else key: n
        for key, n in state.tally.items()
    }
    classes = (*state.classes[:place], name, *state.classes[place + 1 :])
    # Pages that have not heard of it still say the old name.
    before = {known: name if new == old else new for known, new in state.renamed.items()}
    renamed = HashTrieMap({**before, old: name}).discard(name)
    return state.moved(
        lines=state.lines.renamed(tuple(names)),
        recent=HashTrieMap(recent),
        changes=HashTrieMap(changes),
        tally=HashTrieMap(counts),
        classes=classes,
        renamed=renamed,
    )


def _undone(state: State, row: int, by: str, lease: Lease) -> State:
    last = state.last_change(by)
    if last is None or last.row != row:
        # What was undone is among the lost events, so there is nothing to take back.
        return state.moved(leases=_with(state.leases, row, by, lease))
    restored = _set(state, row, by, last.before)
    if last.before is None:
        restored = restored.moved(leases=_with(restored.leases, row, by, lease))
    if state.changes.get(by) is None:
        return restored.moved(cuts=state.cuts.insert(by, last.seq))
    return restored.moved(changes=state.changes.insert(by, last.earlier))


def _said(state: State, seq: int, row: int, by: str, standing: Standing | None) -> State:
    before = state.said(row).get(by)
    change = Change(seq, row, standing, before, state.changes.get(by))
    return _set(state, row, by, standing).moved(changes=state.changes.insert(by, change))


def _set(state: State, row: int, by: str, standing: Standing | None) -> State:
    before = state.said(row)
    after = before.discard(by) if standing is None else before.insert(by, standing)
    return state.moved(
        recent=state.recent.insert(row, after),
        leases=_without(state.leases, row, by),
        moves=state.moves + 1,
        **adjusted(state, row, before, after),
    )


def _recounted(state: State, **changes: Any) -> State:
    """Return the state with other settings or rows set aside, and what they count counted anew."""
    rules = ("label", "answers", "dev", "seed")
    after = state.moved(**changes)
    same = all(getattr(state.settings, r) == getattr(after.settings, r) for r in rules)
    for row in state.aside ^ after.aside if same else state.standings:
        said = state.said(row)
        after = after.moved(**adjusted(state, row, said, {}))
        after = after.moved(**adjusted(after, row, {}, said))
        state = state.moved(tally=after.tally, begun=after.begun, reopened=after.reopened)
    return after


def _with(nested: Nested, row: int, by: str, value: Any) -> Nested:
    return nested.insert(row, nested.get(row, HashTrieMap()).insert(by, value))


def _without(nested: Nested, row: int, by: str) -> Nested:
    inner = nested.get(row, HashTrieMap()).discard(by)
    return nested.insert(row, inner) if len(inner) else nested.discard(row)

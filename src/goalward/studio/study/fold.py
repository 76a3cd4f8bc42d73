"""The state of a study after an event: the same events give the same state in any process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from sys import intern
from typing import Any

from goalward.errors import NotAStudy
from goalward.studio.stopping import BACK
from goalward.studio.store import Mark, Ranked, Recorded, events
from goalward.studio.study.kind import position
from goalward.studio.study.settings import Settings
from goalward.studio.study.state import (
    COPIED,
    SKIPPED,
    WITHDRAWN,
    Description,
    Lease,
    Names,
    Note,
    State,
)

MODELS = 5
"""Models whose predictions are kept: the stopping rules look at the last four."""


def advance(state: State, recorded: Recorded) -> State:
    """Return the state after an event."""
    return folded(state, [recorded])


def folded(state: State, news: Iterable[Recorded]) -> State:
    """Return the state after all of these."""
    own: dict[str, Any] = {name: dict(getattr(state, name)) for name in COPIED}
    after = replace(state, **own)
    for recorded in news:
        after.mark = Mark(recorded.seq, recorded.digest)
        after.identity = after.identity or recorded.digest
        _apply(after, recorded.seq, recorded.event)
    return after


def _apply(state: State, seq: int, event: events.Event) -> None:
    match event:
        case events.Told(row=row, label=label, by=by, at=at):
            if state.lost:
                # The declaration of its class may be among the lost events.
                state.classes = state.settings.answer.declared(label, state.classes)
            _say(state, row, by, state.names[type(label), label], seq, at)
        case events.Asked():
            _ask(state, seq, event)
        case events.Skipped(row=row, by=by, at=at):
            _say(state, row, by, SKIPPED, seq, at)
        case events.Withdrawn(row=row, by=by, at=at):
            if by in state.said(row):
                _say(state, row, by, WITHDRAWN, seq, at)
            else:
                _hold(state, row, by, None)
        case events.Undone(row=row, by=by, at=at, until=until):
            _undo(state, row, by)
            if by not in state.said(row):
                # Newest undone first, and before anything that was asked.
                _hold(state, row, by, Lease(at, until, -seq))
        case events.Noted(row=row, by=by, text=text, at=at):
            state.notes[row] = (*state.notes.get(row, ()), Note(by, text, at))
        case events.Ranked():
            rounds = list(state.rounds)
            add_ranking(rounds, seq, event)
            state.rounds = tuple(rounds)
        case events.Created(settings=settings, pool=pool):
            state.settings, state.pool = Settings.from_json(settings), pool
            state.classes, state.n_rows = state.settings.classes, pool["n_rows"]
            state.aside = frozenset(pool.get("aside", ()))
        case events.Extended(pool=pool):
            _extend(state, seq, pool)
        case events.ClassAdded(label=label):
            state.classes = (*state.classes, label)
            state.renamed.pop(label, None)
        case events.Described():
            _describe(state, event)
        case events.Lost(text=text):
            # It may have been an answer: what was fitted before is out of date.
            state.lost, state.moves = (*state.lost, (seq, text)), state.moves + 1
        case events.Exported():
            pass
        case _:
            raise NotAStudy(
                f"There is a {type(event).__name__} in this journal, which is not that of a study. Check "
                "the address: a team's is for --team."
            )


def _say(state: State, row: int, by: str, code: int, seq: int, at: float, undoes: int = -1) -> None:
    """Add a line: an answer, a skip, a withdrawal, or what an undo brings back."""
    if by not in state.people:
        state.people = (*state.people, by)
    place, top = state.n_lines, state.tops.get(by, -1)
    _count(state, row, -1)
    line = (state.people.index(by), code, seq, at, top, undoes)
    state.lines = state.lines.appended(place, row, *line)
    state.n_lines, state.moves = place + 1, state.moves + 1
    if undoes < 0:
        state.tops[by] = place
    _count(state, row, 1)
    if row in state.leases:
        _hold(state, row, by, None)


def _undo(state: State, row: int, by: str) -> None:
    columns, last = state.lines.columns, state.tops.get(by, -1)
    if last < 0 or columns["row"][last] != row:
        return  # what was undone is among the lost events
    code, seq, at = WITHDRAWN, 0, 0.0
    for place in state.lines.of(row, last):
        if columns["by"][place] == columns["by"][last]:
            code, seq, at = (columns[name][place].item() for name in ("label", "seq", "at"))
            break
    state.tops[by] = int(columns["prior"][last])
    _say(state, row, by, code, seq, at, last)


def _count(state: State, row: int, sign: int) -> None:
    """Count the answers, annotators and label of a row, and whether it is done; or no more."""
    said, settings = state.said(row), state.settings
    labels = [standing.label for standing in said.values() if standing.label is not None]
    counted: list[tuple[Any, ...]] = [("by", by) for by in said]
    counted += [("answers",)] * len(labels)
    if said:
        counted.append(("rows",))
        if row not in state.aside and not 0 < len(labels) < settings.answers:
            counted.append(("closed",))
    if labels:
        counted.append(("labelled",))
        if len(set(labels)) > 1:
            counted.append(("disagreements",))
        # Weighed, a label follows from all answers to all rows.
        if settings.label != "weighed":
            label = labels[0] if len(labels) == 1 else state.label(row)
            dev = settings.measures(row)
            counted += [("label", dev, *each) for each in settings.answer.counted(label)]
    for fact in counted:
        state.tally[fact] = state.tally.get(fact, 0) + sign
        if not state.tally[fact]:
            del state.tally[fact]
    if 0 < len(labels) < settings.answers and row not in state.aside:
        state.begun[row] = min(standing.seq for standing in said.values())
    else:
        state.begun.pop(row, None)


def _extend(state: State, seq: int, pool: dict[str, Any]) -> None:
    # What was ranked before did not know the new rows.
    state.pool, state.n_rows, state.changed = pool, pool["n_rows"], seq
    aside = frozenset(pool.get("aside", ()))
    recounted = state.aside ^ aside
    for row in recounted:
        _count(state, row, -1)
    state.aside = aside
    for row in recounted:
        _count(state, row, 1)


def _ask(state: State, seq: int, event: events.Asked) -> None:
    for place, (row, utility) in enumerate(zip(event.rows, event.utilities, strict=True)):
        _hold(state, row, event.by, Lease(event.at, event.until, seq * 2**20 + place))
        line = (float("nan") if utility is None else utility, event.ranking or 0)
        state.asked = state.asked.appended(state.n_asked, row, *line)
        state.n_asked += 1
    state.turns += len(event.rows)
    state.dev_turns += event.dev


def _hold(state: State, row: int, by: str, lease: Lease | None) -> None:
    """Give a row to an annotator, or take it back; earlier states share the map of the row."""
    held = {who: other for who, other in state.leases.pop(row, {}).items() if who != by}
    if lease is not None:
        held[by] = lease
    if held:
        state.leases[row] = held


def _describe(state: State, event: events.Described) -> None:
    if event.label is None:
        state.guidelines = event.text or ""
        return
    place = position(state.classes, event.label)
    if place is None:
        return  # its class is among the lost events
    known = state.described.get(place, Description())
    state.described[place] = known.changed(event.colour, event.text)
    if (new := event.name) is None:
        return
    old = state.classes[place]

    def now(label: Any) -> Any:
        return new if position((old,), label) == 0 else label

    # In every answer, earlier ones too.
    state.names = Names([now(label) for label in state.names.labels])
    state.tally = {
        (*fact[:2], now(fact[2])) if fact[0] == "label" and len(fact) == 3 else fact: n
        for fact, n in state.tally.items()
    }
    state.classes = (*state.classes[:place], new, *state.classes[place + 1 :])
    # Pages that have not heard of it still use the old name.
    state.renamed = {known: new if name == old else name for known, name in state.renamed.items()}
    state.renamed[old] = new
    state.renamed.pop(new, None)


def add_ranking(rounds: list[tuple[int, Ranked]], seq: int, new: Ranked) -> None:
    """Add a ranking; older ones keep what curves and stopping rules use, up to 100 labels back."""
    if rounds:
        number, last = rounds[-1]
        gone = {"queue": (), "utilities": (), "quantiles": (), "versions": {}, "features": ""}
        slim = replace(last, **gone, recipe=intern(last.recipe))  # type: ignore[arg-type]
        # Ranked again before a new label came, it is compared with nothing.
        again = last.labels == new.labels
        rounds[-1] = number, _forgotten(slim) if again else slim
        models, far = 1, False
        for place in range(0 if again else len(rounds) - 2, 0, -1):
            number, old = rounds[place]
            known = (old.stop_set or {}).get("predicted") is not None
            if far and models > MODELS:
                if not known:
                    break
                rounds[place] = number, _forgotten(old)
            models += known
            far = far or (known and old.labels <= new.labels - 2 * BACK)
    rounds.append((seq, new))


def _forgotten(old: Ranked) -> Ranked:
    return replace(old, stop_set=old.stop_set and {**old.stop_set, "predicted": None})

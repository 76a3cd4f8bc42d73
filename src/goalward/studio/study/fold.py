"""Events folded into the state of a study and its tables, the same in any process and any batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from goalward.errors import NotAStudy
from goalward.studio.stopping import BACK
from goalward.studio.store import Mark, Ranked, Recorded, events
from goalward.studio.store.events import canonical, parsed
from goalward.studio.store.tables import ANSWERS, NOTES, QUESTIONS, RANKINGS, ROWS
from goalward.studio.study.kind import position
from goalward.studio.study.reader import SKIPPED, WITHDRAWN
from goalward.studio.study.settings import Settings
from goalward.studio.study.state import Description, Lease, Line, State, used_label

MODELS = 5
"""Models whose predictions are kept: the stopping rules look at the last four."""
COPIED = ("tops", "tally", "described", "renamed")
"""Maps of a state that each has for itself."""
END = sa.update(ANSWERS).where(ANSWERS.c.id == sa.bindparam("line"))
RELEASE = sa.update(QUESTIONS).where(QUESTIONS.c.id == sa.bindparam("line"))
CLEAR = sa.delete(ROWS).where(ROWS.c.row == sa.bindparam("line"))


def folded(connection: sa.Connection, state: State, news: Iterable[Recorded]) -> State:
    """Return the state after some events, and write what they change in the tables."""
    fold = Fold(connection, state, list(news))
    for recorded in fold.news:
        fold.apply(recorded)
    fold.write()
    return fold.state


class Fold:
    """A state on its way: what events touch is loaded once, changed here, and written at the end."""

    def __init__(self, connection: sa.Connection, state: State, news: list[Recorded]) -> None:
        self.connection, self.before, self.news = connection, state, news
        own: dict[str, Any] = {name: dict(getattr(state, name)) for name in COPIED}
        self.state = replace(state, reader=state.reader.on(connection), **own)
        # The rows whose lines and questions an event may change.
        several = (getattr(recorded.event, "rows", ()) for recorded in news)
        touched = {row for rows in several for row in rows}
        touched |= {recorded.event.row for recorded in news if hasattr(recorded.event, "row")}
        # What a decision looked up already is not read again.
        self.lines = {row: dict(lines) for row, lines in state.lines(touched).items()}
        self.leases = {row: dict(held) for row, held in state.leases.items() if row in touched}
        self.notes: list[dict[str, Any]] = []
        self.said: dict[int, Line] = {}
        self.ended: dict[int, int] = {}
        self.asked: dict[int, dict[str, Any]] = {}
        self.released: dict[int, int] = {}
        self.counted: set[int] = set()

    def apply(self, recorded: Recorded) -> None:
        """Take in an event."""
        state, (seq, event, digest, _) = self.state, recorded
        state.mark = Mark(seq, digest)
        state.identity = state.identity or digest
        match event:
            case events.Told(row=row, label=label, by=by, at=at):
                kind = state.settings.answer
                if state.losses:
                    # The declaration of its class may be among the lost events.
                    state.classes = kind.declared(label, state.classes)
                self._say(seq, Line(seq, row, by, kind.coded(label, state.classes), seq, at))
            case events.Asked():
                self._ask(seq, event)
            case events.Skipped(row=row, by=by, at=at):
                self._say(seq, Line(seq, row, by, SKIPPED, seq, at))
            case events.Withdrawn(row=row, by=by, at=at):
                line = self.lines[row].get(by)
                if line is not None and line.label != WITHDRAWN:
                    self._say(seq, Line(seq, row, by, WITHDRAWN, seq, at))
                self._release(seq, row, by)
            case events.Undone(row=row, by=by):
                self._undo(seq, row, by)
                if self.lines[row].get(by, Line(0, row, by, WITHDRAWN, 0, 0.0)).label == WITHDRAWN:
                    # Newest undone first, and before anything that was asked.
                    self._hold(seq, event, id=seq << 20, row=row, place=-seq, utility=None)
            case events.Noted(row=row, by=by, text=text, at=at):
                note = {"seq": seq, "row": row, "by": by, "text": text, "at": at}
                self.notes.append(note)
            case events.Ranked():
                self._rank(seq, event)
            case events.Created(settings=settings, pool=pool):
                state.settings, state.pool = Settings.from_json(settings), pool
                state.classes, state.pool_seq = state.settings.classes, seq
            case events.Extended(pool=pool):
                self._extend(seq, pool)
            case events.ClassAdded(label=label):
                state.classes = (*state.classes, label)
                state.renamed.pop(label, None)
            case events.Described():
                _describe(state, event)
            case events.Lost():
                # It may have been an answer: what was fitted before is out of date.
                state.losses, state.moves = (*state.losses, seq), state.moves + 1
            case events.Exported():
                pass
            case _:
                raise NotAStudy(
                    f"There is a {type(event).__name__} in this journal, which is not that of a study. "
                    "Check the address: a team's is for --team."
                )

    def _say(self, seq: int, line: Line) -> None:
        """Add a line: an answer, a skip, a withdrawal, or what an undo brings back."""
        state, row, by = self.state, line.row, line.by
        before, top = self.lines[row].get(by), state.tops.get(by, 0)
        self._count(row, -1)
        if before is not None:
            self.ended[before.id] = seq
        line = line._replace(prior=top, before=before.id if before else 0)
        self.lines[row][by] = self.said[seq] = line
        state.moves += 1
        state.tops[by] = top if line.undoes else seq
        self._count(row, 1)
        self._release(seq, row, by)

    def _undo(self, seq: int, row: int, by: str) -> None:
        last = self._line(self.state.tops.get(by, 0))
        if last is None or last.row != row:
            return  # what was undone is among the lost events
        before = self._line(last.before) or Line(0, row, by, WITHDRAWN, 0, 0.0)
        self.state.tops[by] = last.prior
        self._say(seq, before._replace(id=seq, undoes=last.id, ended=None))

    def _line(self, id: int) -> Line | None:
        """Return a line by its number."""
        if id in self.said or not id:
            return self.said.get(id)
        query = sa.select(ANSWERS).where(ANSWERS.c.id == id)
        return Line(*self.connection.execute(query).one())

    def _ask(self, seq: int, event: events.Asked) -> None:
        asked = zip(event.rows, event.utilities, strict=True)
        for id, (row, utility) in enumerate(asked, start=seq << 20):
            self._hold(seq, event, id=id, row=row, place=id, utility=utility)
        self.state.turns += len(event.rows)
        self.state.dev_turns += event.dev

    def _hold(self, seq: int, event: Any, *, id: int, row: int, **question: Any) -> None:
        """Give a row to an annotator."""
        self._release(seq, row, event.by)
        lease = Lease(id, event.at, event.until, question["place"])
        self.leases.setdefault(row, {})[event.by] = lease
        question |= {"row": row, "by": event.by, **lease._asdict()}
        self.asked[id] = {**question, "ranking": getattr(event, "ranking", None), "released": None}

    def _release(self, seq: int, row: int, by: str) -> None:
        lease = self.leases.get(row, {}).pop(by, None)
        if lease is None:
            return
        if lease.id in self.asked:
            self.asked[lease.id]["released"] = seq
        else:
            self.released[lease.id] = seq

    def _standing(self, row: int) -> list[Line]:
        return [line for line in self.lines[row].values() if line.label != WITHDRAWN]

    def _count(self, row: int, sign: int) -> None:
        """Count the answers, annotators and label of a row, and whether it is done; or no more."""
        state, settings, said = self.state, self.state.settings, self._standing(row)
        answers = [line for line in said if line.label != SKIPPED]
        dev = settings.measures(row)
        self.counted.add(row)
        facts: list[tuple[Any, ...]] = [("by", line.by) for line in said]
        facts += [("answers",)] * len(answers)
        if said:
            facts.append(("rows",))
            if row not in state.aside and not 0 < len(answers) < settings.answers:
                facts.append(("closed", dev))
        if answers:
            facts.append(("labelled",))
            if len({line.label for line in answers}) > 1:
                facts.append(("disagreements",))
            # Weighed, a label follows from all answers to all rows.
            if settings.label != "weighed":
                label = self._label(answers)
                facts += [("label", dev, *each) for each in settings.answer.counted(label)]
        for fact in facts:
            state.tally[fact] = state.tally.get(fact, 0) + sign
            if not state.tally[fact]:
                del state.tally[fact]

    def _label(self, answers: list[Line]) -> Any:
        newest_first = sorted(answers, key=lambda line: -line.seq)
        return used_label(self.state.settings.label, [line.label for line in newest_first])

    def _extend(self, seq: int, pool: dict[str, Any]) -> None:
        # What was ranked before did not know the new rows.
        state, before = self.state, self.state.aside
        recounted = before ^ frozenset(pool.get("aside", ()))
        self.lines |= {
            row: lines for row, lines in state.lines(recounted).items() if row not in self.lines
        }
        for row in recounted:
            self._count(row, -1)
        # Properties of the pool that were looked up are those of the one before.
        self.state = state = replace(state, pool=pool, pool_seq=seq, changed=seq)
        for row in recounted:
            self._count(row, 1)

    def _rank(self, seq: int, new: Ranked) -> None:
        """Add a ranking; older ones keep what stopping rules compare, up to 100 labels back."""
        table, state = RANKINGS.c, self.state
        kept = sa.select(table.seq, table.labels, table.summary).where(table.compared)
        models, far = 1, False
        for number, labels, summary in self.connection.execute(kept.order_by(table.seq.desc())):
            # Ranked again before a new label came, it is compared with nothing.
            again = models == 1 and labels == new.labels
            if again or (far and models > MODELS):
                old: Any = replace(parsed(number, summary), stop_set=None)  # type: ignore[call-arg]
                forget = sa.update(RANKINGS).where(table.seq == number)
                values = {"compared": False, "summary": canonical(old)}
                self.connection.execute(forget.values(values))
            models += not again
            far = far or labels <= new.labels - 2 * BACK
        if state.ranked:
            before = sa.update(RANKINGS).where(table.seq == state.ranked)
            self.connection.execute(before.values(view=None))
        slim = replace(new, queue=(), utilities=(), quantiles=(), versions={})
        values = {"seq": seq, "labels": new.labels, "compared": new.stop_set is not None}
        values |= {"summary": canonical(slim), "view": None}
        self.connection.execute(sa.insert(RANKINGS).values(values))
        state.ranked, state.n_rounds = seq, state.n_rounds + 1

    def write(self) -> None:
        """Write what changed."""
        held = {**(self.before.held or {}), **self.leases}
        self.state.held = {row: by for row, by in held.items() if by}
        self.state.known = {**self.before.known, **self.lines}
        ends = {id: self.ended.pop(id, None) for id in self.said}
        lines = [line._replace(ended=ends[id])._asdict() for id, line in self.said.items()]
        ended = [{"line": id, "ended": seq} for id, seq in self.ended.items()]
        released = [{"line": id, "released": seq} for id, seq in self.released.items()]
        settings, rows = self.state.settings, []
        for row in sorted(self.counted):
            if not (said := self._standing(row)):
                continue  # without an answer or a skip, nothing is known of it
            answers = [line for line in said if line.label != SKIPPED]
            numbers, mixed = [line.seq for line in said], len({line.label for line in answers}) > 1
            known = {"row": row, "n": len(answers), "dev": settings.measures(row), "mixed": mixed}
            label = None if settings.label == "weighed" else self._label(answers)
            first, newest = min(numbers), max(numbers)
            rows.append({**known, "label": label, "first": first, "newest": newest})
        changes: tuple[tuple[Any, list[Any]], ...] = (
            (END, ended),
            (sa.insert(ANSWERS), lines),
            (RELEASE, released),
            (sa.insert(QUESTIONS), list(self.asked.values())),
            (CLEAR, [{"line": row} for row in sorted(self.counted)]),
            (sa.insert(ROWS), rows),
            (sa.insert(NOTES), self.notes),
        )
        for statement, values in changes:
            if values:
                self.connection.execute(statement, values)


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
    state.classes = (*state.classes[:place], new, *state.classes[place + 1 :])
    # Pages that have not heard of it still use the old name.
    state.renamed = {known: new if name == old else name for known, name in state.renamed.items()}
    state.renamed[old] = new
    state.renamed.pop(new, None)

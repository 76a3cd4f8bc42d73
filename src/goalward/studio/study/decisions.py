"""What each call of a study writes: from a state, held meanwhile, to its result and events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, TypeAlias

from goalward.errors import BadParameter, PoolChanged, PoolExhausted
from goalward.studio.store import events
from goalward.studio.store.events import Event, Label
from goalward.studio.study.kind import place_of, position
from goalward.studio.study.questions import Questions, rows_held
from goalward.studio.study.settings import LONGEST_NOTE, plain_label, plain_text
from goalward.studio.study.state import Description, State

Answer: TypeAlias = tuple[int, Any, str]
"""Row, label and annotator."""


def asked(
    state: State,
    now: float,
    questions: Questions,
    n: int,
    by: str,
    *,
    resume: bool = True,
    at_most: bool = True,
) -> tuple[list[int], list[Event]]:
    """Return n rows for an annotator, and the event that makes the new ones theirs."""
    by = plain_text(by, "by")
    held = rows_held(state, by, now)[:n] if resume else []
    new = questions.next(state, n - len(held), by, now)
    rows = tuple(question.row for question in new)
    if len(held) + len(rows) < n and not at_most:
        raise PoolExhausted(
            f"n must be at most {len(held) + len(rows)}, the rows left ({state.n_labels} labelled, "
            f"{state.n_skipped} skipped, {len(state.pending)} pending), got {n}. Ask for fewer, or tell "
            "or withdraw the pending rows."
        )
    event = events.Asked(
        at=now,
        rows=rows,
        by=by,
        until=now + state.settings.lease,
        utilities=tuple(question.utility for question in new),
        ranking=state.ranked or None,
        dev=sum(question.dev for question in new),
    )
    return [*held, *rows], [event] if rows else []


def told(state: State, now: float, answers: Iterable[Answer]) -> tuple[list[int], list[Event]]:
    """Return the number that each answer has or will have, and those that are news."""
    numbers: list[int] = []
    news: list[Event] = []
    stands: dict[tuple[int, str], tuple[Label | None, int]] = {}
    for place, answer, who in answers:
        row, by = checked_row(state, place), plain_text(who, "by")
        label = state.settings.answer.checked(answer, state.classes, state.renamed)
        if (row, by) not in stands:
            before = state.said(row).get(by)
            stands[row, by] = (before.label, before.seq) if before else (None, 0)
        if stands[row, by][0] != label:
            news.append(events.Told(at=now, row=row, label=label, by=by))
            stands[row, by] = (label, state.mark.seq + len(news))
        numbers.append(stands[row, by][1])
    return numbers, news


def imported(state: State, now: float, answers: Iterable[Answer]) -> tuple[int, list[Event]]:
    """Return how many answers are news."""
    _, news = told(state, now, answers)
    return len(news), news


def skipped(state: State, now: float, row: int, by: str) -> tuple[None, list[Event]]:
    """Return a skip, if the annotator has not skipped the row already."""
    row, by = checked_row(state, row), plain_text(by, "by")
    before = state.said(row).get(by)
    done = before is not None and before.label is None
    return None, [] if done else [events.Skipped(at=now, row=row, by=by)]


def withdrawn(state: State, now: float, row: int, by: str) -> tuple[bool, list[Event]]:
    """Return whether there is an answer, a skip or a question to take back."""
    row, by = checked_row(state, row), plain_text(by, "by")
    theirs = by in state.said(row) or by in state.leases.get(row, ())
    return theirs, [events.Withdrawn(at=now, row=row, by=by)] if theirs else []


def undone(state: State, now: float, by: str) -> tuple[int | None, list[Event]]:
    """Return the row of an annotator's last change, which is theirs again."""
    row = state.undoable(plain_text(by, "by"))
    if row is None:
        return None, []
    return row, [events.Undone(at=now, row=row, by=by, until=now + state.settings.lease)]


def noted(state: State, now: float, row: int, by: str, text: str) -> tuple[None, list[Event]]:
    """Return a note."""
    row, by = checked_row(state, row), plain_text(by, "by")
    text = plain_text(text, "The note", longest=LONGEST_NOTE)
    return None, [events.Noted(at=now, row=row, by=by, text=text)]


def exported(state: State, now: float, what: str, by: str) -> tuple[None, list[Event]]:
    """Return that somebody took something out."""
    return None, [events.Exported(at=now, by=plain_text(by, "by"), what=what)]


def class_added(state: State, now: float, label: Any) -> tuple[None, list[Event]]:
    """Return the declaration of a class that is not known yet."""
    label = plain_label(label)
    if label in state.classes:
        return None, []
    _check_unused(state, label)
    state.settings.answer.check_names((*state.classes, label))
    return None, [events.ClassAdded(at=now, label=label)]


def described(
    state: State,
    now: float,
    label: Any,
    *,
    name: Any = None,
    colour: str | None = None,
    text: str | None = None,
) -> tuple[None, list[Event]]:
    """Return what is said of a class, or of all where there is none, if it is new."""
    if text:
        text = plain_text(text, "The description", longest=100_000)
    if label is None:
        if text is None or text == state.guidelines:
            return None, []
        return None, [events.Described(at=now, label=None, name=None, colour=None, text=text)]
    place = place_of(state.classes, state.renamed, label)
    label = state.classes[place]
    if colour and not re.fullmatch("#[0-9a-fA-F]{6}", colour):
        raise BadParameter(f"colour must be like '#1b9e77', got {colour!r}.")
    name = None if name is None else plain_label(name)
    if position((label,), name) == 0:
        name = None
    if name is not None:
        if position(state.classes, name) is not None:
            raise BadParameter(
                f"There is a class {name!r} already. Use a new name, or correct the answers in Review to make "
                "two classes one."
            )
        _check_unused(state, name, of=label)
        before, after = state.classes[:place], state.classes[place + 1 :]
        state.settings.answer.check_names((*before, name, *after))
    known = state.described.get(place, Description())
    if name is None and known.changed(colour, text) == known:
        return None, []
    return None, [events.Described(at=now, label=label, name=name, colour=colour, text=text)]


def _check_unused(state: State, name: Label, of: Label | None = None) -> None:
    """Refuse a name that another class had: pages that have not heard of it still mean that one."""
    now = state.renamed.get(name)
    if now is not None and now != of:
        raise BadParameter(
            f"{name!r} was the name of {now!r}; pages and files from before still mean that class by it. "
            "Choose a name that no other class had."
        )


def extended(
    state: State, now: float, before: Mapping[str, Any], pool: dict[str, Any]
) -> tuple[int, list[Event]]:
    """Return how many rows a pool has more than before."""
    if state.pool != before:
        raise PoolChanged("Somebody else took in rows at the same time. Try again.")
    more = pool["n_rows"] - state.n_rows
    return more, [events.Extended(at=now, pool=pool)] if more else []


def checked_row(state: State, row: Any) -> int:
    """Return the number of a row of the pool."""
    fits = not isinstance(row, bool) and isinstance(row, Integral)
    if not fits or not 0 <= int(row) < state.n_rows:
        raise BadParameter(f"row must be a whole number from 0 to {state.n_rows - 1}, got {row!r}.")
    return int(row)

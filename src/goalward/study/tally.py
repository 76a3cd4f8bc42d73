"""What there is how often among the answers, kept as they come: no page counts a million again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from rpds import HashTrieMap

from goalward.journal.events import Label
from goalward.study.lines import Standing

if TYPE_CHECKING:
    from goalward.study.answered import Answered

__all__ = ["Tally", "adjusted", "facts", "used_label"]

Tally: TypeAlias = "HashTrieMap[tuple[Any, ...], int]"
Said: TypeAlias = Mapping[str, Standing]
DONE = ("closed",)
"""The row needs no more answers."""


def used_label(said: Said, rule: str, among: Sequence[Label] | None = None) -> Any:
    """Return the label that answers to a row make: the latest, or that of most annotators."""
    newest_first = sorted(said.values(), key=attrgetter("seq"), reverse=True)
    labels = [s.label for s in newest_first if s.label is not None]
    if among is not None:
        labels = [label for label in labels if label in among]
    if not labels or rule == "latest":
        return labels[0] if labels else None
    # Counter keeps the order of arrival, so that of equally many the newest wins.
    return Counter(labels).most_common(1)[0][0]


def facts(state: Answered, row: int, said: Said) -> Iterator[tuple[Any, ...]]:
    """Give what is counted of a row: its answers, who spoke, its label, and whether it is done."""
    if not said:
        return
    labels = []
    yield ("rows",)
    for by, standing in said.items():
        yield "by", by
        if standing.label is not None:
            labels.append(standing.label)
            yield ("answers",)
    settings = state.settings
    if row not in state.aside and (not labels or len(labels) >= settings.answers):
        yield DONE
    if len(labels) > 1 and len(set(labels)) > 1:
        yield ("disagreements",)
    if labels:
        yield ("labelled",)
    # Weighed, a label follows from all answers to all rows.
    if labels and settings.label != "weighed":
        label = labels[0] if len(labels) == 1 else used_label(said, settings.label)
        for each in settings.answer.counted(label):
            yield "label", settings.measures(row), *each


def adjusted(state: Answered, row: int, before: Said, after: Said) -> dict[str, Any]:
    """Return tally, begun and reopened rows when what is said of a row becomes something else."""
    tally, begun, reopened = state.tally, state.begun, state.reopened
    was, now = (list(facts(state, row, said)) for said in (before, after))
    for sign, found in ((-1, was), (1, now)):
        for fact in found:
            count = tally.get(fact, 0) + sign
            tally = tally.insert(fact, count) if count else tally.remove(fact)
    if DONE in now:
        reopened = reopened.discard(row)
    elif DONE in was:
        reopened = reopened.insert(row)
    answers = sum(s.label is not None for s in after.values())
    if 0 < answers < state.settings.answers and row not in state.aside:
        begun = begun.insert(row, min(s.seq for s in after.values()))
    elif state.settings.answers > 1:
        begun = begun.discard(row)
    return {"tally": tally, "begun": begun, "reopened": reopened}

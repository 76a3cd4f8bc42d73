"""What there is how often among the answers, kept as they come: no page counts a million again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from sys import intern
from typing import TYPE_CHECKING, Any, TypeAlias

from rpds import HashTrieMap

from goalward.studio.advice.gains import BACK
from goalward.studio.store.events import Label, Ranked
from goalward.studio.study.lines import Standing

if TYPE_CHECKING:
    from goalward.studio.study.answered import Answered


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


# Rankings as a study remembers them: of the older ones what curves and stopping rules look at.


MODELS = 5
"""Models whose predictions are kept: the rules look at the last four."""


def add_ranking(rounds: list[tuple[int, Ranked]], seq: int, new: Ranked) -> None:
    """Add a ranking; the one before loses its queue.

    Predictions are compared with those of the last models and of the one 50 labels ago. As far back
    again they are kept, and the first, for when answers are taken back.
    """
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

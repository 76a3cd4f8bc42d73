"""What a project's annotators say, and a study brought to say the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from goalward.adapters.label_studio.config import LabelConfig
from goalward.adapters.label_studio.tasks import Tasks
from goalward.journal.events import Label
from goalward.study import Study

__all__ = ["Names", "Refused", "TaskAnswer", "answers", "tell"]


@dataclass(frozen=True)
class TaskAnswer:
    """An annotator's present word on a row; a label of None is a skip."""

    row: int
    by: str
    label: Label | None


@dataclass(frozen=True)
class Refused:
    """An annotation that stays in Label Studio only, and why."""

    task: int
    by: str
    reason: str


class Names(defaultdict[int, str]):
    """user -> name in the study; those whose email cannot be seen go by their number."""

    def __init__(self, prefix: str, emails: Mapping[int, str]) -> None:
        super().__init__(str, {user: prefix + email for user, email in emails.items()})
        self._prefix = prefix

    def __missing__(self, user: int) -> str:
        return f"{self._prefix}user-{user}"


def answers(
    listed: Iterable[Mapping[str, Any]],
    tasks: Tasks,
    config: LabelConfig,
    classes: Iterable[Label],
    names: Mapping[int, str],
) -> tuple[list[TaskAnswer], list[Refused]]:
    """Return the newest annotation of every row and annotator, oldest first, and what does not fit.

    Parameters
    ----------
    listed
        Tasks with their annotations.
    names
        user -> the name they have in the study.
    """
    known = {str(label): label for label in classes}
    newest: dict[tuple[int, str], tuple[tuple[str, int], int, Label | None, str]] = {}
    for task in listed:
        number = int(task["id"])
        row = tasks.rows.get(number)
        if row is None:
            continue
        for annotation in task["annotations"]:
            by = _name(annotation.get("completed_by"), names)
            order = (str(annotation.get("updated_at")), int(annotation["id"]))
            if (row, by) not in newest or newest[row, by][0] < order:
                newest[row, by] = (order, number, *_read(annotation, config, known))
    said, refused = [], []
    for (row, by), (_, number, label, reason) in sorted(newest.items(), key=lambda one: one[1][0]):
        if reason:
            refused.append(Refused(number, by, reason))
        else:
            said.append(TaskAnswer(row, by, label))
    return said, refused


def tell(
    study: Study, said: Sequence[TaskAnswer], present: set[int], prefix: str, *, withdraw: bool
) -> dict[str, int]:
    """Bring a study to what annotators say; return how many were told, skipped and withdrawn.

    Parameters
    ----------
    present
        Rows whose tasks exist. An answer to a row whose task is gone stays: a task can be deleted
        for other reasons than its label.
    prefix
        What names of this project's annotators start with; nobody else's answer is withdrawn.
    withdraw
        False where annotations may have changed while they were read, so that a missing one
        proves nothing.
    """
    standing = {
        (row, by): stands.label
        for row, each in study.state.standings.items()
        for by, stands in each.items()
        if by.startswith(prefix)
    }
    news = [a for a in said if (a.row, a.by) not in standing or standing[a.row, a.by] != a.label]
    # In the order they were given: of disagreeing annotators the latest counts.
    for (by, skips), group in groupby(news, key=lambda a: (a.by, a.label is None)):
        if skips:
            for answer in group:
                study.skip(answer.row, by=by)
        else:
            study.tell_many([(answer.row, answer.label) for answer in group], by=by)
    gone = standing.keys() - {(a.row, a.by) for a in said} if withdraw else set()
    gone = {(row, by) for row, by in gone if row in present}
    for row, by in sorted(gone):
        study.withdraw(row, by=by)
    skipped = sum(a.label is None for a in news)
    return {"told": len(news) - skipped, "skipped": skipped, "withdrawn": len(gone)}


def _read(
    annotation: Mapping[str, Any], config: LabelConfig, known: Mapping[str, Label]
) -> tuple[Label | None, str]:
    """Return the label that an annotation says, None for a skip, or why it does not fit."""
    if annotation.get("was_cancelled"):
        return None, ""
    choices = config.answer(annotation.get("result") or [])
    if len(choices) != 1:
        return None, f"{len(choices)} choices where one was expected"
    if choices[0] not in known:
        return None, f"{choices[0][:100]!r} is not one of the classes"
    return known[choices[0]], ""


def _name(user: Any, names: Mapping[int, str]) -> str:
    number = user.get("id") if isinstance(user, dict) else user
    return names[int(number)] if number is not None else names[0]

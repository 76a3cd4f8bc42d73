"""What the labels of a round changed: the model before them, measured on the rows of now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goalward.journal import Ranked

if TYPE_CHECKING:
    from goalward.study.rounds import Round

__all__ = ["goal_before"]


def goal_before(now: Round) -> float | None:
    """Return the goal, per row, of the model of the last ranking with other training labels.

    It is fitted again from the rows that had an answer by then, as labelled now, so that its
    difference to the goal is what the new labels brought: not other dev rows, nor corrections. Where
    nothing but new training labels came since, it is the goal stored then. None where no ranking
    with the same measure came before, or its rows have labels of one class now.
    """
    before = _before(now)
    if before is None or (before.metric == "dev") != now.has_dev:
        return None
    known = now.known_at(before.based_on)
    if before.goal is not None and _only_new(now, before, known):
        return before.goal
    if len(set(known.values())) < 2:
        return None
    return now.goal.value(now.model_at(before.based_on)) / len(now.goal_rows)


def _before(now: Round) -> Ranked | None:
    """Return the last ranking with another number of labels, as `bought_rounds` counts them."""
    labels = len(now.state.training)
    return next((r for _, r in reversed(now.state.rounds) if r.labels != labels), None)


def _only_new(now: Round, before: Ranked, known: dict[int, Any]) -> bool:
    """Return whether every change since was the first answer to a training row."""
    state = now.state
    # Labels of all classes were known: none was declared since.
    same_classes = len(set(known.values())) == len(state.classes)
    return same_classes and state.moves - before.moves == len(state.training) - len(known)

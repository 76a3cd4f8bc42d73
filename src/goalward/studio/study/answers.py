"""Answers beside what a model that did not know them says, and which of them to doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.core.card import card
from goalward.labels import Expected, Predicted
from goalward.models.left_out import left_out
from goalward.strategies import GoalOriented
from goalward.studio.study.rounds import StudyRound
from goalward.utility import relabel
from goalward.utility.known_labels import Todo


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Answers, and what a model that did not know each of them says.

    Parameters
    ----------
    rows, truth
        Rows of the pool, and the place of each label among the classes; (n, k) where they are several
        labels or numbers (`Kind.truth`).
    proba
        (n, k): of a model without that row. Of numbers what it expects.
    chosen
        Whether the row trains the model; those that measure were drawn at random.
    """

    rows: NDArray[Any] = field(repr=False)
    truth: NDArray[Any] = field(repr=False)
    proba: NDArray[Any] = field(repr=False)
    chosen: NDArray[Any] = field(repr=False)

    @classmethod
    def of(cls, now: StudyRound) -> LeftOut:
        """Return the answers of a round: those that train first, then those that measure."""
        # Rankings and pages ask for the same.
        return cast(
            LeftOut, vars(now).get("left_out") or vars(now).setdefault("left_out", cls._of(now))
        )

    @classmethod
    def _of(cls, now: StudyRound) -> LeftOut:
        state, fitted = now.state, now.fitted
        rows, truth, measures = state.used[0], state.settings.answer.truth(state), state.measuring
        proba = [to_numpy(fitted.loss.proba(left_out(fitted)))]
        if measures.any():
            proba.append(to_numpy(fitted.predict_proba(now.pool.take(rows[measures]))))
        order = np.argsort(measures, kind="stable")
        return cls(rows[order], truth[order], np.concatenate(proba), ~measures[order])

    @property
    def right(self) -> NDArray[Any]:
        """Whether the label is the one predicted."""
        return np.asarray(self.proba.argmax(axis=1) == self.truth)

    @property
    def likelihood(self) -> NDArray[Any]:
        """The probability that was given to each label."""
        return np.asarray(self.proba[np.arange(len(self.truth)), self.truth])

    def measuring(self) -> LeftOut:
        """Return the answers that were drawn at random alone."""
        kept = ~self.chosen
        return LeftOut(self.rows[kept], self.truth[kept], self.proba[kept], self.chosen[kept])


class Doubts(NamedTuple):
    """Rows with answers, those that the model doubts most first.

    Parameters
    ----------
    rows
        Rows of the pool.
    doubt
        1 less the probability of the answer, by the model without that answer; of several labels that
        of the least likely one. Of numbers the share that would be less far off.
    says
        What the model would have said; of several labels, to each that was answered.
    look, drop
        What the goal would gain, per row of it and to first order, by looking at the answer again
        and by dropping it; None for answers that measure, which train nothing, and where answers are
        no classes.
    """

    rows: list[int]
    doubt: list[float]
    says: list[Any]
    look: list[float | None]
    drop: list[float | None]

    @classmethod
    def of(cls, now: StudyRound) -> Doubts:
        """Return all answers, the most doubtful first."""
        answers, found = LeftOut.of(now), relabel(now.fitted, now.goal)
        doubt = 1.0 - answers.likelihood
        order = np.argsort(-doubt, kind="stable")
        said = [now.state.classes[k] for k in answers.proba.argmax(axis=1)[order]]
        gains: list[list[float | None]] = []
        for gain in (found.look, found.drop):
            assert gain is not None
            each = [*(gain / len(now.goal_rows)).tolist(), *[None] * len(now.state.dev)]
            gains.append([each[i] for i in order])
        return cls(answers.rows[order].tolist(), doubt[order].tolist(), said, *gains)

    @classmethod
    def by(
        cls, answers: LeftOut, worst: NDArray[Any], doubt: NDArray[Any], says: list[Any]
    ) -> Doubts:
        """Return answers in the order of `worst`, highest first."""
        order = np.argsort(-worst, kind="stable")
        unknown: list[float | None] = [None] * len(order)
        told = [says[i] for i in order]
        return cls(answers.rows[order].tolist(), doubt[order].tolist(), told, unknown, unknown)

    def _repr_html_(self) -> str:
        columns = {"row": self.rows, "doubt": self.doubt, "the model says": self.says}
        return card(
            f"{len(self.rows):,} answers, the most doubtful first", columns, bar="doubt", most=1
        )


def steps(now: StudyRound, rows: Sequence[int]) -> list[Todo]:
    """Return what would raise the goal most, per row of it: label one of some rows, look again, drop.

    By corrected steps, labels believed as the model, set right for mistakes, predicts them.
    """
    found = relabel(now.fitted, now.goal, "corrected")
    belief = Expected(Predicted(found.temperature))
    strategy = GoalOriented(now.goal, operator=belief, utility="corrected")
    X = now.pool.take(rows).astype(np.float64)
    suggestion = strategy.suggest(now.fitted, X, batch=len(rows))
    names = {"label": list(rows)}
    known, per_row = list(now.state.training), 1.0 / len(now.goal_rows)
    queue = found.queue(suggestion)
    return [Todo(what, names.get(what, known)[row], per_row * gain) for what, row, gain in queue]

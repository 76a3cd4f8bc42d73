"""Answers compared with predictions of models without them, and which answers to doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.core.card import card
from goalward.labels import Expected, Predicted
from goalward.models.fitted import left_out
from goalward.strategies import GoalOriented
from goalward.utility import relabel
from goalward.utility.known_labels import Todo

if TYPE_CHECKING:
    from goalward.studio.study.rounds import StudyRound


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Answers, and predictions of models fitted without each; `chosen` rows train, others measure."""

    rows: NDArray[Any]
    truth: NDArray[Any]
    proba: NDArray[Any]
    chosen: NDArray[Any]

    @classmethod
    def of(cls, now: StudyRound) -> LeftOut:
        """Return the answers of a round: those that train first, then those that measure."""
        answers: LeftOut | None = vars(now).get("left_out")
        if answers is None:
            state, fitted = now.state, now.fitted
            rows, measures = state.used[0], state.measuring
            truth = state.settings.answer.truth(state)
            proba = [to_numpy(fitted.loss.proba(left_out(fitted)))]
            if measures.any():
                proba.append(to_numpy(fitted.predict_proba(now.pool.take(rows[measures]))))
            order = np.argsort(measures, kind="stable")
            answers = cls(rows[order], truth[order], np.concatenate(proba), ~measures[order])
            vars(now)["left_out"] = answers
        return answers

    @classmethod
    def scored(cls, now: StudyRound) -> LeftOut:
        """Return the dev answers; all, while those are too few."""
        answers = cls.of(now)
        kept = ~answers.chosen if now.has_dev else slice(None)
        return cls(*(getattr(answers, name)[kept] for name in ("rows", "truth", "proba", "chosen")))

    @property
    def likelihood(self) -> NDArray[Any]:
        return np.asarray(self.proba[np.arange(len(self.truth)), self.truth])


class Doubts(NamedTuple):
    """Rows with answers, the most doubtful first.

    `doubt` is 1 - P(answer) and `says` the prediction, by a model without it; `look` and `drop` are the
    gains of the goal per row by looking again and by dropping it.
    """

    rows: list[int]
    doubt: list[float]
    says: list[Any]
    look: list[float | None]
    drop: list[float | None]

    @classmethod
    def by(
        cls,
        answers: LeftOut,
        worst: NDArray[Any],
        doubt: NDArray[Any],
        says: list[Any],
        *gains: Any,
        most: int | None = None,
    ) -> Doubts:
        """Return answers in the order of `worst`, highest first; `gains` are `look` and `drop`."""
        order = np.argsort(-worst, kind="stable")[:most].tolist()
        gains = gains or ([None] * len(says),) * 2
        columns = (answers.rows.tolist(), doubt.tolist(), says, *gains)
        return cls(*([column[i] for i in order] for column in columns))

    def _repr_html_(self) -> str:
        columns = {"row": self.rows, "doubt": self.doubt, "the model says": self.says}
        title = f"{len(self.rows):,} answers, the most doubtful first"
        return card(title, columns, bar="doubt", most=1)


def steps(now: StudyRound, rows: Sequence[int]) -> list[Todo]:
    """Return the steps that raise the goal most: label a row, check an answer, drop one."""
    known_labels = relabel(now.fitted, now.goal, "corrected")
    belief = Expected(Predicted(known_labels.temperature))
    strategy = GoalOriented(now.goal, operator=belief, utility="corrected")
    X = now.pool.take(rows).astype(np.float64)
    suggestion = strategy.suggest(now.fitted, X, batch=len(rows))
    known, per_row = list(now.state.training), 1.0 / len(now.goal_rows)
    return [
        Todo(what, (rows if what == "label" else known)[row], per_row * gain)
        for what, row, gain in known_labels.queue(suggestion)
    ]

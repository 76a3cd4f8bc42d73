"""Answers beside what a model that did not know them says: scores by class, and which to doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from goalward.core.arrays import to_numpy
from goalward.core.card import card
from goalward.goals.leave_one_out import left_out
from goalward.journal.events import Label
from goalward.labels import Expected, Predicted
from goalward.strategies import GoalOriented
from goalward.study.rounds import StudyRound
from goalward.utility import relabel
from goalward.utility.known_labels import Todo

__all__ = ["ClassScores", "Doubts", "Interval", "LeftOut", "Scores", "steps", "wilson"]


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
        1 less the probability of the answer, by the model without that answer.
    says
        What the model would have said.
    look, drop
        What the goal would gain, per row of it and to first order, by looking at the answer again
        and by dropping it; None for answers that measure, which train nothing.
    """

    rows: list[int]
    doubt: list[float]
    says: list[Label]
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


class Interval(NamedTuple):
    """A share, and the ends of its 95 % interval; a share of nothing is None within 0 and 1."""

    value: float | None
    low: float
    high: float


@dataclass(frozen=True)
class ClassScores:
    """How a class is told from the others.

    Parameters
    ----------
    answers
        How many answers name it.
    precision, recall, f1
        The share of its predictions that are right, the share of its rows that are found, and
        their harmonic mean.
    """

    label: Label
    answers: int
    precision: Interval
    recall: Interval
    f1: Interval


@dataclass(frozen=True)
class Scores:
    """Scores of every class, and the confusion matrix.

    Parameters
    ----------
    classes
        One for each class, in their order.
    confusion
        Answers by their label (rows) and what was predicted (columns).
    on, chosen
        How many answers these are, and how many of them a strategy chose: those are the hard rows,
        on which a model does worse than elsewhere.
    """

    classes: tuple[ClassScores, ...]
    confusion: tuple[tuple[int, ...], ...]
    on: int
    chosen: int

    @classmethod
    def of(cls, answers: LeftOut, classes: Sequence[Label]) -> Scores:
        """Return the scores on answers that the model did not know."""
        k = len(classes)
        places = answers.truth * k + answers.proba.argmax(axis=1)
        table = np.bincount(places, minlength=k * k).reshape(k, k)
        right, of, said = np.diag(table), table.sum(axis=1), table.sum(axis=0)
        scores = []
        for j, label in enumerate(classes):
            hit, named, found = int(right[j]), int(of[j]), int(said[j])
            # F1 = 2J / (1 + J) with J = hits / (hits + misses of both kinds), a share.
            shared = wilson(hit, named + found - hit)
            f1 = Interval(*(None if x is None else 2 * x / (1 + x) for x in shared))  # type: ignore[arg-type]
            scores.append(ClassScores(label, named, wilson(hit, found), wilson(hit, named), f1))
        matrix = tuple(tuple(line) for line in table.tolist())
        return cls(tuple(scores), matrix, len(answers.truth), int(answers.chosen.sum()))

    def record(self) -> dict[str, Any]:
        """Return the scores as plain values."""
        named = ("precision", "recall", "f1")
        lines = [
            asdict(one) | {name: getattr(one, name)._asdict() for name in named}
            for one in self.classes
        ]
        return {
            "classes": lines,
            "confusion": [list(line) for line in self.confusion],
            "on": self.on,
            "chosen": self.chosen,
        }


def wilson(hits: float, of: float, level: float = 0.95) -> Interval:
    """Return a share and Wilson's interval; for counts that are weighted, their effective number.

    Examples
    --------
    >>> [round(x, 2) for x in wilson(8, 10)]
    [0.8, 0.49, 0.94]
    """
    if not of:
        return Interval(None, 0.0, 1.0)
    z, share = float(ndtri(0.5 + level / 2)), hits / of
    middle = share + z * z / (2 * of)
    half = z * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5
    scale = 1 + z * z / of
    # The share lies between the ends, also where both are 0 or 1 and numbers are rounded.
    low, high = (middle - half) / scale, (middle + half) / scale
    return Interval(share, max(0.0, min(share, low)), min(1.0, max(share, high)))

"""Scores on answers that a model did not know, each with an interval: by class, label, of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from goalward.studio.store.events import Label
from goalward.studio.study.answers import LeftOut

LARGEST = 10
"""Errors that are shown, the largest first."""


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

    @classmethod
    def of(cls, label: Label, hit: Any, named: Any, found: Any) -> ClassScores:
        """Return the scores of a class that `named` answers name and `found` predictions, `hit` both."""
        hit, named, found = int(hit), int(named), int(found)
        # F1 = 2J / (1 + J) with J = hits / (hits + misses of both kinds), a share.
        shared = wilson(hit, named + found - hit)
        f1 = Interval(*(None if x is None else 2 * x / (1 + x) for x in shared))  # type: ignore[arg-type]
        return cls(label, named, wilson(hit, found), wilson(hit, named), f1)

    def record(self) -> dict[str, Any]:
        """Return the scores as plain values."""
        named = ("precision", "recall", "f1")
        return asdict(self) | {name: getattr(self, name)._asdict() for name in named}


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
        counts = zip(np.diag(table), table.sum(axis=1), table.sum(axis=0), strict=True)
        scores = [ClassScores.of(label, *of) for label, of in zip(classes, counts, strict=True)]
        matrix = tuple(tuple(line) for line in table.tolist())
        return cls(tuple(scores), matrix, len(answers.truth), int(answers.chosen.sum()))

    def record(self) -> dict[str, Any]:
        """Return the scores as plain values."""
        return {
            "classes": [one.record() for one in self.classes],
            "confusion": [list(line) for line in self.confusion],
            "on": self.on,
            "chosen": self.chosen,
        }


@dataclass(frozen=True)
class LabelScores:
    """Scores of every label: whether it holds is a question by itself.

    Parameters
    ----------
    labels
        One for each label, in their order; `answers` are those that say it holds.
    right
        The share of all yes and no that are right.
    on, chosen
        As in `Scores`.
    """

    labels: tuple[ClassScores, ...]
    right: Interval
    on: int
    chosen: int

    @classmethod
    def of(cls, answers: LeftOut, labels: Sequence[Label]) -> LabelScores:
        """Return the scores on answers that the model did not know; those not given count for nothing."""
        told, yes = ~np.isnan(answers.truth), answers.truth > 0.5
        found = told & (answers.proba > 0.5)
        counts = zip((yes & found).sum(axis=0), yes.sum(axis=0), found.sum(axis=0), strict=True)
        scores = [ClassScores.of(label, *of) for label, of in zip(labels, counts, strict=True)]
        right = wilson(int((told & (yes == found)).sum()), int(told.sum()))
        return cls(tuple(scores), right, len(answers.rows), int(answers.chosen.sum()))

    def record(self) -> dict[str, Any]:
        """Return the scores as plain values."""
        lines = [one.record() for one in self.labels]
        counts = {"on": self.on, "chosen": self.chosen}
        return {"labels": lines, "right": self.right._asdict(), **counts}


class Off(NamedTuple):
    """A row, its number, and what a model that did not know it says."""

    row: int
    answer: float
    says: float


@dataclass(frozen=True)
class NumberScores:
    """How far numbers are off.

    Parameters
    ----------
    r2, mean_error, typical_error
        The share of the variance that is explained, the mean of |error|, and the root of its mean
        square; intervals by drawing the answers again.
    largest
        The largest errors, first the worst.
    on, chosen
        As in `Scores`.
    """

    r2: Interval
    mean_error: Interval
    typical_error: Interval
    largest: tuple[Off, ...]
    on: int
    chosen: int

    @classmethod
    def of(cls, answers: LeftOut) -> NumberScores:
        """Return the scores on answers that the model did not know."""
        truth, says = answers.truth[:, 0], answers.proba[:, 0]
        off, n = np.abs(truth - says), len(truth)
        drawn = np.random.default_rng(0).integers(n, size=(2000, n))
        varied = np.maximum(np.var(truth[drawn], axis=1), 1e-300)
        squares, whole = np.mean(off[drawn] ** 2, axis=1), float(np.var(truth))
        square = float(np.mean(off**2))
        first = np.argsort(-off, kind="stable")[:LARGEST]
        return cls(
            _within(1.0 - square / whole if whole else None, 1.0 - squares / varied),
            _within(float(off.mean()), off[drawn].mean(axis=1)),
            _within(square**0.5, np.sqrt(squares)),
            tuple(Off(int(answers.rows[i]), float(truth[i]), float(says[i])) for i in first),
            n,
            int(answers.chosen.sum()),
        )

    def record(self) -> dict[str, Any]:
        """Return the scores as plain values."""
        names = ("r2", "mean_error", "typical_error")
        return {
            **{name: getattr(self, name)._asdict() for name in names},
            "largest": [one._asdict() for one in self.largest],
            **{"on": self.on, "chosen": self.chosen},
        }


def _within(value: float | None, draws: NDArray[Any]) -> Interval:
    low, high = np.quantile(draws, [0.025, 0.975]).tolist()
    return (
        Interval(value, low, high)
        if value is None
        else Interval(value, min(value, low), max(value, high))
    )


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

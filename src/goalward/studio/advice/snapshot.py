"""What a round leaves behind for stopping rules, and what a rule answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.studio.advice.compared import COMPARED, Compared


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A round as stopping rules see it; None where it is not known.

    Parameters
    ----------
    labels, bought
        Labels the model was fitted on, and those paid for so far: dev labels too.
    least
        Labels of the class that has fewest; None: not known, and no reason to wait.
    kind
        "class", "labels" or "numbers".
    metric, accuracy, low
        How the accuracy was measured ("dev" or "cross-validated"), what it was (the share of rows
        predicted right, macro-F1 or R²), and the low end of its interval.
    goal, gain
        The goal, and how far a label of the next batch is predicted to move it; both per row of
        the goal.
    goal_before
        The goal, on the same rows, of the model of the round before; None where it was not
        measured again.
    predicted
        The predicted class of each row of the stop set: rows drawn once, the same in every round. Of
        several labels 1 or 0, label by label, for each row; of numbers those that are expected.
    scale
        Of numbers: their variance over all rows.
    uncertainty
        Mean entropy of the predictions on the stop set, in nats.
    variance
        Variance over the stop set of the probability of the predicted class.
    doubt
        The highest entropy among the rows of the next batch, in nats.

    Examples
    --------
    >>> Snapshot(labels=20, bought=25, predicted=(0, 1, 1)).labels
    20
    """

    labels: int
    bought: int
    least: int | None = None
    kind: str = "class"
    metric: str | None = None
    accuracy: float | None = None
    low: float | None = None
    goal: float | None = None
    gain: float | None = None
    goal_before: float | None = None
    predicted: Sequence[Any] | None = field(default=None, repr=False)
    scale: float | None = None
    uncertainty: float | None = None
    variance: float | None = None
    doubt: float | None = None

    @property
    def compared(self) -> Compared:
        """How two models of this kind are compared."""
        return COMPARED[self.kind]

    def beside(self, before: Snapshot) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return an earlier model's predictions and its own; None where they are not of the same."""
        if before.predicted is None or self.predicted is None:
            return None
        one, other = np.array(before.predicted), np.array(self.predicted)
        # More rows, or more labels, than there were.
        return (one, other) if one.shape == other.shape else None


@dataclass(frozen=True)
class Criterion:
    """The answer of a stopping rule.

    Parameters
    ----------
    value, threshold
        What it looks at, and where that says stop; None where it is not known.
    stop
        The verdict; None where the value is not known.
    applies
        Whether the rule has a meaning for what is predicted.
    says, source
        What is compared, in words, and where the rule comes from.

    Examples
    --------
    >>> Criterion("budget", 100.0, 100.0, True, "labels bought >= budget", "").verdict
    'stop'
    """

    name: str
    value: float | None
    threshold: float | None
    stop: bool | None
    says: str
    source: str
    applies: bool = True

    @classmethod
    def judged(
        cls,
        name: str,
        value: float | None,
        stops: Callable[[float, float], bool],
        threshold: float | None,
        says: str,
        source: str,
    ) -> Criterion:
        """Return the answer of a rule that stops where `stops(value, threshold)`."""
        known = value is not None and threshold is not None
        stop = stops(value, threshold) if known else None  # type: ignore[arg-type]
        return cls(name, value, threshold, stop, says, source)

    @property
    def verdict(self) -> str:
        """The verdict as a word."""
        if not self.applies:
            return "has no meaning here"
        return "not known" if self.stop is None else "stop" if self.stop else "go on"


def seen(
    proba: NDArray[Any], batch: NDArray[Any], kind: str = "class", *, scale: float | None = None
) -> dict[str, Any]:
    """Return what a snapshot keeps of what a model says, on the stop set and a batch.

    Probabilities, (n, k); of numbers, what is expected, with their variance over all rows as `scale`.
    """
    return COMPARED[kind].seen(proba, batch, scale)


def bought_rounds(rounds: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the rounds without those that were ranked again before a new label had come."""
    kept: list[Snapshot] = []
    for one in rounds:
        if kept and kept[-1].labels == one.labels:
            kept.pop()
        kept.append(one)
    return kept

"""What a round leaves behind for stopping rules, and what a rule answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

__all__ = ["Criterion", "Snapshot", "bought_rounds", "seen"]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A round as stopping rules see it; None where it is not known.

    Parameters
    ----------
    labels, bought
        Labels the model was fitted on, and those paid for so far: dev labels too.
    least
        Labels of the class that has fewest; None: not known, and no reason to wait.
    metric, accuracy
        How the accuracy was measured ("dev" or "cross-validated"), and what it was.
    goal, gain
        The goal, and how far a label of the next batch is predicted to move it; both per row of
        the goal.
    goal_before
        The goal, on the same rows, of the model of the round before; None where it was not
        measured again.
    predicted
        The predicted class of each row of the stop set: rows drawn once, the same in every round.
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
    metric: str | None = None
    accuracy: float | None = None
    goal: float | None = None
    gain: float | None = None
    goal_before: float | None = None
    predicted: Sequence[int] | None = field(default=None, repr=False)
    uncertainty: float | None = None
    variance: float | None = None
    doubt: float | None = None


@dataclass(frozen=True)
class Criterion:
    """The answer of a stopping rule.

    Parameters
    ----------
    value, threshold
        What it looks at, and where that says stop; None where it is not known.
    stop
        The verdict; None where the value is not known.
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
        return "not known" if self.stop is None else "stop" if self.stop else "go on"


def seen(proba: NDArray[Any], batch: NDArray[Any]) -> dict[str, Any]:
    """Return what a snapshot keeps of a model's (n, k) probabilities on the stop set and a batch."""
    return {
        "predicted": tuple(proba.argmax(axis=1).tolist()),
        "uncertainty": float(np.mean(entr(proba).sum(axis=1))),
        "variance": float(np.var(proba.max(axis=1))),
        "doubt": float(np.max(entr(batch).sum(axis=1))) if len(batch) else None,
    }


def bought_rounds(rounds: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the rounds without those that were ranked again before a new label had come."""
    kept: list[Snapshot] = []
    for one in rounds:
        if kept and kept[-1].labels == one.labels:
            kept.pop()
        kept.append(one)
    return kept

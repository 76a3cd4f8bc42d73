"""When to stop labelling (`gw.stopping`): pure functions over rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import ge, lt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

__all__ = [
    "PRICE",
    "Criterion",
    "Gain",
    "Snapshot",
    "budget_spent",
    "criteria",
    "gain_below_price",
    "next_gain",
    "stabilizing_predictions",
]

BACK, AHEAD = 50, 100
"""Labels over which predictions are compared, and over which gains are predicted."""
PRICE = 0.02 / AHEAD
"""What a label must bring, as a share of all rows: two points (0.02) for 100 labels."""
ANSWERS, EACH = 30, 5
"""Answers in all, and of every class (of every label, yes and no), before any rule says stop."""
HIGHEST = {"class": 0.45, "labels": 0.6, "numbers": 0.3}
"""Gain by 100 labels over the change by the last 50: nine in ten simulated ones were lower (docs/stopping.md)."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A round as stopping rules see it; None where a value is unknown.

    Parameters
    ----------
    labels, bought
        Labels the model was fitted on, and all labels paid for, dev labels included.
    least
        Labels of the rarest class.
    low, scale
        The lower end of the interval of accuracy, macro-F1 or R²; the variance of numbers.
    predicted
        Predictions for the stop set, the same rows in every round; for labels 1 or 0 each.

    Examples
    --------
    >>> Snapshot(labels=20, bought=25, predicted=(0, 1, 1)).labels
    20
    """

    labels: int
    bought: int
    least: int | None = None
    kind: str = "class"
    low: float | None = None
    predicted: Sequence[Any] | None = field(default=None, repr=False)
    scale: float | None = None

    @property
    def is_early(self) -> bool:
        """Whether it has less than 30 answers, or less than 5 of some class."""
        return self.bought < ANSWERS or (self.least is not None and self.least < EACH)

    def beside(self, before: Snapshot) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return the predictions of an earlier model and of this one; None if not comparable."""
        if before.predicted is None or self.predicted is None:
            return None
        old, new = np.array(before.predicted), np.array(self.predicted)
        # Rows or labels may have been added.
        return (old, new) if old.shape == new.shape else None


@dataclass(frozen=True)
class Criterion:
    """The answer of a stopping rule: the `value` it watches, and the `threshold`; None where unknown.

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

    @property
    def verdict(self) -> str:
        """The verdict as a word."""
        return "not known" if self.stop is None else "stop" if self.stop else "go on"


@dataclass(frozen=True)
class Gain:
    """An upper bound, `high`, on the rise of accuracy, macro-F1 or R² by the next 100 labels.

    `changed` is how much predictions changed over the last `since` labels: the share of rows with another
    class; for labels the mean of 1 - F1; for numbers standard deviations. `high` is None before 50 labels.
    """

    changed: float
    since: int
    high: float | None


def next_gain(rounds: Sequence[Snapshot]) -> Gain | None:
    """Return the gain of the next labels, by two models 50 labels apart if possible, or None."""
    known = [snapshot for snapshot in bought_rounds(rounds) if snapshot.predicted is not None]
    pairs = [(old, pair) for old in known[:-1] if (pair := known[-1].beside(old))]
    if not pairs:
        return None
    after = known[-1]
    far = [(old, pair) for old, pair in pairs if old.labels <= after.labels - BACK]
    before, pair = (far[-1:] or pairs)[0]
    changed, since = _changed(after, *pair), after.labels - before.labels
    # Nothing rises beyond 1.
    most = 1.0 if after.low is None else 1.0 - after.low
    high = min(HIGHEST[after.kind] * changed, most) if since >= BACK else None
    return Gain(changed, since, high)


def _changed(model: Snapshot, before: NDArray[Any], after: NDArray[Any]) -> float:
    """Return how much predictions changed, by their kind."""
    if model.kind == "class":
        # A row whose class stays is as right or wrong as before: accuracy moves by no more.
        return float(np.mean(before != after))
    if model.kind == "labels":
        # 1 - F1 between both models, smoothed by one changed of two for labels of few rows.
        other, named = (before != after).sum(axis=1), before.sum(axis=1) + after.sum(axis=1)
        return float(np.mean((other + 1) / (named + 2)))
    moved = float(np.mean((before - after) ** 2))
    return (moved / model.scale) ** 0.5 if model.scale and moved else 0.0


def criteria(
    rounds: Sequence[Snapshot], *, price: float | None = None, budget: int | None = None
) -> tuple[Criterion, ...]:
    """Return the verdict of every rule after the last round: ours first, the budget last.

    Before 30 answers, and 5 of each class, only the budget says stop.

    Parameters
    ----------
    rounds
        All rounds so far, oldest first.
    price, budget
        What a label must gain, as a share of all rows, and labels that may be bought, dev ones included.

    Examples
    --------
    >>> rounds = [Snapshot(labels=n, bought=n, predicted=(0, 1, 1, 0)) for n in (10, 20, 30, 40)]
    >>> [c.name for c in criteria(rounds) if c.stop]
    ['stabilizing predictions']
    """
    numbers = rounds and rounds[-1].kind == "numbers"
    return (
        gain_below_price(rounds, price=price),
        *(() if numbers else (stabilizing_predictions(rounds),)),
        budget_spent(rounds, budget=budget),
    )


def gain_below_price(rounds: Sequence[Snapshot], *, price: float | None) -> Criterion:
    """Return whether the next 100 labels bring less than their price, even at the upper end."""
    gain = next_gain(rounds)
    most = None if price is None else AHEAD * price
    says = f"upper end of the gain by the next {AHEAD} labels < their price"
    value = gain.high if gain else None
    return _judged("gain below price", value, lt, most, says, "ours", rounds)


def stabilizing_predictions(
    rounds: Sequence[Snapshot], *, threshold: float = 0.99, window: int = 3
) -> Criterion:
    """Return whether successive models agree: mean kappa of the last changes of model.

    Bloodgood and Vijay-Shanker (2009), window 3, threshold 0.99; their stop set has 2,000 rows, ours at
    most 1,000. For several labels the mean over them; numbers have no kappa.
    """
    last = bought_rounds(rounds)[-window - 1 :]
    pairs = [after.beside(before) for before, after in pairwise(last)]
    kappas = [_kappa(*pair) for pair in pairs if pair is not None]
    value = float(np.mean(kappas)) if len(kappas) == window else None
    says = f"mean kappa of successive models on the stop set, {window} rounds >= threshold"
    source = "Bloodgood and Vijay-Shanker, CoNLL 2009"
    return _judged("stabilizing predictions", value, ge, threshold, says, source, rounds)


def _kappa(before: NDArray[Any], after: NDArray[Any]) -> float:
    """Return how far two models agree beyond chance; for labels, (K, n), the mean over them."""
    if before.ndim > 1:
        return float(np.mean([_kappa(*pair) for pair in zip(before, after, strict=True)]))
    # Where both predict one class, the same, there is no chance to correct for: they agree.
    return 1.0 if np.array_equal(before, after) else float(cohen_kappa_score(before, after))


def budget_spent(rounds: Sequence[Snapshot], *, budget: int | None) -> Criterion:
    """Return whether the labels bought, dev labels included, are as many as the budget."""
    value = float(rounds[-1].bought) if rounds else None
    most = None if budget is None else float(budget)
    return _judged("budget", value, ge, most, "labels bought, dev labels included >= budget", "")


def _judged(
    name: str,
    value: float | None,
    stops: Callable[[float, float], bool],
    threshold: float | None,
    says: str,
    source: str,
    rounds: Sequence[Snapshot] = (),
) -> Criterion:
    """Return the answer of a rule; `rounds`, where given, must have 30 answers and 5 of each class."""
    stop = None
    if value is not None and threshold is not None and not any(r.is_early for r in rounds[-1:]):
        stop = stops(value, threshold)
    return Criterion(name, value, threshold, stop, says, source)


def bought_rounds(rounds: Sequence[Any]) -> list[Any]:
    """Return the rounds without those that were ranked again before a new label."""
    last = list(rounds[-1:])
    return [now for now, after in pairwise(rounds) if now.labels != after.labels] + last

"""What the next labels bring, by how many predictions the last ones changed.

No label is needed to see that, and no certainty of the model. How much of a change becomes a gain is
in `compared.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from goalward.studio.advice.compared import COMPARED
from goalward.studio.advice.snapshot import Criterion, Snapshot, bought_rounds

BACK, AHEAD = 50, 100
"""Labels over which predictions are compared, and over which gains are told."""
PRICE = 0.02 / AHEAD
"""What a label must bring, as a share of all rows: two points of accuracy for 100 labels; or 0.02 of
macro-F1 or R²."""
ANSWERS, EACH = 30, 5
"""Answers in all, and of every class (of every label, yes and no), before anything is said about
stopping."""


@dataclass(frozen=True)
class Gain:
    """How far accuracy, macro-F1 or R² rises at most.

    Parameters
    ----------
    labels
        Labels of the model now.
    changed, since
        The share of rows that are predicted otherwise than so many labels ago; of labels and numbers
        see `compared.py`.
    most
        What accuracy can rise at all: no further than to 1.

    Examples
    --------
    >>> round(Gain(labels=100, changed=0.06, since=50).high, 4)
    0.027
    """

    labels: int
    changed: float
    since: int
    kind: str = "class"
    most: float = 1.0

    @property
    def high(self) -> float | None:
        """The upper end of the gain of the next 100 labels; None before 50 labels are compared."""
        known = self.since >= BACK
        return min(COMPARED[self.kind].highest * self.changed, self.most) if known else None


def next_gain(rounds: Sequence[Snapshot]) -> Gain | None:
    """Return what the next labels bring; None where there are no two models to compare.

    The newest model is compared with the last one that had 50 labels less, or else with the first.
    """
    known = [one for one in bought_rounds(rounds) if one.predicted is not None]
    kept = [one for one in known if known[-1].beside(one)]
    before = [one for one in kept if one.labels <= kept[-1].labels - BACK][-1:] or kept[:-1][:1]
    if not before:
        return None
    after = kept[-1]
    pair = after.beside(before[0])
    assert pair is not None
    changed = after.compared.changed(*pair, after.scale)
    most = 1.0 if after.low is None else 1.0 - after.low
    return Gain(after.labels, changed, after.labels - before[0].labels, after.kind, most)


def enough(rounds: Sequence[Snapshot]) -> bool:
    """Return whether there are answers enough, 30 and 5 of each class, to speak of stopping."""
    last = rounds[-1] if rounds else None
    return (
        last is not None and last.bought >= ANSWERS and (last.least is None or last.least >= EACH)
    )


def gain_below_price(rounds: Sequence[Snapshot], *, price: float | None) -> Criterion:
    """Return whether the next 100 labels bring less than their price, even at the upper end.

    The price of a label is the share of rows that it must turn right; None: not known.
    """
    found = next_gain(rounds)
    most = None if price is None else AHEAD * price
    says = f"upper end of the gain by the next {AHEAD} labels < their price"
    return Criterion.judged(
        "gain below price", found.high if found else None, lambda a, b: a < b, most, says, "ours"
    )


def rise(before: Snapshot, after: Snapshot) -> float | None:
    """Return how far the goal rose between two rounds in a row, on rows that are the same.

    A dev set that grows has other rows in every round, and a mean over other rows is another goal.
    So the model before is measured again (`goal_before`). Where it was not, the goals themselves are
    compared, if there were as many dev labels; None if not, or if one goal is that of dev labels and
    the other is not.
    """
    on_dev = after.metric == "dev"
    if after.goal is None or on_dev != (before.metric == "dev"):
        return None
    if after.goal_before is not None:
        return after.goal - after.goal_before
    same = not on_dev or after.bought - after.labels == before.bought - before.labels
    return after.goal - before.goal if same and before.goal is not None else None

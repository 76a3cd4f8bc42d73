"""What the next label is worth, by its prediction and by how much of such predictions came true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import stdtrit

from goalward.stopping.snapshot import Criterion, Snapshot, bought_rounds

__all__ = ["LOOK_BACK", "PATIENCE", "Realised", "corrected", "gain_below_price", "realised", "rise"]

LOOK_BACK = 5
"""Rounds over which predicted and realised gains are compared."""
PATIENCE = 3
"""Rounds in a row that must agree: one may go badly by chance."""


@dataclass(frozen=True)
class Realised:
    """How much of the predicted gains came true.

    Parameters
    ----------
    ratio
        Realised over predicted gain of the last rounds.
    low, high
        Ends of its 95 % interval; None for a single round.
    rounds
        How many rounds were compared.

    Examples
    --------
    >>> Realised(0.25, 0.1, 0.4, 5).ratio
    0.25
    """

    ratio: float
    low: float | None
    high: float | None
    rounds: int


def realised(rounds: Sequence[Snapshot], *, look_back: int = LOOK_BACK) -> Realised | None:
    """Return the slope of realised over predicted gain of the last rounds; None without any.

    With p_i the gain predicted for the labels bought in round i and r_i the change of the goal,
    r_i = β p_i + e_i and a variance of e_i that grows like p_i, the best line through the origin
    has the slope β = Σr / Σp. Its variance is Σ(e_i²/p_i) / (n - 1) / Σp, and the interval is
    Student's with n - 1 degrees of freedom. The change is that of `rise`: both models on the same
    rows. Rounds where it is not known are left out.
    """
    pairs = []
    for before, after in list(pairwise(bought_rounds(rounds)))[-look_back:]:
        bought, risen = after.labels - before.labels, rise(before, after)
        if bought > 0 and risen is not None and before.gain is not None and before.gain > 0:
            pairs.append((before.gain * bought, risen))
    if not pairs:
        return None
    p, r = np.array(pairs).T
    slope = float(r.sum() / p.sum())
    n = len(pairs)
    if n == 1:
        return Realised(slope, None, None, 1)
    variance = float(np.sum((r - slope * p) ** 2 / p)) / (n - 1) / float(p.sum())
    half = float(stdtrit(n - 1, 0.975)) * variance**0.5
    return Realised(slope, slope - half, slope + half, n)


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


def corrected(rounds: Sequence[Snapshot]) -> tuple[float, float | None, float | None] | None:
    """Return the gain of the next label after correction, with the ends of its interval.

    The predicted gain times the ratio, both kept within 0 and 1: a prediction is discounted where
    it did not come true, and never raised. Without a ratio it is the prediction itself.
    """
    if not rounds or rounds[-1].gain is None:
        return None
    gain, found = rounds[-1].gain, realised(rounds)
    if found is None:
        return gain, None, None
    expected = gain * min(max(found.ratio, 0.0), 1.0)
    if found.low is None or found.high is None:
        return expected, None, None
    low, high = np.clip([found.low, found.high], 0.0, 1.0) * gain
    return expected, float(low), float(high)


def gain_below_price(
    rounds: Sequence[Snapshot], *, price: float | None, patience: int = PATIENCE
) -> Criterion:
    """Return whether the corrected gain was below the price in each of the last rounds.

    The price is what a label must gain, in nats per row of the goal; None: not known.
    """
    kept = bought_rounds(rounds)
    found = corrected(kept)
    stop = None
    if found is not None and price is not None:
        last = [corrected(kept[:end]) for end in range(len(kept) - patience + 1, len(kept) + 1)]
        stop = len(kept) >= patience and all(one is not None and one[0] < price for one in last)
    says = f"corrected gain of a label < price, {patience} rounds in a row"
    return Criterion("gain below price", found and found[0], price, stop, says, "ours")

"""All rules on the same rounds: none is the best everywhere, so all are shown."""

from __future__ import annotations

from collections.abc import Sequence

from goalward.stopping.certainty import confidence_variance, max_confidence, overall_uncertainty
from goalward.stopping.gains import gain_below_price
from goalward.stopping.measured import accuracy_plateau, budget_spent
from goalward.stopping.predictions import (
    bounded_change,
    classification_change,
    stabilizing_predictions,
)
from goalward.stopping.snapshot import Criterion, Snapshot

__all__ = ["criteria", "first_stops"]


def criteria(
    rounds: Sequence[Snapshot], *, price: float | None = None, budget: int | None = None
) -> tuple[Criterion, ...]:
    """Return what every rule says after the last of the rounds.

    Pullar-Strecker et al. (2022) compared 13 rules and found none superior in all applications.

    Parameters
    ----------
    rounds
        All rounds so far, oldest first.
    price
        What a label must gain, in nats per row of the goal.
    budget
        Labels that may be bought, dev labels included.

    Examples
    --------
    >>> rounds = [Snapshot(labels=n, bought=n, predicted=(0, 1, 1, 0)) for n in (10, 20, 30, 40)]
    >>> [c.name for c in criteria(rounds) if c.stop]
    ['stabilizing predictions', 'bounded change', 'classification change']
    """
    return (
        gain_below_price(rounds, price=price),
        stabilizing_predictions(rounds),
        bounded_change(rounds),
        classification_change(rounds),
        accuracy_plateau(rounds),
        confidence_variance(rounds),
        overall_uncertainty(rounds),
        max_confidence(rounds),
        budget_spent(rounds, budget=budget),
    )


def first_stops(
    rounds: Sequence[Snapshot], *, price: float | None = None, budget: int | None = None
) -> dict[str, int | None]:
    """Return for every rule the place of the first round at which it said stop; None if never."""
    found: dict[str, int | None] = {}
    for end in range(1, len(rounds) + 1):
        for one in criteria(rounds[:end], price=price, budget=budget):
            if found.get(one.name) is None:
                found[one.name] = end - 1 if one.stop else None
    return found

"""The rows to ask next: some picked with care for one another, the rest in the order of the scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import PoolExhausted
from goalward.models import Fitted
from goalward.strategies import Strategy
from goalward.strategies.strategy import Suggestion

__all__ = ["queued"]


def queued(
    strategy: Strategy,
    fitted: Fitted,
    X: Any,
    *,
    size: int,
    head: int,
    closed: NDArray[Any],
    round: int,
) -> tuple[NDArray[Any], Suggestion]:
    """Return `size` open rows, best first, and what the strategy said of all.

    Parameters
    ----------
    head
        Rows picked with care for one another; where fewer different rows are open, half as many,
        and so on: different rows come before copies of them.
    closed
        Rows that are left out.
    """
    options: Mapping[str, Any] = {"exclude": closed, "round": round}
    suggestion = _suggested(strategy, fitted, X, head, options)
    picked = suggestion.rows
    # Rows that were not drawn have no score; there are always enough that were.
    rest = np.nan_to_num(suggestion.utility, nan=-np.inf)
    rest[closed] = -np.inf
    rest[picked] = -np.inf
    order = np.argsort(-rest, kind="stable")[: max(size - len(picked), 0)]
    return np.concatenate([picked, order]), suggestion


def _suggested(
    strategy: Strategy, fitted: Fitted, X: Any, head: int, options: Mapping[str, Any]
) -> Suggestion:
    while True:
        try:
            return strategy.suggest(fitted, X, batch=head, **options)
        except PoolExhausted:
            # Rows equal to one another: fewer different ones are left than the batch needs.
            if head == 1:
                raise
            head //= 2

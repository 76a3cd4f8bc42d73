"""The b rows that retraining would pick: what certificates cannot decide is retrained."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.selection.best import best
from goalward.selection.rule import Shortlist

__all__ = ["Certain"]

BLOCK = 4096
"""Rows that are looked at together."""


@dataclass(frozen=True)
class Certain:
    """The `batch` rows that `Top` would pick if every row were retrained.

    Certified utilities (`ImplicitStep(corrections=1)` or more) give every score an interval, under
    operators that never fall when a utility rises (all but Spread and UpperConfidence). A row whose
    interval ends below the b-th best lower end is not among the best. The others are retrained,
    unless they are just b.

    Parameters
    ----------
    shortlist
        Only this many rows per row of the batch are looked at, the best by their scores, and 50 at
        least. None looks at every row: then the batch is proven to be that of retraining, for about
        as much as retraining costs.

    Examples
    --------
    >>> Certain()
    Certain(shortlist=5)
    """

    shortlist: int | None = field(default=5, kw_only=True)

    def __post_init__(self) -> None:
        if self.shortlist is not None and self.shortlist < 1:
            raise BadParameter(
                f"shortlist={self.shortlist!r}; at least 1, or None, was expected. Leave it at 5."
            )

    def keep(self, batch: int) -> int | None:
        """Return the length of the short list."""
        return None if self.shortlist is None else max(50, self.shortlist * batch)

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions of the best rows."""
        play = shortlist.ordered()
        starts = range(0, len(play.positions), BLOCK)
        blocks = (play.read(play.positions[i : i + BLOCK]) for i in starts)
        low, high = np.concatenate([play.rule.interval(rows) for rows in blocks], axis=1)
        possible = high >= np.partition(low, -batch)[-batch]
        left, values = play.positions[possible], play.values[possible]
        if len(left) > batch:
            values, _ = play.rule.interval(play.read(left), retrain=True)
        return np.asarray(left[best(values, batch, rng, left)])

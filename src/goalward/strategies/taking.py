"""Gains of a pool that follow as rows are taken, for goals that need no labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.models import Fitted
from goalward.strategies.lookahead import Lookahead
from goalward.utility.information import Gains, Taken

__all__ = ["Taking"]


class Taking(Lookahead):
    """A look ahead in which only the curvature moves, by low-rank updates.

    Whatever its label, a row taken adds its curvature and leaves the model where it is, so
    Sequential's `update` makes no difference here.

    Parameters
    ----------
    copies
        Whether rows equal to one taken stay in play.
    """

    def __init__(
        self,
        fitted: Fitted,
        X_pool: Any,
        rows: NDArray[Any],
        values: NDArray[Any],
        gains: Gains,
        *,
        copies: bool = False,
    ) -> None:
        super().__init__(fitted, X_pool, rows, values, lambda *_: self._taken().gains(), _no_belief)
        self._gains = gains
        self._copies = copies
        self._held: Taken | None = None

    def focus(self, rows: NDArray[Any]) -> None:
        """Keep only these rows in play."""
        super().focus(rows)
        self._held = None

    def _taken(self) -> Taken:
        if self._held is None:
            self._held = self._gains.taking(self._features)
        return self._held

    def _absorbed(self, place: int, update: str) -> Fitted:
        self._taken().take(place)
        return self._fitted

    def _same(self, place: int) -> NDArray[Any]:
        if not self._copies:
            return super()._same(place)
        mine: NDArray[Any] = np.arange(len(self._focus)) == place
        return mine

    def _keep(self, left: NDArray[Any]) -> None:
        super()._keep(left)
        self._taken().keep(np.flatnonzero(left))


def _no_belief(candidates: Any) -> Any:
    raise AssertionError("goals of the posterior ask for no belief")

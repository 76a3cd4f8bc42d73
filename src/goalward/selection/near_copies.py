"""Rows that a batch should not hold together: equal to one taken, or nearly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, namespace, rows_at, to_numpy

__all__ = ["NearCopies"]


class NearCopies:
    """Which rows are out of a batch as others are taken.

    Parameters
    ----------
    X
        Rows in play, as the model sees them.
    radius
        See `Sequential`.
    """

    def __init__(self, X: Any, radius: float | None) -> None:
        self._X, self._radius = X, radius
        self._taken, self._equal, self._near = np.zeros((3, X.shape[0]), dtype=bool)
        self._reach = radius * _spread(X) if radius else 0.0

    def take(self, position: int) -> None:
        """Take a row: those near it wait until there are no others, those equal to it longer."""
        self._taken[position] = True
        if self._radius is None:
            return
        if is_sparse(self._X):
            gap = self._X - self._X[np.full(self._X.shape[0], position)]
            squares = np.asarray(gap.multiply(gap).sum(axis=1), dtype=float).ravel()
            gap.eliminate_zeros()
            self._equal |= np.diff(gap.tocsr().indptr) == 0
        else:
            gap = self._X - rows_at(self._X, np.array([position]))
            xp = namespace(gap)
            far = xp.sum(gap * gap, axis=1), xp.max(xp.abs(gap), axis=1)
            # Together: a GPU is asked once.
            squares, largest = to_numpy(xp.stack(far))
            self._equal |= largest == 0.0
        if self._radius > 0.0:
            self._near |= np.sqrt(squares) <= self._reach

    @property
    def blocked(self) -> NDArray[Any]:
        """Rows that must not be taken now: near-copies and copies only while there are others."""
        for held in (self._taken | self._equal | self._near, self._taken | self._equal):
            if not held.all():
                return np.asarray(held)
        return np.asarray(self._taken)


def _spread(X: Any) -> float:
    """Return the root mean square distance of rows from their mean."""
    if is_sparse(X):
        mean = np.asarray(X.mean(axis=0)).ravel()
        squares = float(X.multiply(X).sum()) / X.shape[0]
        return float(np.sqrt(max(squares - float(mean @ mean), 0.0)))
    xp = namespace(X)
    return math.sqrt(float(xp.sum(xp.var(X, axis=0))))

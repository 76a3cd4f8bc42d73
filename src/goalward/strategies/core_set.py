"""CoreSet: rows that cover the pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, plain_rows, rows_at
from goalward.models import Fitted
from goalward.pool import n_rows
from goalward.selection import Score, Sequential
from goalward.strategies.strategy import Scores, Strategy, candidate_blocks

__all__ = ["CoreSet"]


@dataclass(frozen=True)
class CoreSet(Strategy):
    """k-centre greedy (Sener and Savarese 2018): the row farthest from all known ones, again.

    Distances are Euclidean in the model's features. The pool's features are held in memory.

    Examples
    --------
    >>> CoreSet()
    CoreSet(seed=0)
    """

    seed: int = 0
    # One row at a time over the whole pool: each changes the distances of the others.
    selection = Sequential(shortlist=None, radius=0.0)

    def score(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any], round: int) -> Scores:
        """Return each row's distance to the nearest labelled row."""
        distances = np.empty(n_rows(X_pool))
        known = plain_rows(fitted.labelled.X)
        for part, candidates in candidate_blocks(fitted, X_pool, rows):
            distances[part] = _squared(plain_rows(candidates.X), known).min(axis=1)
        return Scores(np.sqrt(distances))

    def outlook(
        self,
        fitted: Fitted,
        X_pool: Any,
        rows: NDArray[Any],
        values: NDArray[Any],
        round: int,
        used: Any = None,
    ) -> Score:
        """Return distances that shrink as rows are taken."""
        return _Cover(plain_rows(fitted.features(X_pool, "X_pool")), values)


class _Cover:
    """Distances to the nearest row that is labelled or taken."""

    def __init__(self, X: Any, values: NDArray[Any]) -> None:
        self._X, self._values = X, values.copy()

    def values(self) -> NDArray[Any]:
        return self._values

    def focus(self, rows: NDArray[Any]) -> None:
        """Keep everything in play: coverage has no short list."""

    def absorb(self, row: int, update: str = "", radius: float = 0.0) -> None:
        near = np.sqrt(_squared(self._X, rows_at(self._X, np.array([row])))[:, 0])
        self._values = np.minimum(self._values, near)
        self._values[row] = -np.inf


def _squared(A: Any, B: Any) -> NDArray[Any]:
    """Return squared distances, from products so that sparse rows stay sparse."""
    squares = [
        np.asarray(M.multiply(M).sum(axis=1)).ravel() if is_sparse(M) else np.sum(M * M, axis=1)
        for M in (A, B)
    ]
    product = A @ B.T
    product = product.toarray() if is_sparse(product) else product
    found: NDArray[Any] = np.maximum(squares[0][:, None] + squares[1][None, :] - 2.0 * product, 0.0)
    return found

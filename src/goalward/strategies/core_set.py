"""CoreSet: rows that cover the pool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, plain_rows, rows_at, stack_rows
from goalward.core.candidates import Candidates
from goalward.strategies.request import Request
from goalward.strategies.selectors import Sequential
from goalward.strategies.strategy import Strategy
from goalward.utility.rule import FollowingRule, Rule

__all__ = ["CoreSet", "squared_distances"]


@dataclass(frozen=True)
class CoreSet(Strategy):
    """k-centre greedy (Sener and Savarese 2018): the row farthest from all known ones, again.

    Distances are Euclidean in the model's features. The rows it picks from are held in memory:
    the whole pool, or the 1,000 farthest rows where an engine keeps no more.

    Examples
    --------
    >>> CoreSet()
    CoreSet(seed=0)
    """

    seed: int = 0
    # One row at a time over the whole pool: each changes the distances of the others.
    selection = Sequential(shortlist=None, radius=None)

    def bind(self, request: Request) -> Rule:
        """Return each row's distance to the nearest labelled row."""
        return NearestRule(plain_rows(request.fitted.labelled.X))


@dataclass(frozen=True, eq=False)
class NearestRule(FollowingRule):
    """Distances to the nearest row that is labelled or taken."""

    known: Any

    def fresh(self, rows: Candidates) -> NDArray[Any]:
        """Return the distance of every row."""
        return np.asarray(np.sqrt(squared_distances(plain_rows(rows.X), self.known).min(axis=1)))

    def following(self, rows: Candidates, values: NDArray[Any]) -> Rule:
        """Return the rule with the distances that the pool was scanned for."""
        return replace(self, taken=(rows, values))

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        """Return the rule with one more row known."""
        X = plain_rows(rows.X)
        newest = rows_at(X, np.array([position]))
        nearer = np.minimum(self(rows), np.sqrt(squared_distances(X, newest)[:, 0]))
        return NearestRule(stack_rows(self.known, newest), taken=(rows, nearer))


def squared_distances(A: Any, B: Any) -> NDArray[Any]:
    """Return squared distances, from products so that sparse rows stay sparse."""
    squares = [
        np.asarray(M.multiply(M).sum(axis=1)).ravel() if is_sparse(M) else np.sum(M * M, axis=1)
        for M in (A, B)
    ]
    product = A @ B.T
    product = product.toarray() if is_sparse(product) else product
    found: NDArray[Any] = np.maximum(squares[0][:, None] + squares[1][None, :] - 2.0 * product, 0.0)
    return found

"""Refine: many strategies propose from a pool that shrinks to what was proposed, herding picks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.goals import Coverage
from goalward.selection import Rule, Sequential
from goalward.strategies.among import PartOfPool
from goalward.strategies.engine import Engine
from goalward.strategies.ensemble import proposers
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.request import Request, check_count
from goalward.strategies.strategy import Strategy

__all__ = ["Refine"]


@dataclass(frozen=True)
class Herding(Strategy):
    """Uncertainty herding that covers the rows it is shown (`Coverage`)."""

    seed: int = 0
    selection = Sequential(shortlist=None)
    zero = 0.0

    def bind(self, request: Request) -> Rule:
        """Return by how much each row would raise the coverage of all of them."""
        return GoalOriented(Coverage(request.pool.source)).bind(request)


@dataclass(frozen=True)
class Refine(PartOfPool):
    """Progressive filtering by many strategies, then herding (Huseljic et al. 2025, arXiv 2511.22344).

    The strategies propose batches from random parts of the pool; what was proposed is the pool of
    the next step, `depth` times over. Of what is left uncertainty herding (`Coverage`) picks the
    batch. The numbers are the published ones. Nine strategies take part as there, but not all of
    them the same: entropy and decision risk stand in the place of AlfaMix and DropQuery. Each is
    bound to the model and the whole pool once a round, not once for each part.

    Parameters
    ----------
    strategies
        Those that propose; the nine where none are given.
    batches
        Proposed in every step, by all strategies together.
    share
        Of the pool that a part has, the batch at least and 5,000 rows at most.

    Examples
    --------
    >>> Refine(depth=2).batches
    100
    """

    strategies: tuple[Strategy, ...] = ()
    depth: int = field(default=5, kw_only=True)
    batches: int = field(default=100, kw_only=True)
    share: float = field(default=0.4, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    strategy: ClassVar[Strategy] = Herding()  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_count("depth", self.depth)
        check_count("batches", self.batches)
        if not 0.0 < self.share <= 1.0:
            raise BadParameter(f"share={self.share!r}; above 0, 1 at most, was expected. Use 0.4.")

    def part(self, request: Request, engine: Engine) -> NDArray[Any]:
        """Return what was proposed in the last step."""
        rng = np.random.default_rng([self.seed, request.round])
        ensemble = proposers(self.strategies, request)
        times, pool = max(1, self.batches // len(ensemble)), request.free
        for _ in range(self.depth):
            count = int(self.share * len(pool))
            proposed = [one.drawn(pool, count, rng) for one in ensemble for _ in range(times)]
            pool = np.unique(np.concatenate(proposed))
        return pool

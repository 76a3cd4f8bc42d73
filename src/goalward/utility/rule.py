"""A strategy bound to one model and one round, and the rows a selector picks from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array
from goalward.core.candidates import Candidates
from goalward.errors import BadParameter, Unsupported
from goalward.solvers import Solution
from goalward.utility.best import Prices, best

__all__ = ["FollowingRule", "Judged", "Rule", "Selector", "Shortlist"]


class Judged(NamedTuple):
    """One number for every row of a block, and what is known beside it."""

    values: Float[Array, " n"]
    per_label: Float[Array, "n k"] | None = None
    leverage: Float[Array, " n"] | None = None


class Rule(ABC):
    """What a strategy says of rows in one round: everything that a round shares is made."""

    constant: bool = False
    """Whether it is known to say the same of every row (Remark 1)."""

    parallel: bool = False
    """Whether several threads may ask it at once: it reads arrays, and calls nothing of a user's."""

    @property
    def report(self) -> Solution | None:
        """How the goal's direction was solved for, where there is one."""
        return None

    @property
    def name(self) -> str:
        """What resolves the unknown label, for messages."""
        return type(self).__name__

    @abstractmethod
    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        """Return one number for each row, larger is better."""

    def judged(self, rows: Candidates) -> Judged:
        """Return the numbers, and what else came out on the way."""
        return Judged(self(rows))

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        """Return the rule once a row is supposed to be labelled, ready for the same rows.

        Parameters
        ----------
        rows, position
            Rows in play, and the place of that row among them.
        update
            See `Sequential`.
        """
        raise BadParameter(
            "Sequential() picks by what a label would change, which only goal-oriented strategies "
            "know; GoalOriented was expected. Use Top() or Stochastic() here."
        )

    def playing(self, rows: Candidates) -> Rule:
        """Return the rule with what it makes of rows that will be scored and then picked from."""
        return self

    def following(self, rows: Candidates, values: NDArray[Any]) -> Rule:
        """Return the rule told what it said of the rows that a batch is picked from."""
        return self

    def on(self, convert: Callable[[Any], Any]) -> Rule:
        """Return the rule for rows on a GPU; `convert` brings its arrays there."""
        raise Unsupported(
            f"device= came with {type(self).__name__}, which is not computed on a GPU; first order "
            "under the average, min, max and spread operators, or uncertainty, was expected. Leave "
            "device out, or pass arrays of the GPU to suggest()."
        )

    def portable(self) -> Rule:
        """Return the rule without what only a look ahead needs: what travels to workers."""
        return self

    def table(self, rows: Candidates) -> Float[Array, "n k"] | None:
        """Return the utility of rows under every label; None for rules that know none."""
        return None

    certifies: bool = False
    """Whether it knows how far from retraining its utilities can be."""

    def certificate(self, rows: Candidates) -> NDArray[Any] | None:
        """Return that distance for rows under every label."""
        return None

    def interval(self, rows: Candidates, *, retrain: bool = False) -> Float[NDArray[Any], "2 n"]:
        """Return numbers between which those of rows would lie if each were retrained: twice the same if it is."""
        raise Unsupported(
            f"Certain() came with {self.name}, of which it is not known how far from retraining it can "
            "be; GoalOriented with utility=ImplicitStep(corrections=1) was expected. Use Top()."
        )

    def fidelity(self, X_pool: Any, ids: Any, rows: int, seed: int) -> Any:
        """Return how the scores compare with retraining; refused without utilities of labels."""
        raise BadParameter(
            f"fidelity={rows} came with {self.name}, which predicts no utility of a label; "
            "GoalOriented was expected. Leave fidelity out."
        )


@dataclass(frozen=True, eq=False)
class FollowingRule(Rule):
    """A rule whose numbers for the rows in play follow as one after another is taken.

    Parameters
    ----------
    taken
        The rows in play when the last one was taken, and their numbers now.
    """

    taken: tuple[Candidates, Float[Array, " n"]] | None = field(default=None, kw_only=True)

    @abstractmethod
    def fresh(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the numbers of rows that were not in play."""

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the numbers that hold now."""
        if self.taken is not None and self.taken[0] is rows:
            return self.taken[1]
        return self.fresh(rows)


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The rows that a batch is picked from.

    Parameters
    ----------
    rule
        What scored them.
    positions, values
        Where they are in the pool, and their scores, best first; -inf must not be picked.
    read
        How to get them as candidates, at positions.
    prices
        What they cost, in the same order; then they are listed by gain per price.

    Examples
    --------
    What a selector is given, here without a rule and rows to read:

    >>> few = Shortlist(None, np.array([7, 2, 5]), np.array([0.9, 0.4, -np.inf]), None)
    >>> few.positions[few.best(1, np.random.default_rng(0))]
    array([7])
    >>> few.ordered().positions
    array([2, 7])
    """

    rule: Rule
    positions: NDArray[Any]
    values: NDArray[Any] = field(repr=False)
    read: Callable[[NDArray[Any]], Candidates] = field(repr=False)
    prices: Prices | None = None

    @cached_property
    def candidates(self) -> Candidates:
        """The rows, read when they are first asked for."""
        return self.read(self.positions)

    def best(self, count: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return where the best of them stand in this list, ties by `rng`."""
        return best(self.worth(self.values), count, rng, self.positions)

    def worth(
        self, values: NDArray[Any], taken: Sequence[int] = (), *, per: bool = True
    ) -> NDArray[Any]:
        """Return what rows with these scores are compared by, once some of them are taken."""
        return values if self.prices is None else self.prices.worth(values, taken, per=per)

    def first(self, order: Callable[[NDArray[Any]], NDArray[Any]], batch: int) -> NDArray[Any]:
        """Return where the rows stand that are taken; `order` sorts rows by what they are compared by."""
        if self.prices is None:
            return order(self.values)[:batch]
        ways = (True, False) if math.isfinite(self.prices.budget) else (True,)
        orders = (order(self.worth(self.values, per=per)) for per in ways)
        return self.prices.taken(self.values, orders, batch)

    def ordered(self) -> Shortlist:
        """Return those that may be picked, in the order of the pool."""
        free = np.flatnonzero(np.isfinite(self.values))
        order = free[np.argsort(self.positions[free], kind="stable")]
        prices = None if self.prices is None else self.prices.at(order)
        return Shortlist(self.rule, self.positions[order], self.values[order], self.read, prices)


@runtime_checkable
class Selector(Protocol):
    """A way to pick b rows; one that heeds prices has `pays = True`."""

    def keep(self, batch: int) -> int | None:
        """Return how many of the best rows it picks from; None for all."""
        ...

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions picked, best first."""
        ...

"""How a batch is picked from scores: the best rows, perturbed ranks, or one after another."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, namespace, rows_at, to_numpy
from goalward.core.draws import mixed, salt
from goalward.core.rows import Candidates
from goalward.errors import BadParameter, PoolExhausted, Unsupported
from goalward.utility.utility import Rule, SequentialRule

__all__ = ["NearCopies", "PerCost", "Sequential", "Stochastic", "Top"]


def best(
    values: NDArray[Any], count: int, rng: np.random.Generator, positions: NDArray[Any]
) -> NDArray[Any]:
    """Return where the `count` largest values are, best first; ties by `rng` and by `positions`."""
    last = -np.partition(-values, count - 1)[count - 1] if count < len(values) else -np.inf
    tied = np.flatnonzero(values >= last)
    order = np.lexsort((mixed(positions[tied].astype(np.uint64) ^ salt(rng)), -values[tied]))
    return tied[order[:count]]


@dataclass(frozen=True, eq=False)
class Best:
    """The best rows seen so far, best first: blocks may be merged in any order.

    Equal values are ordered by a number that the salt and the row's position decide.

    Parameters
    ----------
    count
        How many to keep.
    floor
        What a row must reach to be looked at.
    """

    count: int
    salt: np.uint64
    floor: float = -np.inf
    rows: NDArray[Any] = field(default_factory=partial(np.empty, 0, np.int64))
    values: NDArray[Any] = field(default_factory=partial(np.empty, 0))

    def merged(self, start: int, values: NDArray[Any]) -> Best:
        """Return the best of these and of the rows from position `start` on."""
        # Everything tied with the last place must stay in the draw.
        least = float(self.values[-1]) if len(self.rows) == self.count else self.floor
        fresh = np.flatnonzero(values >= least) if least > -np.inf else np.arange(len(values))
        if len(fresh) > self.count:
            least = np.partition(values[fresh], -self.count)[-self.count]
            fresh = np.flatnonzero(values >= least)
        return self.joined(replace(self, rows=fresh + start, values=values[fresh]))

    def emptied(self) -> Best:
        """Return none of the rows, but what must be beaten: for another part of the pool."""
        full = len(self.rows) == self.count
        return Best(self.count, self.salt, float(self.values[-1]) if full else self.floor)

    def joined(self, other: Best) -> Best:
        """Return the best of both."""
        if len(other.rows) == 0:
            return self
        rows = np.concatenate([self.rows, other.rows])
        values = np.concatenate([self.values, other.values])
        order = np.lexsort((mixed(rows.astype(np.uint64) ^ self.salt), -values))[: self.count]
        return replace(self, rows=rows[order], values=values[order])


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

    Examples
    --------
    What a selector is given, here without a rule and rows to read:

    >>> few = Shortlist(None, np.array([7, 2, 5]), np.array([0.9, 0.4, -np.inf]), None)
    >>> few.ordered().positions
    array([2, 7])
    """

    rule: Rule
    positions: NDArray[Any]
    values: NDArray[Any] = field(repr=False)
    read: Callable[[NDArray[Any]], Candidates] = field(repr=False)

    @cached_property
    def candidates(self) -> Candidates:
        """The rows, read when they are first asked for."""
        return self.read(self.positions)

    def ordered(self) -> Shortlist:
        """Return those that may be picked, in the order of the pool."""
        free = np.flatnonzero(np.isfinite(self.values))
        return self.at(free[np.argsort(self.positions[free], kind="stable")])

    def at(self, index: NDArray[Any]) -> Shortlist:
        """Return some of them."""
        return replace(self, positions=self.positions[index], values=self.values[index])


@runtime_checkable
class Selector(Protocol):
    """A way to pick b rows."""

    def keep(self, batch: int) -> int | None:
        """Return how many of the best rows it picks from; None for all."""
        ...

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions picked, best first."""
        ...


class _Ordered:
    """Rows by an order of their scores alone."""

    @abstractmethod
    def order(
        self, values: NDArray[Any], positions: NDArray[Any], count: int, rng: np.random.Generator
    ) -> NDArray[Any]:
        """Return where the first `count` rows stand."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions of the first rows."""
        order = self.order(shortlist.values, shortlist.positions, batch, rng)
        return np.asarray(shortlist.positions[order])

    def priced(
        self, shortlist: Shortlist, prices: PerCost, batch: int, rng: np.random.Generator
    ) -> NDArray[Any]:
        """Return the rows that a budget pays for, by gain per price or by gain: what brings more."""
        positions, values = shortlist.positions, shortlist.values
        costs, gains = prices.costs[positions], values - prices.zero
        picks = []
        for worth in prices.ways(positions):
            order = self.order(worth(values), positions, len(values), rng)
            order = order[gains[order] > 0.0]
            picked: list[int] = []
            while len(picked) < batch and len(order):
                spent = math.fsum(costs[picked])
                order = order[spent + costs[order] <= prices.budget]
                paid = np.searchsorted(spent + np.cumsum(costs[order]), prices.budget, "right")
                first = max(min(int(paid), batch - len(picked)), 1)
                picked += order[:first].tolist()
                order = order[first:]
            picks.append(np.array(picked, dtype=np.int64))
        return positions[max(picks, key=lambda rows: float(gains[rows].sum()))]


@dataclass(frozen=True)
class Top(_Ordered):
    """The `batch` rows of highest utility, in order of preference.

    To first order, and for operators that add up over rows, no batch is better (Remark 2).
    Equal rows are ordered at random, by the seed.

    Examples
    --------
    >>> Top()
    Top()
    """

    def keep(self, batch: int) -> int:
        """Return the batch: no other row is looked at."""
        return batch

    def order(
        self, values: NDArray[Any], positions: NDArray[Any], count: int, rng: np.random.Generator
    ) -> NDArray[Any]:
        """Return rows by their scores."""
        return np.argsort(-values, kind="stable")[:count]


@dataclass(frozen=True)
class Stochastic(_Ordered):
    """The top b of -log rank plus Gumbel noise (Kirsch et al. 2023, arXiv 2106.12059).

    Rows are drawn without replacement with probability proportional to rank^-β: a scan and
    a sort, no second look; cheap diversity for huge pools. The scale of the scores does not matter.

    Parameters
    ----------
    beta
        0 is random, 1 the published default, large values the plain top b.

    Examples
    --------
    >>> Stochastic()
    Stochastic(beta=1.0)
    """

    beta: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        if not self.beta >= 0.0:
            raise BadParameter(f"beta must be 0 or more, got {self.beta!r}. Use 1.")

    def keep(self, batch: int) -> None:
        """Return None: every row has a chance."""

    def order(
        self, values: NDArray[Any], positions: NDArray[Any], count: int, rng: np.random.Generator
    ) -> NDArray[Any]:
        """Return rows by perturbed ranks."""
        size = len(values)
        ranks = np.empty(size)
        ranks[best(values, size, rng, positions)] = np.arange(1, size + 1)
        noisy = -self.beta * np.log(ranks) + rng.gumbel(size=size)
        return best(np.where(np.isfinite(values), noisy, -np.inf), count, rng, positions)


class NearCopies:
    """Rows that a batch should not hold together: equal to one taken, or nearly.

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


@dataclass(frozen=True)
class Sequential:
    """Greedy batches that do not repeat themselves.

    After each pick the row is absorbed into the model, and the rest is scored again. The
    top b of a single scan are often near-copies, each of which helps only until one of
    them is labelled.

    Parameters
    ----------
    update
        "believed": the row is absorbed with the label it is believed to have, a
        distribution as a rule, and the model moves. "curvature": with the model's own
        prediction, which moves nothing and only adds the row's curvature; needs no belief.
        The two are the same for operators without a belief (WorstCase, BestCase) and where
        the belief is the prediction itself.
    shortlist
        After the first scan only this many rows per row of the batch are scored again, the
        best ones, and 1,000 at least. A heuristic: a row far down the list would have to
        overtake all of these. None scores the whole pool again after every pick.
    radius
        Rows nearer to a picked one than this share of the pool's spread (root mean square
        distance from its mean) are left out of the batch, unless nothing else is left.
        Absorption alone does not do it: a goal that wants more of one place keeps asking
        there. 0 leaves out only rows that are equal, None not even these. Equal rows come last.

    Examples
    --------
    >>> Sequential(update="curvature")
    Sequential(update='curvature', shortlist=50, radius=0.01)
    """

    update: str = field(default="believed", kw_only=True)
    shortlist: int | None = field(default=50, kw_only=True)
    radius: float | None = field(default=0.01, kw_only=True)

    def __post_init__(self) -> None:
        if self.update not in ("believed", "curvature"):
            raise BadParameter(
                f"update must be 'believed' or 'curvature', got {self.update!r}. Use 'curvature' where "
                "no belief about labels can be trusted."
            )
        if self.shortlist is not None and self.shortlist < 1:
            raise BadParameter(
                f"shortlist must be at least 1, or None, got {self.shortlist!r}. Leave it at 50."
            )
        if self.radius is not None and not self.radius >= 0.0:
            raise BadParameter(f"radius must be 0 or more, got {self.radius!r}. Use 0.01.")

    def keep(self, batch: int) -> int | None:
        """Return the length of the short list."""
        return None if self.shortlist is None else max(1000, self.shortlist * batch)

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions picked, in order."""
        play = shortlist.ordered()
        return play.positions[self._picked(play, batch, rng, lambda values, taken: values)[0]]

    def priced(
        self, shortlist: Shortlist, prices: PerCost, batch: int, rng: np.random.Generator
    ) -> NDArray[Any]:
        """Return the rows that a budget pays for, by gain per price or by gain: what brings more."""
        play = shortlist.ordered()
        per_price, *by_gain = prices.ways(play.positions)
        picked, gain = self._picked(play, batch, rng, per_price, prices.zero)
        most = float((play.values - prices.zero).max())
        if by_gain and (len(picked) == batch or most > gain):
            other, more = self._picked(play, batch, rng, by_gain[0], prices.zero)
            picked = other if more > gain else picked
        return play.positions[picked]

    def _picked(
        self,
        play: Shortlist,
        batch: int,
        rng: np.random.Generator,
        worth: Callable[..., NDArray[Any]],
        zero: float = 0.0,
    ) -> tuple[list[int], float]:
        """Return where the picked ones stand, and what they bring, each after those before it."""
        rule, values = play.rule, play.values
        copies: NearCopies | None = None
        picked: list[int] = []
        gain = 0.0
        while True:
            compared = worth(values, picked)
            if not np.isfinite(compared).any():
                return picked, gain
            picked.append(int(best(compared, 1, rng, play.positions)[0]))
            gain += float(values[picked[-1]]) - zero
            if len(picked) == batch:
                return picked, gain
            if not isinstance(rule, SequentialRule):
                raise BadParameter(
                    f"Sequential() needs a strategy that looks ahead, got {rule.name}. Use it with "
                    "GoalOriented, or Top() or Stochastic() here."
                )
            rows = play.candidates
            copies = copies or NearCopies(rows.X, self.radius)
            copies.take(picked[-1])
            rule = rule.after(rows, picked[-1], self.update)
            values = np.where(copies.blocked, -np.inf, to_numpy(rule(rows)))


@dataclass(frozen=True, eq=False)
class PerCost:
    """Rows by gain per price, as many as a budget pays for.

    Under a budget the rows of the largest gains, as many as it pays for, are taken instead where they
    bring more. With both, and gains that never rise as rows are taken, a batch brings at least
    (1 - 1/e)/2 of what the best one for the budget would (Khuller, Moss and Naor 1999; Leskovec et
    al. 2007), unless the size of the batch ends it first. `suggest(costs=, budget=)` makes one.

    Parameters
    ----------
    selection
        `Top`, `Stochastic` or `Sequential`.
    costs
        (N,) price of each row of the pool, above 0.
    zero
        Gains are scores less this. A row without a gain is never taken.

    Examples
    --------
    >>> few = Shortlist(None, np.arange(3), np.array([0.5, 8.0, 1.5]), None)
    >>> PerCost(Top(), np.array([1.0, 4.0, 2.0]), budget=5.0)(few, 3, np.random.default_rng(0))
    array([1, 0])
    """

    selection: Any
    costs: NDArray[Any] = field(repr=False)
    budget: float = math.inf
    zero: float = 0.0

    def __post_init__(self) -> None:
        if not hasattr(self.selection, "priced"):
            raise Unsupported(
                f"costs= does not work with {type(self.selection).__name__}, whose scores only order rows. "
                "Use GoalOriented, Entropy, Margin or LeastConfident, with Top(), Stochastic() or "
                "Sequential()."
            )

    def keep(self, batch: int) -> None:
        """Return None: cheap rows may be anywhere."""

    def ways(self, positions: NDArray[Any]) -> list[Callable[..., NDArray[Any]]]:
        """Return what rows are compared by, by scores and rows taken: gain per price, then gain."""
        costs = self.costs[positions]

        def worth(unit: Any, values: NDArray[Any], taken: Any = ()) -> NDArray[Any]:
            gains, spent = values - self.zero, math.fsum(costs[list(taken)])
            pays = (gains > 0.0) & (spent + costs <= self.budget)
            return np.where(pays, gains / unit, -np.inf)

        per_price, by_gain = partial(worth, costs), partial(worth, 1.0)
        return [per_price, by_gain] if math.isfinite(self.budget) else [per_price]

    def per_price(self, rule: Rule) -> Rule:
        """Return the rule of gains per price, for engines that keep the best rows alone."""
        return _PerPrice(rule, self.costs, self.zero)

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions of the rows bought."""
        worth = self.ways(shortlist.positions)[0](shortlist.values)
        order = best(worth, len(worth), rng, shortlist.positions)
        few = shortlist.at(order[np.isfinite(worth[order])])
        if not len(few.positions):
            raise PoolExhausted(
                f"No row is worth its price: {shortlist.rule.name} expects no gain of any that the budget "
                "pays for. Stop here, or use an operator that hopes for more: spread."
            )
        keep = self.selection.keep(batch)
        if keep is not None and keep > batch:
            # A batch alone would not do: a row that cannot be paid leaves its place to the next.
            first = np.arange(min(keep, len(few.positions)))
            few = few.at(np.union1d(first, np.argsort(-few.values)[:keep]))
        chosen: NDArray[Any] = self.selection.priced(few, self, batch, rng)
        return chosen


@dataclass(frozen=True, eq=False)
class _PerPrice(Rule):
    """The gain of a rule per price of the row, by positions in the pool."""

    rule: Rule
    costs: NDArray[Any]
    zero: float

    @property
    def parallel(self) -> bool:  # type: ignore[override]
        """Whether the rule within is."""
        return self.rule.parallel

    def __call__(self, rows: Candidates) -> Any:
        values = self.rule(rows)
        costs = namespace(values).asarray(self.costs[rows.start : rows.start + len(rows)])
        return (values - self.zero) / costs

    def on(self, convert: Callable[[Any], Any]) -> Rule:
        return replace(self, rule=self.rule.on(convert), costs=convert(self.costs))

    def portable(self) -> Rule:
        return replace(self, rule=self.rule.portable())

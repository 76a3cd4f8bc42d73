"""How a batch is picked from scores: the best rows, perturbed ranks, or one after another."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, namespace, rows_at, to_numpy
from goalward.core.draws import mixed, salt
from goalward.core.rows import Candidates
from goalward.errors import BadParameter, PoolExhausted, Unsupported
from goalward.utility.utility import Rule

Numbers: TypeAlias = NDArray[Any]
Rng: TypeAlias = np.random.Generator
Bought: TypeAlias = tuple[Numbers, float]

__all__ = ["NearCopies", "PerCost", "Sequential", "Stochastic", "Top"]


def best(values: Numbers, count: int, rng: Rng, positions: Numbers) -> Numbers:
    """Return where the `count` largest values are, best first; ties by `rng` and by `positions`."""
    last = -np.partition(-values, count - 1)[count - 1] if count < len(values) else -np.inf
    tied = np.flatnonzero(values >= last)
    order = np.lexsort((mixed(positions[tied].astype(np.uint64) ^ salt(rng)), -values[tied]))
    return tied[order[:count]]


@dataclass(frozen=True, eq=False)
class Best:
    """The best `count` rows seen so far, from `floor` up; blocks may be merged in any order."""

    count: int
    salt: np.uint64
    floor: float = -np.inf
    rows: Numbers = field(default_factory=partial(np.empty, 0, np.int64))
    values: Numbers = field(default_factory=partial(np.empty, 0))

    def merged(self, start: int, values: Numbers) -> Best:
        """Return the best of these and of the rows from position `start` on."""
        # All rows tied with the last place must stay in the draw.
        least = float(self.values[-1]) if len(self.rows) == self.count else self.floor
        fresh = np.flatnonzero(values >= least) if least > -np.inf else np.arange(len(values))
        if len(fresh) > self.count:
            least = np.partition(values[fresh], -self.count)[-self.count]
            fresh = np.flatnonzero(values >= least)
        return self.joined(replace(self, rows=fresh + start, values=values[fresh]))

    def emptied(self) -> Best:
        """Return an empty copy that keeps the floor, for another part of the pool."""
        full = len(self.rows) == self.count
        return Best(self.count, self.salt, float(self.values[-1]) if full else self.floor)

    def joined(self, other: Best) -> Best:
        if len(other.rows) == 0:
            return self
        rows = np.concatenate([self.rows, other.rows])
        values = np.concatenate([self.values, other.values])
        order = np.lexsort((mixed(rows.astype(np.uint64) ^ self.salt), -values))[: self.count]
        return replace(self, rows=rows[order], values=values[order])


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The rows that a batch is picked from, best first.

    `rule` scored them, `read` returns rows by positions, `whole` is the pool if already read.
    Rows with the score -inf must not be picked.

    Examples
    --------
    >>> few = Shortlist(None, np.array([7, 2, 5]), np.array([0.9, 0.4, -np.inf]), None)
    >>> few.ordered().positions
    array([2, 7])
    """

    rule: Rule
    positions: Numbers
    values: Numbers = field(repr=False)
    read: Callable[[Numbers], Candidates] = field(repr=False)
    whole: Candidates | None = field(default=None, repr=False)

    @cached_property
    def candidates(self) -> Candidates:
        if self.whole and np.array_equal(self.positions, np.arange(len(self.whole))):
            return self.whole
        return self.read(self.positions)

    def ordered(self) -> Shortlist:
        """Return the rows that may be picked, in the order of the pool."""
        free = np.flatnonzero(np.isfinite(self.values))
        return self.at(free[np.argsort(self.positions[free], kind="stable")])

    def at(self, index: Numbers) -> Shortlist:
        return replace(self, positions=self.positions[index], values=self.values[index])


class Selector(ABC):
    """A way to pick b rows."""

    def keep(self, batch: int) -> int | None:
        """Return how many of the best rows it picks from; None for all."""
        return None

    @abstractmethod
    def __call__(self, shortlist: Shortlist, batch: int, rng: Rng) -> Numbers:
        """Return the positions picked, best first."""

    def bought(self, few: Shortlist, batch: int, rng: Rng, prices: PerCost) -> Bought:
        """Return the rows bought within the budget, and their gains."""
        raise no_prices(self)


def no_prices(part: Any) -> Unsupported:
    """Return the error of a strategy or selector whose scores only order rows."""
    return Unsupported(
        f"costs= does not work with {type(part).__name__}, whose scores only order rows. Use GoalOriented, "
        "Entropy, Margin or LeastConfident, with Top(), Stochastic() or Sequential()."
    )


class _Ordered(Selector):
    """Rows by an order of their scores alone."""

    @abstractmethod
    def order(self, values: Numbers, positions: Numbers, count: int, rng: Rng) -> Numbers:
        """Return the indices of the first `count` rows."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: Rng) -> Numbers:
        order = self.order(shortlist.values, shortlist.positions, batch, rng)
        return np.asarray(shortlist.positions[order])

    def bought(self, few: Shortlist, batch: int, rng: Rng, prices: PerCost) -> Bought:
        costs, gains = prices.costs[few.positions], few.values - prices.zero
        order = self.order(prices.worth(few, few.values), few.positions, len(gains), rng)
        picked: list[int] = []
        paid: list[float] = []
        for row in order[gains[order] > 0.0].tolist():
            if len(picked) == batch:
                break
            if math.fsum([*paid, costs[row]]) <= prices.budget:
                picked.append(row)
                paid.append(costs[row])
        return few.positions[picked], float(gains[picked].sum())


@dataclass(frozen=True)
class Top(_Ordered):
    """The `batch` rows of highest utility, in order of preference.

    To first order no batch is better (Remark 2). Ties are broken at random, by the seed.

    Examples
    --------
    >>> Top()
    Top()
    """

    def keep(self, batch: int) -> int:
        return batch

    def order(self, values: Numbers, positions: Numbers, count: int, rng: Rng) -> Numbers:
        return np.argsort(-values, kind="stable")[:count]


@dataclass(frozen=True)
class Stochastic(_Ordered):
    """The top b of -log rank plus Gumbel noise (Kirsch et al. 2023, arXiv 2106.12059).

    Rows are drawn without replacement with probability proportional to rank^-β.

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

    def order(self, values: Numbers, positions: Numbers, count: int, rng: Rng) -> Numbers:
        size = len(values)
        ranks = np.empty(size)
        ranks[best(values, size, rng, positions)] = np.arange(1, size + 1)
        noisy = -self.beta * np.log(ranks) + rng.gumbel(size=size)
        return best(np.where(np.isfinite(values), noisy, -np.inf), count, rng, positions)


class NearCopies:
    """Rows equal or close to a row taken, which are avoided; see `Sequential`."""

    def __init__(self, X: Any, radius: float | None) -> None:
        self._X, self._radius = X, radius
        self._taken, self._equal, self._near = np.zeros((3, X.shape[0]), dtype=bool)
        self._reach = radius * _spread(X) if radius else 0.0

    def take(self, position: int) -> None:
        """Take a row; rows near it are blocked while others are left, equal rows longer."""
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
            # Together: one call to a GPU.
            squares, largest = to_numpy(xp.stack(far))
            self._equal |= largest == 0.0
        if self._radius > 0.0:
            self._near |= np.sqrt(squares) <= self._reach

    @property
    def blocked(self) -> Numbers:
        """Rows that must not be taken now; copies and near-copies only while others are left."""
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
class Sequential(Selector):
    """Greedy batches without near-copies.

    After each pick the row is absorbed into the model, and the rest is scored again.

    Parameters
    ----------
    update
        "believed" absorbs the row with its believed label, "curvature" with the model's prediction.
    shortlist
        Rows scored again per row of the batch, 1,000 at least; None for the whole pool.
    radius
        Leave out rows nearer to a picked one than this share of the pool's spread; None for none.

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
        return None if self.shortlist is None else max(1000, self.shortlist * batch)

    def __call__(self, shortlist: Shortlist, batch: int, rng: Rng) -> Numbers:
        return self._picked(shortlist.ordered(), batch, rng, lambda values, taken: values)[0]

    def bought(self, few: Shortlist, batch: int, rng: Rng, prices: PerCost) -> Bought:
        play = few.ordered()
        return self._picked(play, batch, rng, partial(prices.worth, play), prices.zero)

    def _picked(
        self,
        play: Shortlist,
        batch: int,
        rng: Rng,
        worth: Callable[[Numbers, list[int]], Numbers],
        zero: float = 0.0,
    ) -> Bought:
        """Return the rows picked, and the gain of each after the rows before it."""
        rule, values = play.rule, play.values
        copies: NearCopies | None = None
        picked: list[int] = []
        gain = 0.0
        while True:
            compared = worth(values, picked)
            if not np.isfinite(compared).any():
                break
            picked.append(int(best(compared, 1, rng, play.positions)[0]))
            gain += float(values[picked[-1]]) - zero
            if len(picked) == batch:
                break
            rows = play.candidates
            rule = rule.after(rows, picked[-1], self.update)
            copies = copies or NearCopies(rows.X, self.radius)
            copies.take(picked[-1])
            values = np.where(copies.blocked, -np.inf, to_numpy(rule(rows)))
        return play.positions[picked], gain


@dataclass(frozen=True, eq=False)
class PerCost(Selector):
    """Rows by gain per price, as many as a budget pays for.

    Under a budget the rows of the largest gains are taken where they bring more: at least
    (1 - 1/e)/2 of the best if gains never rise (Khuller, Moss and Naor 1999; Leskovec et al. 2007).

    Parameters
    ----------
    selection
        `Top`, `Stochastic` or `Sequential`.
    costs
        (N,) price of each row of the pool, above 0.
    zero
        Gains are scores less this. A row without a gain is never taken.
    per_price
        Whether rows are compared by gain per price or by gain.

    Examples
    --------
    >>> few = Shortlist(None, np.arange(3), np.array([0.5, 8.0, 1.5]), None)
    >>> PerCost(Top(), np.array([1.0, 4.0, 2.0]), budget=5.0)(few, 3, np.random.default_rng(0))
    array([1, 0])
    """

    selection: Selector
    costs: Numbers = field(repr=False)
    budget: float = math.inf
    zero: float = 0.0
    per_price: bool = field(default=True, repr=False)

    def worth(self, few: Shortlist, values: Numbers, taken: Sequence[int] = ()) -> Numbers:
        """Return the gains of rows, or gains per price; -inf for rows that cannot be paid."""
        costs, gains = self.costs[few.positions], values - self.zero
        pays = (gains > 0.0) & (math.fsum(costs[list(taken)]) + costs <= self.budget)
        return np.where(pays, gains / costs if self.per_price else gains, -np.inf)

    def __call__(self, shortlist: Shortlist, batch: int, rng: Rng) -> Numbers:
        worth = self.worth(shortlist, shortlist.values)
        order = best(worth, len(worth), rng, shortlist.positions)
        few = shortlist.at(order[np.isfinite(worth[order])])
        if not len(few.positions):
            raise PoolExhausted(
                f"No row is worth its price: {shortlist.rule.name} expects no gain of any that the budget "
                "pays for. Stop here, or use an operator that hopes for more: spread."
            )
        keep = self.selection.keep(batch)
        if keep is not None and keep > batch:
            # More than a batch: a row that is too expensive leaves its place to the next.
            first = np.arange(min(keep, len(few.positions)))
            few = few.at(np.union1d(first, np.argsort(-few.values)[:keep]))
        ways = [self, replace(self, per_price=False)] if math.isfinite(self.budget) else [self]
        bought = [self.selection.bought(few, batch, rng, way) for way in ways]
        return max(bought, key=lambda rows: rows[1])[0]


@dataclass(frozen=True, eq=False)
class PerPrice(Rule):
    """Gain per price, for engines that keep only the best rows."""

    rule: Rule
    costs: Numbers
    zero: float

    def __call__(self, rows: Candidates) -> Any:
        values = self.rule(rows)
        costs = namespace(values).asarray(self.costs[rows.start : rows.start + len(rows)])
        return (values - self.zero) / costs

    def on(self, convert: Callable[[Any], Any]) -> Rule:
        return replace(self, rule=self.rule.on(convert), costs=convert(self.costs))

    def portable(self) -> Rule:
        return replace(self, rule=self.rule.portable())

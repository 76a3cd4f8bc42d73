"""The b rows of highest utility, as they are or by perturbed ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, namespace, rows_at, to_numpy
from goalward.errors import BadParameter
from goalward.utility.best import best
from goalward.utility.rule import Shortlist

__all__ = ["Certain", "NearCopies", "Sequential", "Stochastic", "Top"]


@dataclass(frozen=True)
class Top:
    """The `batch` rows of highest utility, in order of preference.

    To first order, and for operators that add up over rows, no batch is better (Remark 2).
    Equal rows are ordered at random, by the seed.

    Examples
    --------
    >>> Top()
    Top()
    """

    pays = True

    def keep(self, batch: int) -> int:
        """Return the batch: no other row is looked at."""
        return batch

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions of the best rows."""
        first = shortlist.first(lambda worth: np.argsort(-worth, kind="stable"), batch)
        return np.asarray(shortlist.positions[first])


@dataclass(frozen=True)
class Stochastic:
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
    pays = True

    def __post_init__(self) -> None:
        if not self.beta >= 0.0:
            raise BadParameter(f"beta={self.beta!r}; 0 or more was expected. Use 1.")

    def keep(self, batch: int) -> None:
        """Return None: every row has a chance."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions drawn, best first."""
        size = len(shortlist.values)

        def drawn(worth: NDArray[Any]) -> NDArray[Any]:
            ranks = np.empty(size)
            ranks[best(worth, size, rng, shortlist.positions)] = np.arange(1, size + 1)
            noisy = -self.beta * np.log(ranks) + rng.gumbel(size=size)
            free = np.where(np.isfinite(worth), noisy, -np.inf)
            return best(free, batch if shortlist.prices is None else size, rng, shortlist.positions)

        return np.asarray(shortlist.positions[shortlist.first(drawn, batch)])


# Rows that a batch should not hold together: equal to one taken, or nearly.


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


# A batch picked one row at a time, each row supposed to be labelled before the next.


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
    pays = True

    def __post_init__(self) -> None:
        if self.update not in ("believed", "curvature"):
            raise BadParameter(
                f"update={self.update!r}; 'believed' or 'curvature' was expected. Use 'curvature' "
                "where no belief about labels can be trusted."
            )

        if self.shortlist is not None and self.shortlist < 1:
            raise BadParameter(
                f"shortlist={self.shortlist!r}; at least 1, or None, was expected. Leave it at 50."
            )
        if self.radius is not None and not self.radius >= 0.0:
            raise BadParameter(f"radius={self.radius!r}; 0 or more was expected. Use 0.01.")

    def keep(self, batch: int) -> int | None:
        """Return the length of the short list."""
        return None if self.shortlist is None else max(1000, self.shortlist * batch)

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions picked, in order."""
        play = shortlist.ordered()
        picked, gain = self._picked(play, batch, rng)
        if play.prices is not None and math.isfinite(play.prices.budget) and len(picked):
            ended_by_size = len(picked) == batch
            if ended_by_size or (play.values - play.prices.zero).max() > gain:
                other, more = self._picked(play, batch, rng, per=False)
                picked = other if more > gain else picked
        return play.positions[picked]

    def _picked(
        self, play: Shortlist, batch: int, rng: np.random.Generator, *, per: bool = True
    ) -> tuple[list[int], float]:
        """Return where the picked ones stand, and what they bring, each after those before it."""
        rule, values = play.rule, play.values
        copies: NearCopies | None = None
        picked: list[int] = []
        gain, zero = 0.0, 0.0 if play.prices is None else play.prices.zero
        while True:
            worth = play.worth(values, picked, per=per)
            if play.prices is not None and not np.isfinite(worth).any():
                return picked, gain
            picked.append(int(best(worth, 1, rng, play.positions)[0]))
            gain += float(values[picked[-1]]) - zero
            if len(picked) == batch:
                return picked, gain
            rows = play.candidates
            if copies is None:
                copies = NearCopies(rows.X, self.radius)
                rule = rule.following(rows, values)
            copies.take(picked[-1])
            rule = rule.after(rows, picked[-1], self.update)
            values = np.where(copies.blocked, -np.inf, to_numpy(rule(rows)))


# The b rows that retraining would pick: what certificates cannot decide is retrained.


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

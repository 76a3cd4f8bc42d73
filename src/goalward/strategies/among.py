"""A dear strategy on a part of the pool: drawn at random, or the short list of a cheap one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.pool import n_rows, take_rows
from goalward.core.rows import held
from goalward.core.threads import one_blas_thread
from goalward.models.fitted import Fitted
from goalward.strategies.engine import Engine, Memory
from goalward.strategies.request import Request, as_strategy, check_count
from goalward.strategies.strategy import Strategy, Suggestion
from goalward.strategies.uncertainty import Margin, Random
from goalward.utility.best import mixed
from goalward.utility.rule import Rule

__all__ = [
    "REFERENCE",
    "Among",
    "Subsampled",
    "drawn_numbers",
    "drawn_rows",
    "ranked_rows",
    "reference_rows",
]


# Rows drawn by a seed, the same in every round and process: what goals without labels look at.


REFERENCE = 1000
"""Rows drawn. Few of them lie near a boundary, so 1,000 were better than 500 on digits."""
BLOCK = 2**18
"""Rows that a study looks at together, so that it draws from any pool in little memory."""


def reference_rows(X: Any, count: int = REFERENCE, seed: int = 0) -> Any:
    """Return `count` rows drawn by the seed, in their order; all of them if they are fewer.

    Recipes and `GoalOriented.recommended` look at these. Three draws, of the first version each:
    another one would change what the same seed suggests.
    """
    X = held(X)
    total = n_rows(X)
    if total <= count:
        return X
    return take_rows(X, np.sort(np.random.default_rng(seed).permutation(total)[:count]))


def ranked_rows(X: Any, count: int, seed: int) -> Any:
    """Return the same for `goalward rank`, which draws without a permutation of a large file."""
    total = n_rows(X)
    if total <= count:
        return X
    chosen = np.random.default_rng(seed).choice(total, size=count, replace=False)
    return take_rows(X, np.sort(chosen))


def drawn_rows(total: int, count: int, seed: int, purpose: str = "goal") -> NDArray[Any]:
    """Return the numbers of at most `count` rows, in order, for studies, which have purposes."""
    if total <= count:
        return np.arange(total)
    kept: NDArray[Any] = np.empty(0, dtype=np.int64)
    for first in range(0, total, BLOCK):
        kept = np.concatenate([kept, np.arange(first, min(first + BLOCK, total))])
        if len(kept) > count:
            numbers = drawn_numbers(kept, seed, purpose)
            kept = kept[np.argpartition(numbers, count - 1)[:count]]
    return np.sort(kept)


def drawn_numbers(rows: Sequence[int] | NDArray[Any], seed: int, purpose: str) -> NDArray[Any]:
    """Return a number in [0, 1) for each row, by the seed, the purpose and the row alone.

    No other row, answer, model or order of events has a say.
    """
    key = blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    salt = np.uint64(int.from_bytes(key, "little"))
    return np.asarray(mixed(np.asarray(rows, dtype=np.uint64) ^ salt) / 2.0**64)


class PartOfPool(Strategy):
    """Another strategy, shown a part of the rows, in memory; the others have NaN for a utility."""

    strategy: Strategy

    @property
    def labels_held(self) -> int:
        """The labels of the strategy within."""
        return self.strategy.labels_held

    def progress(self, fitted: Fitted) -> float:
        """Return the value of the goal of the strategy within."""
        return self.strategy.progress(fitted)

    def bind(self, request: Request) -> Rule:
        """Return the rule of the strategy within."""
        return self.strategy.bind(request)

    @property
    def zero(self) -> float | None:  # type: ignore[override]
        """That of the strategy within."""
        return self.strategy.zero

    @abstractmethod
    def part(self, request: Request, engine: Engine) -> NDArray[Any] | None:
        """Return the positions of the free rows to look at; None for the pool as it is."""

    def choose(self, request: Request, engine: Engine) -> Suggestion:
        """Return the rows worth labelling next among those, best first."""
        began = perf_counter()
        part = self.part(request, engine)
        strategy = self.strategy.turn(request.fitted, request.turn)
        if part is None:
            return strategy.chosen(request, Memory())
        part, total = np.sort(part), len(request.pool)
        taken = perf_counter() - began
        with one_blas_thread():  # many small products
            there = getattr(engine, "narrowed", None) if strategy.anywhere else None
            few = request.narrowed(part) if there is None else there(request, part)
            inner = strategy.chosen(few, Memory())
        utility = table = None
        if engine.whole:
            utility, table = np.full(total, np.nan), partial(_table, inner, part, total)
            utility[part] = inner.utility
        positions, seconds = part[inner.positions], taken + inner.seconds
        found = replace(inner, utility=utility, table=table, positions=positions, seconds=seconds)
        return replace(found, says=f"{inner.says} out of {request.left:,}")


@dataclass(frozen=True)
class Subsampled(PartOfPool):
    """Another strategy, shown `candidates` free rows drawn at random in every round.

    For utilities that cost a fit each: `Retrain` of a network, or of a classifier without
    curvature. Rows that were not drawn have NaN for a utility. The best of 4,000 rows drawn is among
    the best thousandth of a pool of any size with a probability of .98.

    Parameters
    ----------
    strategy
        What scores the rows drawn.
    candidates
        How many are drawn; the batch, if that is larger.

    Examples
    --------
    >>> from goalward.strategies import Margin
    >>> Subsampled(Margin(), candidates=100)
    Subsampled(strategy=Margin(seed=0), candidates=100, seed=0)
    """

    strategy: Strategy
    candidates: int = field(default=100, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", as_strategy(self.strategy, "strategy"))
        check_count("candidates", self.candidates)

    def part(self, request: Request, engine: Engine) -> NDArray[Any]:
        """Return rows drawn by the seed and the round; nothing is read for that."""
        count = max(self.candidates, request.batch)
        return Random(self.seed).shortlist(request, engine, count)


@dataclass(frozen=True)
class Among(PartOfPool):
    """A strategy on the short list of the rows that another one puts first.

    `by` scores the pool in one pass of the engine, and `strategy` sees its `most` first rows and no
    others, in memory. With `by=Margin()`, which predicts and no more, a dear strategy costs one
    prediction of the pool and its work on a short list, for pools of any size; `by=Random()` draws
    rows anew in every round and reads no others. A pool of at most `most` rows is shown as it is.

    Parameters
    ----------
    strategy
        What picks from the short list.
    by
        What makes it.
    most
        Its length; the batch, if that is larger.

    Examples
    --------
    >>> import goalward as gw
    >>> from goalward.strategies import Among, CoreSet
    >>> Among(CoreSet(), most=200)
    Among(strategy=CoreSet(seed=0), by=Margin(seed=0), most=200, seed=0)
    >>> gw.recipe("coverage among 1000 by margin")
    Recipe('coverage/average/covering/sequential among 1000 by margin')
    """

    strategy: Strategy
    by: Strategy = field(default_factory=Margin, kw_only=True)
    most: int = field(default=1000, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("strategy", "by"):
            object.__setattr__(self, name, as_strategy(getattr(self, name), name))
        check_count("most", self.most)

    @property
    def labels_held(self) -> int:
        """The labels of either: the same may serve both."""
        return max(self.strategy.labels_held, self.by.labels_held)

    def part(self, request: Request, engine: Engine) -> NDArray[Any] | None:
        """Return the free rows that `by` puts first; None where the pool has no more."""
        if len(request.pool) <= self.most:
            return None
        by = self.by.turn(request.fitted, request.turn)
        return by.shortlist(request, engine, max(self.most, request.batch))


def _table(inner: Suggestion, part: NDArray[Any], total: int) -> NDArray[Any] | None:
    """Return what was said of the rows looked at, under every label; NaN of the others."""
    if inner.per_label is None:
        return None
    table = np.full((total, inner.per_label.shape[1]), np.nan)
    table[part] = inner.per_label
    return table

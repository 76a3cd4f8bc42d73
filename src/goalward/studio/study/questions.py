"""Which rows an annotator gets next: a few look-ups, never a fit.

A part of the questions, `dev`, goes to rows of the dev set in a random order, so that the labelled
dev rows are a random sample of the pool whatever the model prefers. The others come from the
newest ranking; where there is none, rows that cover the pool, and then a random order. While the
numbers of a pool are still being made, it is the random order alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from heapq import merge
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from goalward.core.draws import drawn_rows
from goalward.models.logistic import Logistic
from goalward.strategies.combined import cold_start
from goalward.studio.study.pools import StudyPool
from goalward.studio.study.prices import prices
from goalward.studio.study.settings import Settings
from goalward.studio.study.state import State

# What a study asks before there is a model: rows that cover its pool.


FIRST = 64
"""Rows chosen so; where two classes are not among them, a random order goes on."""
CANDIDATES = 2000


def first_rows(pool: StudyPool, settings: Settings) -> NDArray[Any]:
    """Return the rows to ask first, by the pool and the seed alone; none if random ones are wanted."""
    rows = drawn_rows(pool.n_rows, CANDIDATES, settings.seed, "start")
    rows = rows[~settings.is_dev(rows)]
    if settings.strategy == "random" or not len(rows):
        return np.empty(0, dtype=np.int64)
    X = pool.take(rows)
    nothing = Logistic(classes=[0, 1], penalize_intercept=True).fit(X[:0], [])
    reference = pool.take(drawn_rows(pool.n_rows, settings.goal_rows, settings.seed))
    strategy = cold_start(reference, seed=settings.seed)
    costs = prices(pool, settings.costs)
    costs = None if costs is None else costs[rows]
    chosen = strategy.suggest(nothing, X, batch=min(FIRST, len(rows)), rows=rows, costs=costs)
    return np.asarray(chosen.rows)


QUEUE = 256
"""Rows of a ranking, where as many are open."""


class Question(NamedTuple):
    """A row to ask, with the score it had and whether it is for the dev set."""

    row: int
    utility: float | None
    dev: bool


@dataclass(frozen=True)
class Questions:
    """The questions of a pool, in an order that the newest ranking and the seed decide.

    Parameters
    ----------
    pool
        Loads the rows, for the first questions of all.
    """

    n_rows: int
    settings: Settings = field(repr=False)
    pool: Callable[[], StudyPool] = field(repr=False)
    _base: list[Any] = field(default_factory=list, repr=False)

    @cached_property
    def _first(self) -> NDArray[Any]:
        return first_rows(self.pool(), self.settings)

    @cached_property
    def _places(self) -> NDArray[Any]:
        places = np.empty(self.n_rows, dtype=np.int64)
        places[self.settings.random_order(self.n_rows, "order")] = np.arange(self.n_rows)
        return places

    @cached_property
    def _random_orders(self) -> tuple[NDArray[Any], NDArray[Any]]:
        order = np.argsort(self._places)
        dev = self.settings.is_dev(order)
        return order[~dev], order[dev]

    def _left(self, state: State, dev: bool) -> Iterator[int]:
        """Give the rows of a role in their random order, without those done by the base and since."""
        if not self._base or self._base[0] is not state.lines:
            done = np.zeros(self.n_rows, dtype=bool)
            done[state.lines.done(self.settings.answers)] = True
            rows = [order[~done[order]] for order in self._random_orders]
            self._base[:] = [state.lines, done, rows, [self._places[each] for each in rows]]
        _, done, rows, places = self._base
        # Taken back since, they have their place in the order again.
        again = [row for row in state.reopened if done[row] and state.settings.measures(row) == dev]
        back = sorted((self._places[row], row) for row in again)
        for _, row in merge(zip(places[dev], rows[dev], strict=True), back):
            yield int(row)

    def next(self, state: State, n: int, by: str, now: float) -> list[Question]:
        """Return up to n questions for an annotator."""
        chosen: dict[int, Question] = {}
        training, dev = self._open(state, by, now, dev=False), self._open(state, by, now, dev=True)
        for row in _begun(state, by, now)[:n]:
            chosen[row] = Question(row, state.questions.get(row, (None, None))[0], False)
        turns, dev_turns = state.turns + len(chosen), state.dev_turns
        while len(chosen) < n:
            # The share of dev questions follows its target as closely as whole numbers allow.
            wants_dev = dev_turns + 0.5 < self.settings.dev * (turns + 1)
            first, second = (dev, training) if wants_dev else (training, dev)
            question = next(first, None) or next(second, None)
            if question is None:
                break
            if question.row in chosen:
                continue
            chosen[question.row] = question
            turns += 1
            dev_turns += question.dev
        return list(chosen.values())

    def _open(self, state: State, by: str, now: float, *, dev: bool) -> Iterator[Question]:
        if state.ranking is not None and not dev:
            for row, utility in zip(state.ranking.queue, state.ranking.utilities, strict=True):
                if is_open(state, row, by, now):
                    yield Question(row, utility, dev)
        # Nobody waits for what rows are chosen by: until it is there, a random order does.
        covering = state.ranking is None and not dev and self.pool().ready
        first = self._first if covering else ()
        for row in chain(map(int, first), self._left(state, dev)):
            if is_open(state, row, by, now):
                yield Question(row, None, dev)


def _begun(state: State, by: str, now: float) -> list[int]:
    """Return rows others have answered that need more answers, oldest first."""
    if state.settings.answers == 1:
        return []
    begun = sorted((seq, row) for row, seq in state.begun.items())
    return [row for _, row in begun if is_open(state, row, by, now)]


def is_open(state: State, row: int, by: str, now: float) -> bool:
    """Return whether a row may be asked of an annotator now."""
    held = state.held(row)
    if by in state.said(row) or (by in held and held[by].live(now)):
        return False
    return state.needs_answer(row, coming=sum(lease.live(now) for lease in held.values()))


def rows_held(state: State, by: str, now: float) -> list[int]:
    """Return the rows an annotator has in hand, in the order they came."""
    mine = [
        (held[by].place, row)
        for row, held in state.leases.items()
        if by in held and held[by].live(now) and state.needs_answer(row)
    ]
    return [row for _, row in sorted(mine)]


def queue_used_up(state: State, n: int, by: str, now: float) -> bool:
    """Return whether fewer than n rows of the newest ranking are open."""
    # A queue shorter than usual held every open row: ranking again would find no more.
    if state.ranking is None or len(state.ranking.queue) < QUEUE:
        return False
    return sum(is_open(state, row, by, now) for row in state.ranking.queue) < n

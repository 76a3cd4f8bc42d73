"""Which rows an annotator gets next, without a fit: a share `dev` of random rows, others as ranked."""

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
from goalward.studio.study.pools import StudyPool, prices
from goalward.studio.study.settings import Settings
from goalward.studio.study.state import State

FIRST = 64
"""Rows that cover the pool; where two classes are not among them, a random order goes on."""
CANDIDATES = 2000
QUEUE = 256
"""Rows of a ranking, where as many are open."""
SINCE = 4096
"""Answers after which the open rows are looked up anew."""


class Question(NamedTuple):
    """A row to ask, with the score it had and whether it is for the dev set."""

    row: int
    utility: float | None
    dev: bool


@dataclass(frozen=True)
class Questions:
    """The questions of a pool, in an order that the newest ranking and the seed decide."""

    n_rows: int
    settings: Settings = field(repr=False)
    pool: Callable[[], StudyPool] = field(repr=False)
    _base: list[Any] = field(default_factory=list, repr=False)

    @cached_property
    def _first(self) -> NDArray[Any]:
        """The rows to ask first, which cover the pool; none if random ones are wanted."""
        pool, settings = self.pool(), self.settings
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

    @cached_property
    def _random(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The place of each row in a random order; that order of training rows, and of dev rows."""
        order = self.settings.random_order(self.n_rows, "order")
        dev, places = self.settings.is_dev(order), np.empty(self.n_rows, dtype=np.int64)
        places[order] = np.arange(self.n_rows)
        return places, order[~dev], order[dev]

    def _left(self, state: State, dev: bool) -> Iterator[int]:
        """Give the rows of a role in their random order, without those that are done."""
        places, *orders = self._random
        log, known, *_ = self._base or (None, 0)
        if log is not state.lines or not 0 <= state.n_lines - known <= SINCE:
            done = np.zeros(self.n_rows, dtype=bool)
            done[state.columns.done(self.settings.answers)] = True
            rows = [order[~done[order]] for order in orders]
            self._base[:] = [state.lines, state.n_lines, done, [(places[r], r) for r in rows]]
        _, known, done, left = self._base
        # Taken back since, they have their place in the order again; what was done since is passed.
        touched = np.unique(state.lines.columns["row"][known : state.n_lines])
        again = touched[done[touched] & (self.settings.is_dev(touched) == dev)].tolist()
        back = sorted((places[row], row) for row in again if state.needs_answer(row))
        for _, row in merge(zip(*left[dev], strict=True), back):
            yield int(row)

    def next(self, state: State, n: int, by: str, now: float) -> list[Question]:
        chosen: dict[int, Question] = {}
        training, dev = self._open(state, by, now, dev=False), self._open(state, by, now, dev=True)
        # First what others have answered and needs more answers, oldest first.
        for row in sorted(state.begun, key=state.begun.__getitem__):
            if len(chosen) < n and is_open(state, row, by, now):
                chosen[row] = Question(row, state.question(row)[0], False)
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


def is_open(state: State, row: int, by: str, now: float) -> bool:
    """Return whether a row may be asked of an annotator now."""
    held = state.leases.get(row, {})
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

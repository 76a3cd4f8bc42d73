"""Which rows an annotator gets next, without a fit: a share `dev` of random rows, others as ranked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice, repeat
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
AT_ONCE = 4096
"""Rows of a random order that are looked at together."""
FEW = 16
"""Rows that are looked at together before one is asked."""


class Question(NamedTuple):
    """A row to ask, with the score it had and whether it is for the dev set."""

    row: int
    utility: float | None
    dev: bool


@dataclass(eq=False)
class Questions:
    """The questions of a pool, in an order that the newest ranking and the seed decide."""

    n_rows: int
    settings: Settings = field(repr=False)
    pool: Callable[[], StudyPool] = field(repr=False)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        # Which rows are done, as of an event, and where the open ones of both roles begin.
        self._done: NDArray[Any] | None = None
        self._known, self._starts = 0, [0, 0]
        self.given: NDArray[Any] | None = None
        """The rows to ask first, if another process found them."""

    def first(self) -> NDArray[Any]:
        """Return the rows to ask first; none until the features are there."""
        if self.given is not None:
            return self.given
        return self._first if self.pool().ready else np.empty(0, dtype=np.int64)

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
        costs = prices(pool.frame, settings.costs)
        costs = None if costs is None else costs[rows]
        chosen = strategy.suggest(nothing, X, batch=min(FIRST, len(rows)), rows=rows, costs=costs)
        return np.asarray(chosen.rows)

    @cached_property
    def _random(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The place of each row in the order of its role; that of training rows, and of dev rows."""
        order = self.settings.random_order(self.n_rows, "order").astype(np.int32)
        dev, places = self.settings.is_dev(order), np.empty(self.n_rows, dtype=np.int32)
        roles = order[~dev], order[dev]
        for role in roles:
            places[role] = np.arange(len(role))
        return places, *roles

    def prepare(self, state: State) -> None:
        """Do what the first question would wait for."""
        self.catch_up(state)
        _ = self._random

    def catch_up(self, state: State) -> NDArray[Any]:
        """Return which rows were done at the last call, for a state on disk; the first takes longest."""
        with self._lock:
            if self._done is None:
                n, newest = state.counted_rows
                self._done = (newest > 0) & ((n == 0) | (n >= self.settings.answers))
            elif state.seq > self._known:
                touched = state.touched_since(self._known)
                state.lines(touched)
                # Rows that another process added are those of the next questions.
                for row in (row for row in touched if row < len(self._done)):
                    self._done[row] = not state.needs_answer(row)
                    if not self._done[row]:
                        dev = self.settings.measures(row)
                        self._starts[dev] = min(self._starts[dev], int(self._random[0][row]))
            self._known = max(self._known, state.seq)
            return self._done

    def _left(self, state: State, dev: bool) -> Iterator[int]:
        """Give the rows of a role in their random order, without those that are done."""
        done = self.catch_up(state) if self._done is None else self._done
        order, first = self._random[1 + dev], self._starts[dev]
        while first < len(order) and done[order[first]]:
            first += 1
        self._starts[dev] = first
        for at in range(first, len(order), AT_ONCE):
            part = order[at : at + AT_ONCE]
            yield from part[~done[part]].tolist()

    def next(self, state: State, n: int, by: str, now: float) -> list[Question]:
        chosen: dict[int, Question] = {}
        training, dev = self._open(state, by, now, dev=False), self._open(state, by, now, dev=True)
        # First what others have answered and needs more answers, oldest first.
        for row in state.begun:
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
        candidates: Iterator[tuple[int, float | None]] = zip(self._left(state, dev), repeat(None))
        if (ranking := state.ranking) is not None and not dev:
            done = self.catch_up(state) if self._done is None else self._done
            queue = zip(ranking.queue, ranking.utilities, strict=True)
            # Those that another process added since are not of these questions either.
            known = [each for each in queue if each[0] < len(done) and not done[each[0]]]
            candidates = chain(known, candidates)
        elif not dev:
            # Nobody waits for what rows are chosen by: until it is there, a random order does.
            candidates = chain(zip(self.first().tolist(), repeat(None)), candidates)
        # What others have in hand is passed over without a look at its answers.
        most = self.settings.answers
        free = (each for each in candidates if coming(state, each[0], now) < most)
        while some := [*islice(free, FEW)]:
            state.lines(row for row, _ in some)
            for row, utility in some:
                if is_open(state, row, by, now):
                    yield Question(row, utility, dev)


def is_open(state: State, row: int, by: str, now: float) -> bool:
    """Return whether a row may be asked of an annotator now."""
    held = state.leases.get(row, {})
    if by in state.said(row) or (by in held and held[by].live(now)):
        return False
    return state.needs_answer(row, coming(state, row, now))


def coming(state: State, row: int, now: float) -> int:
    """Return how many annotators have a row in hand now."""
    held = state.leases.get(row)
    return sum(lease.live(now) for lease in held.values()) if held else 0


def rows_held(state: State, by: str, now: float) -> list[int]:
    """Return the rows an annotator has in hand, in the order they came."""
    held = state.leases.items()
    mine = sorted((by_[by].place, row) for row, by_ in held if by in by_ and by_[by].live(now))
    state.lines(row for _, row in mine)
    return [row for _, row in mine if state.needs_answer(row)]


def queue_used_up(state: State, n: int, by: str, now: float) -> bool:
    """Return whether fewer than n rows of the newest ranking are open."""
    # A queue shorter than usual held every open row: ranking again would find no more.
    if state.ranking is None or len(state.ranking.queue) < QUEUE:
        return False
    state.lines(state.ranking.queue)
    return sum(is_open(state, row, by, now) for row in state.ranking.queue) < n

"""Which rows an annotator gets next: a few look-ups, never a fit.

A part of the questions, `dev`, goes to rows of the dev set in a random order, so that the labelled
dev rows are a random sample of the pool whatever the model prefers. The others come from the
newest ranking, and from a random order where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from numpy.typing import NDArray
from rpds import HashTrieMap

from goalward.study.random_order import random_order
from goalward.study.settings import Settings
from goalward.study.state import State

__all__ = ["Dealer", "Question"]


class Question(NamedTuple):
    """A row to ask, with the score it had and whether it is for the dev set."""

    row: int
    utility: float | None
    dev: bool


@dataclass(frozen=True)
class Dealer:
    """The random orders of a pool, which never change."""

    n_rows: int
    settings: Settings = field(repr=False)

    @cached_property
    def _orders(self) -> tuple[NDArray[Any], NDArray[Any]]:
        order = random_order(self.n_rows, self.settings.seed, "order")
        dev = self.settings.is_dev(order)
        return order[~dev], order[dev]

    def deal(self, state: State, n: int, by: str, now: float) -> list[Question]:
        """Return up to n questions for an annotator."""
        dealt: dict[int, Question] = {}
        training, dev = self._training(state, by, now), self._dev(state, by, now)
        for row in self._begun(state, by, now):
            if len(dealt) == n:
                break
            dealt[row] = Question(row, state.questions.get(row, (None, None))[0], False)
        turns, dev_turns = state.turns + len(dealt), state.dev_turns
        while len(dealt) < n:
            # The share of dev questions follows its target as closely as whole numbers allow.
            wants_dev = dev_turns + 0.5 < self.settings.dev * (turns + 1)
            first, second = (dev, training) if wants_dev else (training, dev)
            question = next(first, None) or next(second, None)
            if question is None:
                break
            if question.row in dealt:
                continue
            dealt[question.row] = question
            turns += 1
            dev_turns += question.dev
        return list(dealt.values())

    def held(self, state: State, by: str, now: float) -> list[int]:
        """Return the rows an annotator has in hand, in the order they came."""
        mine = [
            (said[by].place, row)
            for row, said in state.leases.items()
            if by in said and said[by].live(now) and wanted(state, row)
        ]
        return [row for _, row in sorted(mine)]

    def left(self, state: State, by: str, now: float) -> int:
        """Return how many rows could still be asked of an annotator."""
        busy = set(state.standings) | set(state.leases)
        return self.n_rows - sum(not is_open(state, row, by, now) for row in busy)

    def queued(self, state: State, by: str, now: float) -> int:
        """Return how many rows of the newest ranking are open."""
        queue = state.ranking.queue if state.ranking else ()
        return sum(is_open(state, row, by, now) for row in queue)

    def _training(self, state: State, by: str, now: float) -> Iterator[Question]:
        ranking = state.ranking
        if ranking is not None:
            for row, utility in zip(ranking.queue, ranking.utilities, strict=True):
                if is_open(state, row, by, now):
                    yield Question(row, utility, False)
        for row in map(int, self._orders[0]):
            if is_open(state, row, by, now):
                yield Question(row, None, False)

    def _dev(self, state: State, by: str, now: float) -> Iterator[Question]:
        for row in map(int, self._orders[1]):
            if is_open(state, row, by, now):
                yield Question(row, None, True)

    def _begun(self, state: State, by: str, now: float) -> list[int]:
        """Return rows others have answered that need more answers, oldest first."""
        if self.settings.answers == 1:
            return []
        begun = [
            (min(s.seq for s in said.values()), row)
            for row, said in state.standings.items()
            if is_open(state, row, by, now)
        ]
        return [row for _, row in sorted(begun)]


def is_open(state: State, row: int, by: str, now: float) -> bool:
    """Return whether a row may be asked of an annotator now."""
    said = state.standings.get(row, HashTrieMap())
    held = state.leases.get(row, HashTrieMap())
    if by in said or (by in held and held[by].live(now)):
        return False
    coming = sum(lease.live(now) for lease in held.values())
    return wanted(state, row, coming)


def wanted(state: State, row: int, coming: int = 0) -> bool:
    """Return whether a row needs another answer, with so many on their way."""
    said = state.standings.get(row, HashTrieMap())
    answers = sum(s.label is not None for s in said.values())
    skipped = len(said) > 0 and answers == 0
    return not skipped and answers + coming < state.settings.answers

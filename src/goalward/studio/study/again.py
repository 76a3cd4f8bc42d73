"""Rows that are worth one more answer than they have, beside new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.strategies import Strategy
from goalward.studio.study.prices import prices
from goalward.studio.study.rounds import StudyRound

__all__ = ["with_asked_again"]


def with_asked_again(
    now: StudyRound, strategy: Strategy, queue: NDArray[Any], utility: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the queue with rows to ask again, each where its value puts it, and all utilities.

    What a row's label would bring, were it new, times how much nearer to a sure label one more answer
    is expected to come: for a new row from nothing, for another from what its answers say. Per price,
    where rows have one.
    """
    state, zero = now.state, strategy.zero
    if zero is None or not state.settings.again:
        return queue, utility
    people = set(state.consensus.people)
    known = np.array(
        [r for r in state.training if len(state.said(r)) < len(people)], dtype=np.int64
    )
    if not len(known):
        return queue, utility
    utility, X = utility.copy(), now.pool.take(known)
    utility[known] = strategy.suggest(now.fitted, X, 1, round=len(state.rounds)).utility
    K = len(state.classes)
    said = state.consensus.told(np.vstack([np.full((1, K), 1 / K), state.consensus.at(known)]))
    costs = prices(now.pool, state.settings.costs)
    worth = (utility - zero) / (1.0 if costs is None else costs)
    new, again = worth[queue] * said[0], np.nan_to_num(worth[known]) * said[1:]
    order = np.argsort(-again, kind="stable")[: np.count_nonzero(again > 0.0)]
    # Before the first new row that is worth less; where none is, not at all.
    places = np.array(
        [np.argmax(np.append(new < value, True)) for value in again[order]], dtype=np.int64
    )
    order, places = order[places < len(new)], places[places < len(new)]
    return np.insert(queue, places, known[order]), utility

"""Parts of the dev rows, as the recipe words dev-rotated, dev-split and cautious use them.

The words of the first version keep their answers, and studies that were made with them go on. As
guards against overfitting the dev rows they are not worth their labels: docs/goals.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.errors import BadInput
from goalward.goals.dev_loss import DevLoss
from goalward.goals.goal import Goal
from goalward.models import Fitted

__all__ = ["FOLDS", "Rotated", "half", "in_folds", "steering"]

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Rotated(DevLoss):
    """The dev log-likelihood, one of five folds of the dev rows in each round ("dev-rotated").

    The mean over the folds is `DevLoss`, and so are the units. Outside of a round, as for a report,
    the goal is that of all rows.
    """

    def __post_init__(self) -> None:
        _check_rows(len(self.y))

    def settled(self, fitted: Fitted, round: int = 0) -> Goal:
        return in_folds(self)[round % FOLDS]


def half(X: Any, y: Any, *, ids: Any = None, seed: int = 0) -> DevLoss:
    """Return the dev log-likelihood of half of the rows, in the units of all ("dev-split").

    The classes are shared out evenly; or, with an id for each row, its id and the seed alone decide,
    so that a row stays on its side while the dev set grows.
    """
    if ids is not None:
        steers = steering(ids, seed)
    else:
        order = _shuffled(_codes(y), seed)
        steers = np.empty(len(order), dtype=bool)
        # As many as half of the first 1, 2, 3, ... rows.
        steers[order] = np.diff(np.floor((np.arange(len(order) + 1) + 0.5) * 0.5)) > 0
    if not 0 < steers.sum() < len(y):
        raise BadInput(
            f"Of {len(y)} dev rows, {steers.sum()} would steer and {np.sum(~steers)} be kept back; "
            "at least 1 each was expected. Label more dev rows."
        )
    return _only(DevLoss(X, y), steers, 1.0 / float(steers.mean()))


def steering(ids: Any, seed: int) -> NDArray[Any]:
    """Return which rows steer, where their ids alone decide."""
    numbers = [np.random.default_rng([seed, int(i)]).random() for i in ids]
    return np.asarray(np.array(numbers) < 0.5)


def in_folds(goal: DevLoss) -> list[DevLoss]:
    """Return goals, one for each fold of the dev rows, whose mean is the goal.

    Rows that have no weight are in no fold, or some folds would hold nothing else.
    """
    seen = np.flatnonzero(_weights(goal) > 0)
    _check_rows(len(seen))
    fold = np.full(len(goal.y), -1)
    # Dealt out in turn, class after class.
    fold[seen[_shuffled(_codes(goal.y)[seen], 0)]] = np.arange(len(seen)) % FOLDS
    return [_only(goal, fold == f, float(FOLDS)) for f in range(FOLDS)]


def _only(goal: DevLoss, seen: NDArray[Any], scale: float) -> DevLoss:
    """Return the log-likelihood of some of the rows, times a number."""
    return DevLoss(goal.X, goal.y, weights=np.where(seen, scale * _weights(goal), 0.0))


def _weights(goal: DevLoss) -> NDArray[Any]:
    given = 1.0 if goal.weights is None else to_numpy(goal.weights)
    return np.broadcast_to(given, (len(goal.y),)).astype(float)


def _codes(y: Any) -> NDArray[Any]:
    """Return a number for the class of each row; of a distribution, its most likely one."""
    if getattr(y, "ndim", 1) == 2 and y.shape[1] > 1:
        y = to_numpy(y).argmax(axis=1)
    listed = y if isinstance(y, Sequence) else to_numpy(y).ravel().tolist()
    code: dict[str, int] = {}
    return np.array([code.setdefault(repr(label), len(code)) for label in listed])


def _shuffled(codes: NDArray[Any], seed: int) -> NDArray[Any]:
    """Return rows in a random order, class after class."""
    order = np.random.default_rng(seed).permutation(len(codes))
    return order[np.argsort(codes[order], kind="stable")]


def _check_rows(rows: int) -> None:
    if rows < FOLDS:
        raise BadInput(
            f"There are {rows} dev rows for {FOLDS} folds; one for each was expected. Label more dev "
            "rows."
        )

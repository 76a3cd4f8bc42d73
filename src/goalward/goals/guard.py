"""Dev goals that are harder to overfit: rows in turn, or rows held back as a witness.

A strategy looks at the same dev rows in every round. What it picks fits them better and better,
their noise included, and in the end the dev goal rises while the model gets worse (§6.2 of the
paper). Both goals here are the dev log-likelihood with weights that leave rows out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.errors import BadInput, BadParameter, Unsupported
from goalward.goals.dev_loss import DevLoss
from goalward.goals.goal import Goal, Term, Weighted

__all__ = ["Rotated", "Split", "folded", "sides"]


@dataclass(frozen=True, eq=False)
class Rotated(DevLoss):
    """The dev log-likelihood, one fold of the dev rows in each round.

    Folds have the classes in the same shares as far as they go, and come in turn, times their
    number: the mean over the folds is `DevLoss`, and so are the units. Outside of a round, as for
    a report, the goal is that of all rows.

    Parameters
    ----------
    folds
        How many.
    all_but_one
        Look at all folds but one in each round, instead of at one.
    seed
        Decides which rows are in which fold.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = Rotated([[2.0], [3.0], [-1.0], [-2.0]], [1, 1, 0, 0], folds=2)
    >>> both = [goal.at(fitted, round).value(fitted) for round in (0, 1)]
    >>> bool(abs(sum(both) / 2 - goal.value(fitted)) < 1e-12)
    True
    """

    folds: int = field(default=5, kw_only=True)
    all_but_one: bool = field(default=False, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        _check_folds(self.folds, len(self.y))

    def at(self, fitted: Any, round: int = 0) -> Goal:
        """Return the goal of one round."""
        turn = round % self.folds
        fold = _dealt(_codes(self.y), self.folds, self.seed)
        seen = fold != turn if self.all_but_one else fold == turn
        share = (self.folds - 1) / self.folds if self.all_but_one else 1.0 / self.folds
        return _only(self, seen, 1.0 / share)


@dataclass(frozen=True, eq=False)
class Split(DevLoss):
    """The log-likelihood of a part of the dev rows; the others are a witness that never steers.

    Both parts are scaled to the size of the whole dev set: shares of them add up to `DevLoss`.

    Parameters
    ----------
    share
        Of the dev rows that steer.
    seed
        Decides which.
    ids
        An id for each row, whole numbers of 0 or more: the side of a row is drawn by its id alone,
        so that it stays there while the dev set grows. By default classes are shared out evenly.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = Split([[2.0], [3.0], [-1.0], [-2.0]], [1, 1, 0, 0])
    >>> goal.value(fitted) == goal.steering.value(fitted) != goal.witness.value(fitted)
    True
    """

    share: float = field(default=0.5, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    ids: Any = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise BadParameter(
                f"share={self.share!r}; a number between 0 and 1 was expected. Use 0.5."
            )
        if self.ids is not None and len(self.ids) != len(self.y):
            raise BadInput(
                f"ids has {len(self.ids)} entries for {len(self.y)} dev rows; one for each was "
                "expected."
            )
        if not 0 < self.steers.sum() < len(self.y):
            raise BadInput(
                f"Of {len(self.y)} dev rows, {self.steers.sum()} would steer and "
                f"{np.sum(~self.steers)} witness; at least 1 each was expected. Label more dev rows."
            )

    @property
    def steers(self) -> NDArray[Any]:
        """Which rows steer."""
        if self.ids is not None:
            return sides(self.ids, self.share, self.seed)
        order = _shuffled(_codes(self.y), self.seed)
        steers: NDArray[Any] = np.empty(len(order), dtype=bool)
        # As many as the share allows of the first 1, 2, 3, ... rows.
        steers[order] = np.diff(np.floor((np.arange(len(order) + 1) + 0.5) * self.share)) > 0
        return steers

    @property
    def steering(self) -> DevLoss:
        """The goal of the rows that steer."""
        return _only(self, self.steers, 1.0 / float(self.steers.mean()))

    @property
    def witness(self) -> DevLoss:
        """The goal of the rows that do not."""
        return _only(self, ~self.steers, 1.0 / float(np.mean(~self.steers)))

    def at(self, fitted: Any, round: int = 0) -> Goal:
        """Return the goal of the rows that steer."""
        return self.steering

    def pieces(self) -> list[tuple[float, Goal]]:
        """Return the pieces of the rows that steer."""
        return self.steering.pieces()

    def terms(self, fitted: Any) -> list[Term]:
        """Return the goal of the rows that steer, bound to a model."""
        return self.steering.terms(fitted)


def sides(ids: Any, share: float, seed: int = 0) -> NDArray[Any]:
    """Return which rows steer, where their ids alone decide."""
    numbers = [np.random.default_rng([seed, int(i)]).random() for i in ids]
    steers: NDArray[Any] = np.array(numbers) < share
    return steers


def folded(goal: Goal, folds: int, seed: int = 0) -> list[Goal]:
    """Return goals, one for each fold of the dev rows, whose mean is the goal.

    Parts of a sum that hold no labels are the same in every fold; those that hold some must be dev
    log-likelihoods, since other goals are not sums over rows.
    """
    if isinstance(goal, Weighted):
        whole = [part for _, part in goal.parts if part.labels_held > 0 and not _has_dev(part)]
        if whole and _has_dev(goal):
            raise Unsupported(
                f"A sum with {type(whole[0]).__name__} cannot be cut into folds: it holds "
                f"{whole[0].labels_held} dev labels, which would be the same in every fold. DevLoss, and "
                "parts without labels, were expected. Use the utility without Cautious()."
            )
        parts = [
            (weight, folded(part, folds, seed) if _has_dev(part) else [part] * folds)
            for weight, part in goal.parts
        ]
        if _has_dev(goal):
            return [Weighted(tuple((w, some[f]) for w, some in parts)) for f in range(folds)]
    if not isinstance(goal, DevLoss):
        raise Unsupported(
            f"{type(goal).__name__} cannot be cut into folds; a goal of dev rows (DevLoss, or a sum "
            "with one) was expected. Use the utility without Cautious()."
        )
    settled = goal.steering if isinstance(goal, Split) else goal
    weights = _weights(settled)
    # Rows that a round leaves out are in no fold, or some folds would hold nothing else.
    seen = np.flatnonzero(weights > 0)
    _check_folds(folds, len(seen))
    fold = np.full(len(weights), -1)
    fold[seen] = _dealt(_codes(settled.y)[seen], folds, seed)
    return [_only(settled, fold == f, float(folds)) for f in range(folds)]


def _has_dev(goal: Goal) -> bool:
    parts = [part for _, part in goal.parts] if isinstance(goal, Weighted) else [goal]
    return any(isinstance(part, DevLoss) for part in parts)


def _only(goal: DevLoss, seen: NDArray[Any], scale: float) -> DevLoss:
    """Return the log-likelihood of some of the rows, times a number."""
    return DevLoss(goal.X, goal.y, weights=np.where(seen, scale * _weights(goal), 0.0))


def _weights(goal: DevLoss) -> NDArray[Any]:
    given = 1.0 if goal.weights is None else to_numpy(goal.weights)
    weights: NDArray[Any] = np.broadcast_to(given, (len(goal.y),)).astype(float)
    return weights


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


def _dealt(codes: NDArray[Any], folds: int, seed: int) -> NDArray[Any]:
    """Return the fold of each row: dealt out in turn, class after class."""
    fold: NDArray[Any] = np.empty(len(codes), dtype=np.int64)
    fold[_shuffled(codes, seed)] = np.arange(len(codes)) % folds
    return fold


def _check_folds(folds: int, rows: int) -> None:
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise BadParameter(f"folds={folds!r}; a whole number of at least 2 was expected. Use 5.")
    if rows < folds:
        raise BadInput(
            f"There are {rows} dev rows for {folds} folds; one for each was expected. Use fewer "
            "folds, or label more dev rows."
        )

"""The cheapest utility that is true enough here, and a word on which it was."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, Rows, rows_at
from goalward.errors import BadParameter, Unsupported
from goalward.goals import Goal
from goalward.models import Fitted
from goalward.pool import n_rows
from goalward.solvers import Solution
from goalward.utility.fidelity import Fidelity, Resolve, fidelity
from goalward.utility.first_order import FirstOrder
from goalward.utility.implicit_step import ImplicitStep
from goalward.utility.labelings import batch_rows
from goalward.utility.retrain import Retrain
from goalward.utility.utility import Scored, Scorer, Utility

__all__ = ["Ladder"]


@dataclass(frozen=True)
class Ladder(Utility):
    """First order → implicit step → the same with the goal evaluated → retraining.

    A sample of the first rows is retrained, and the first rung whose rank correlation with
    it reaches `target` is used for the whole pool. The report says which, and how the
    rungs below it did.

    Parameters
    ----------
    target
        Rank correlation over (row, label) pairs to reach.
    rows
        Candidates to retrain, and rows of the pool they are drawn from: 25 times as many.
    resolve, ids
        The strategy's operator and the rows' ids, filled in by the strategy: what must agree
        with retraining then are the scores that rows are picked by.

    Examples
    --------
    >>> Ladder(target=0.99)
    Ladder(target=0.99, rows=20)
    """

    target: float = field(default=0.95, kw_only=True)
    rows: int = field(default=20, kw_only=True)
    resolve: Resolve | None = field(default=None, repr=False, kw_only=True)
    ids: Any = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.rows < 3:
            raise BadParameter(f"rows={self.rows!r}; at least 3 were expected. Use 20.")
        if not 0.0 < self.target <= 1.0:
            raise BadParameter(
                f"target={self.target!r}; a correlation in (0, 1] was expected. Use 0.95."
            )

    def climb(
        self, fitted: Fitted, goal: Goal, rows: Any, ids: Any = None
    ) -> tuple[Utility, list[Fidelity]]:
        """Return the rung to use for rows like these, and how each rung tried did."""
        tried: list[Fidelity] = []
        if n_rows(rows) < 3:
            # Too few for a sample: they are the sample.
            return Retrain(), tried
        for rung in (FirstOrder(), ImplicitStep(), ImplicitStep(exact_goal=True)):
            try:
                tried.append(
                    fidelity(
                        rung, fitted, goal, rows, rows=self.rows, resolve=self.resolve, ids=ids
                    )
                )
            except Unsupported:
                # A network has no implicit step, a tree nothing below retraining.
                continue
            if min(tried[-1].rank, tried[-1].pairs) >= self.target:
                return rung, tried
        return Retrain(), tried

    def prepare(self, fitted: Fitted, goal: Goal) -> _Climber:
        """Return the utility; the rung is chosen at the first rows that come."""
        return _Climber(self, fitted, goal)

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return Δτ of batches by the rung that single rows ask for."""
        rows, _, _ = batch_rows(fitted, X_batches)
        inner = replace(fitted, transform=None, columns=None)
        rung, _ = self.climb(inner, _bound(goal, fitted), rows)
        return rung.batch(fitted, goal, X_batches, labels)


class _Climber:
    """A scorer that chooses its rung when it sees the first rows."""

    def __init__(self, options: Ladder, fitted: Fitted, goal: Goal) -> None:
        self._options, self._fitted, self._goal = options, fitted, goal
        self._scorer: Scorer | None = None
        self._said = ""
        self.rung: Utility | None = None

    @property
    def report(self) -> Solution | None:
        """How the direction was solved for, and why this rung."""
        solution = self._scorer.report if self._scorer is not None else None
        if solution is None:
            return Solution(self._fitted.params * 0.0, 0.0, 0, "Retrain", self._said)
        return replace(solution, reason=f"{solution.reason}; {self._said}")

    def __call__(self, rows: Rows) -> Scored:
        if self._scorer is None:
            count = min(rows.shape[0], 25 * self._options.rows)
            rng = np.random.default_rng(0)
            picked = np.sort(rng.permutation(rows.shape[0])[:count])
            some = rows_at(rows, picked)
            # The first rows that come are the first of the pool.
            ids = None if self._options.ids is None else self._options.ids[: rows.shape[0]][picked]
            inner = replace(self._fitted, transform=None, columns=None)
            goal = _bound(self._goal, self._fitted)
            rung, tried = self._options.climb(inner, goal, some, ids)
            self.rung = rung
            self._said = f"{rung!r} after: " + "; ".join(map(str, tried))
            self._scorer = rung.prepare(self._fitted, self._goal)
        return self._scorer(rows)


@dataclass(frozen=True)
class _Bound(Goal):
    """A goal whose rows went through the model's pipeline already."""

    bound: list[Any]

    def terms(self, fitted: Any) -> list[Any]:
        return self.bound


def _bound(goal: Goal, fitted: Fitted) -> Goal:
    return _Bound(goal.terms(fitted))

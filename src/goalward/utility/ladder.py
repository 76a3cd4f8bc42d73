"""The cheapest utility that is true enough here, and a word on which it was."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array
from goalward.errors import BadParameter, Unsupported
from goalward.goals import Goal, Term
from goalward.labels import Resolver
from goalward.models import Fitted, as_fitted
from goalward.pool import Pool, as_pool, n_rows
from goalward.utility.fidelity import Fidelity, fidelity
from goalward.utility.first_order import FirstOrder
from goalward.utility.implicit_step import ImplicitStep
from goalward.utility.labelings import batch_rows
from goalward.utility.retrain import Retrain
from goalward.utility.scorer import Scorer, Supposed
from goalward.utility.utility import Utility, block_size

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

    Examples
    --------
    >>> Ladder(target=0.99)
    Ladder(target=0.99, rows=20)
    """

    target: float = field(default=0.95, kw_only=True)
    rows: int = field(default=20, kw_only=True)

    def __post_init__(self) -> None:
        if self.rows < 3:
            raise BadParameter(f"rows={self.rows!r}; at least 3 were expected. Use 20.")
        if not 0.0 < self.target <= 1.0:
            raise BadParameter(
                f"target={self.target!r}; a correlation in (0, 1] was expected. Use 0.95."
            )

    def climb(
        self,
        fitted: Fitted,
        goal: Goal,
        X: Any,
        resolver: Resolver | None = None,
        ids: NDArray[Any] | None = None,
    ) -> tuple[Utility, list[Fidelity]]:
        """Return the rung to use for rows like these, and how each rung tried did.

        With an operator, what must agree with retraining are the scores that rows are picked by.
        """
        tried: list[Fidelity] = []
        if n_rows(X) < 3:
            # Too few for a sample: they are the sample.
            return Retrain(), tried
        for rung in (FirstOrder(), ImplicitStep(), ImplicitStep(exact_goal=True)):
            try:
                found = fidelity(rung, fitted, goal, X, rows=self.rows, resolver=resolver, ids=ids)
            except Unsupported:
                # A network has no implicit step, a tree nothing below retraining.
                continue
            tried.append(found)
            if min(found.rank, found.pairs) >= self.target:
                return rung, tried
        return Retrain(), tried

    def chosen(
        self, task: Supposed, resolver: Resolver | None, pool: Pool, ids: Any = None
    ) -> tuple[Utility, str]:
        """Return the rung for a pool by a sample of its first rows, and how the rungs did."""
        if len(pool) == 0:
            raise BadParameter(
                "utility='auto' tries rows before it chooses, which a single pass over blocks cannot; a "
                "utility such as FirstOrder() was expected. Pass a pool that can be read twice."
            )
        first = min(len(pool), block_size(task.fitted.n_classes))
        count = min(first, 25 * self.rows)
        sample = np.sort(np.random.default_rng(0).permutation(first)[:count])
        names = sample if ids is None else ids[sample]
        rung, tried = self.climb(task.fitted, task.goal, pool.take(sample), resolver, names)
        return rung, f"{rung!r} after: " + "; ".join(map(str, tried))

    def prepare(self, fitted: Fitted, goal: Goal) -> Scorer:
        """Refuse: which rung it is, rows decide."""
        raise Unsupported(
            "Ladder().prepare(...) came; a ladder chooses by the rows of a pool, which are not there "
            "yet. Use Ladder()(fitted, goal, X_pool), or GoalOriented(goal, utility='auto')."
        )

    def __call__(self, fitted: Any, goal: Goal, X_pool: Any) -> Float[Array, "n k"]:
        """Return Δτ by the rung that the pool asks for, whatever operator comes after."""
        fitted = as_fitted(fitted)
        rung, _ = self.chosen(Supposed(fitted, goal, self), None, as_pool(X_pool))
        return rung(fitted, goal, X_pool)

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return Δτ of batches by the rung that single rows ask for."""
        rows, _, _ = batch_rows(fitted, X_batches)
        bare = replace(fitted, transform=None, columns=None)
        rung, _ = self.climb(bare, Bound(goal.terms(fitted)), rows)
        return rung.batch(fitted, goal, X_batches, labels)


@dataclass(frozen=True)
class Bound(Goal):
    """A goal whose rows went through the model's pipeline already."""

    bound: list[Term]

    def terms(self, fitted: Fitted) -> list[Term]:
        """Return what is bound already."""
        return self.bound

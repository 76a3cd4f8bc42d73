"""A first-order utility less its standard error over the dev rows.

The utility of a label is a sum over dev rows, so folds of them give as many independent readings
of it. Kept for the recipe words "cautious" and "cautious-spread" of the first version.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, namespace
from goalward.errors import Unsupported
from goalward.goals import DevLoss, Goal
from goalward.goals.dev_folds import FOLDS, in_folds
from goalward.models import Fitted
from goalward.solvers import Solution, Solver, named
from goalward.utility.first_order import FirstOrder
from goalward.utility.scorer import Scored, Scorer
from goalward.utility.utility import Utility

__all__ = ["Cautious"]


@dataclass(frozen=True)
class Cautious(Utility):
    """u - se(u), with the standard error over five folds of the dev rows of a `DevLoss`.

    One solve and one product with the pool for each fold; the curvature is factored once.

    Parameters
    ----------
    toward_zero
        Take it off the size of the utility, and 0 is left of one that is smaller. For operators
        that look at differences between labels, such as `Spread`: a lower bound for each label
        would not be one for their difference.
    """

    toward_zero: bool = False
    utility: FirstOrder = field(default_factory=FirstOrder, kw_only=True)

    def solved_by(self, solver: Solver) -> Cautious:
        """Return the utility with a solver at hand, unless it has one of its own."""
        return replace(self, utility=self.utility.solved_by(solver))

    def prepare(self, fitted: Fitted, goal: Goal) -> _Folds:
        """Return the utility with a direction for each fold."""
        goals = _folded(goal)
        solve = named(self.utility.solver).prepare(fitted.hessian)
        folds = [self.utility.along(fitted, solve(g.gradient(fitted))) for g in goals]
        return _Folds(self, list(folds), folds[0].report)

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return the utility of batches less its standard error, for every labeling."""
        goals = _folded(goal)
        return self.lowered(self.utility.batch(fitted, g, X_batches, labels) for g in goals)

    def lowered(self, readings: Iterable[Float[Array, "*n"]]) -> Float[Array, "*n"]:
        """Return mean - sd / √F of the readings, which are taken in one at a time."""
        mean: Any = 0.0
        squares: Any = 0.0
        for count, reading in enumerate(readings, start=1):
            # Welford's recurrence: no difference of two large sums.
            gap = reading - mean
            mean = mean + gap / count
            squares = squares + gap * (reading - mean)
        xp = namespace(mean)
        off = xp.sqrt(squares / (FOLDS * (FOLDS - 1)))
        if not self.toward_zero:
            return mean - off
        left = xp.abs(mean) - off
        return xp.sign(mean) * xp.where(left > 0.0, left, xp.zeros_like(left))


def _folded(goal: Goal) -> list[DevLoss]:
    if not isinstance(goal, DevLoss):
        raise Unsupported(
            f"{type(goal).__name__} cannot be cut into folds; DevLoss was expected. Use FirstOrder()."
        )
    return in_folds(goal)


@dataclass(frozen=True)
class _Folds(Scorer):
    """A scorer for each fold; a block of rows goes through all of them."""

    options: Cautious
    scorers: list[Scorer]
    report: Solution | None

    def __call__(self, rows: Rows) -> Scored:
        scored = self.scorers[0](rows)
        others = (scorer(rows).per_label for scorer in self.scorers[1:])
        return scored._replace(per_label=self.options.lowered(chain([scored.per_label], others)))

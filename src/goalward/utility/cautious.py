"""A utility less a multiple of its standard error over the dev rows.

The utility of a label is a sum over dev rows, so folds of them give as many independent readings
of it. What rests on a few dev rows differs from fold to fold, and is what a dev set can be
overfitted by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, namespace
from goalward.errors import BadParameter
from goalward.goals import Goal
from goalward.goals.guard import folded
from goalward.models import Fitted
from goalward.solvers import Solution, Solver, named
from goalward.utility.first_order import FirstOrder
from goalward.utility.ladder import Ladder
from goalward.utility.utility import Scored, Scorer, Utility

__all__ = ["Cautious"]


@dataclass(frozen=True)
class Cautious(Utility):
    """u - κ se(u), with the standard error over folds of the dev rows.

    One solve and one product with the pool for each fold; the curvature is factored once. For
    goals of dev rows (`DevLoss`, `Rotated`, `Split`), and sums of these and goals without labels.

    Parameters
    ----------
    utility
        What is predicted: the mean over the folds is its prediction.
    folds
        Readings of the utility.
    kappa
        Standard errors to take off. 0 is the utility itself.
    toward_zero
        Take them off the size of the utility, and 0 is left of one that is smaller. For operators
        that look at differences between labels, such as `Spread`: a lower bound for each label
        would not be one for their difference.
    seed
        Decides which rows are in which fold.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.DevLoss([[2.0], [3.0], [-1.0], [-2.0]], [1, 1, 0, 0])
    >>> plain = gw.utility.FirstOrder()(fitted, goal, [[0.5], [3.0]])
    >>> bool((Cautious(folds=2)(fitted, goal, [[0.5], [3.0]]) <= plain + 1e-12).all())
    True
    """

    utility: Utility = field(default_factory=FirstOrder)
    folds: int = field(default=5, kw_only=True)
    kappa: float = field(default=1.0, kw_only=True)
    toward_zero: bool = field(default=False, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        if not self.kappa >= 0.0:
            raise BadParameter(f"kappa={self.kappa!r}; 0 or more was expected. Use 1.")
        if isinstance(self.utility, (Cautious, Ladder)):
            raise BadParameter(
                f"Cautious() came with {self.utility!r}; a utility that is the same in every fold was "
                "expected. Use FirstOrder() or ImplicitStep()."
            )

    def solved_by(self, solver: Solver) -> Cautious:
        """Return the utility with a solver at hand, unless it has one of its own."""
        return replace(self, utility=self.utility.solved_by(solver))

    def prepare(self, fitted: Fitted, goal: Goal) -> _Folds:
        """Return the utility with a direction for each fold."""
        goals = folded(goal, self.folds, self.seed)
        inner = self.utility
        if not isinstance(inner, FirstOrder):
            return _Folds(self, [inner.prepare(fitted, g) for g in goals])
        solve = named(inner.solver).prepare(fitted.hessian)
        return _Folds(self, [inner.along(fitted, solve(g.gradient(fitted))) for g in goals])

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return the utility of batches less its standard error, for every labeling."""
        goals = folded(goal, self.folds, self.seed)
        return self.lowered(self.utility.batch(fitted, g, X_batches, labels) for g in goals)

    def lowered(self, readings: Iterable[Float[Array, "*n"]]) -> Float[Array, "*n"]:
        """Return mean - κ sd / √F of the readings, which are taken in one at a time."""
        mean: Any = 0.0
        squares: Any = 0.0
        for count, reading in enumerate(readings, start=1):
            # Welford's recurrence: no difference of two large sums.
            gap = reading - mean
            mean = mean + gap / count
            squares = squares + gap * (reading - mean)
        xp = namespace(mean)
        off = self.kappa * xp.sqrt(squares / (self.folds * (self.folds - 1)))
        if not self.toward_zero:
            return mean - off
        left = xp.abs(mean) - off
        return xp.sign(mean) * xp.where(left > 0.0, left, xp.zeros_like(left))


@dataclass(frozen=True)
class _Folds:
    """A scorer for each fold; a block of rows goes through all of them."""

    options: Cautious
    scorers: list[Scorer]

    @property
    def report(self) -> Solution | None:
        """How the direction of the first fold was solved for."""
        return self.scorers[0].report

    def __call__(self, rows: Rows) -> Scored:
        scored = self.scorers[0](rows)
        others = (scorer(rows).per_label for scorer in self.scorers[1:])
        return scored._replace(per_label=self.options.lowered(chain([scored.per_label], others)))

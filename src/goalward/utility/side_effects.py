"""What a label changes beside its own row: balanced weights, and intercepts that become free.

Utilities suppose that the objective gains one row and stays as it is otherwise. Where it does not,
the rest is done first, by a real fit, and the utility goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, Rows, like, namespace, to_numpy
from goalward.goals import Goal
from goalward.goals.goal import Bound
from goalward.models import Fitted
from goalward.solvers import Solution
from goalward.utility.certificate import ROUNDING
from goalward.utility.one_by_one import OneByOne, value_of
from goalward.utility.scorer import Certified, Scored, Scorer

if TYPE_CHECKING:
    from goalward.utility.utility import Utility

__all__ = ["FirstLabel", "Rebalanced", "with_side_effects"]


def with_side_effects(utility: Utility, fitted: Fitted, goal: Goal) -> Scorer:
    """Return a utility bound to a model, whatever else its labels change."""
    if fitted.label_counts is not None:
        return Rebalanced.of(utility, fitted, goal)
    scorer = utility.prepare(fitted, goal)
    if fitted.freeing is None:
        return scorer
    return FirstLabel(scorer, OneByOne.of(fitted, goal), fitted.freeing, scorer.report)


@dataclass(frozen=True)
class Rebalanced(Scorer):
    """Utilities of a model whose class weights are balanced: n / (K n_k), so each label moves all.

    The weights after a label k are known whatever the row. The model is refitted to the labelled
    rows with those weights, once for each class, and the row joins that one:

        Δτ(x, k) = τ(θ_k) - τ(θ) + Δτ of (x, k) at θ_k

    which is as exact as the utility, and exact for `Retrain`.

    Parameters
    ----------
    shifts
        τ(θ_k) - τ(θ).
    scorers
        The utility at each θ_k.
    """

    fitted: Fitted
    shifts: Float[Array, " k"]
    scorers: Sequence[Scorer]
    report: Solution | None

    @classmethod
    def of(cls, utility: Utility, fitted: Fitted, goal: Goal) -> Rebalanced:
        """Return the utility bound to the model of every class's next label."""
        fitted = fitted.polished(tol=1e-10)
        terms = goal.terms(fitted)
        labels = like(np.eye(fitted.n_classes), fitted.params, dtype=fitted.params.dtype)
        after = [
            replace(fitted.expecting(labels[k, :]), label_counts=None).polished(tol=1e-10)
            for k in range(fitted.n_classes)
        ]
        before = value_of(fitted, terms)
        shifts = like(np.array([value_of(one, terms) - before for one in after]), fitted.params)
        scorers = [utility.prepare(one, Bound(terms)) for one in after]
        return cls(fitted, shifts, scorers, scorers[0].report)

    def __call__(self, rows: Rows) -> Scored:
        """Return Δτ of every row under every label."""
        proba = self.fitted.proba_of(rows)
        each = [scorer(rows) for scorer in self.scorers]
        columns = [one.per_label[:, k] + self.shifts[k] for k, one in enumerate(each)]
        return Scored(namespace(proba).stack(columns, axis=1), proba, each[0].leverage)

    @property
    def certifies(self) -> bool:  # type: ignore[override]
        """Whether the utility does."""
        return self.scorers[0].certifies

    def certified(self, rows: Rows) -> Certified:
        """Return Δτ of every row under every label, and how far from retraining each can be."""
        each = [scorer.certified(rows) for scorer in self.scorers]
        utility, bound = (np.stack([one[i][:, k] for k, one in enumerate(each)], 1) for i in (0, 1))
        shifts = to_numpy(self.shifts)
        return Certified(utility + shifts, bound + ROUNDING * np.abs(shifts))


@dataclass(frozen=True)
class FirstLabel(Scorer):
    """Utilities of a model whose intercepts are penalised until a last class has a label.

    The first label of that class frees them. Nothing nearby has this optimum, so this column is
    retrained row by row; the others are the utility's.

    Parameters
    ----------
    missing
        The index of the class without a label.
    """

    scorer: Scorer
    exact: OneByOne
    missing: int
    report: Solution | None

    def __call__(self, rows: Rows) -> Scored:
        """Return Δτ of every row under every label."""
        scored = self.scorer(rows)
        return scored._replace(per_label=self._with_first(rows, scored.per_label))

    @property
    def certifies(self) -> bool:  # type: ignore[override]
        """Whether the utility does."""
        return self.scorer.certifies

    def certified(self, rows: Rows) -> Certified:
        """Return what the utility certifies; of the first label nothing, though it is retrained."""
        utility, bound = self.scorer.certified(rows)
        bound[:, self.missing] = np.inf
        return Certified(self._with_first(rows, utility), bound)

    def _with_first(self, rows: Rows, u: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return the utilities with the column of the first label retrained."""
        k, given = self.missing, self.exact.given.params
        wide = like(rows, given, dtype=given.dtype)
        column = like(self.exact.labelled_as(wide, [k]), u, dtype=u.dtype)
        return namespace(u).concat([u[:, :k], column, u[:, k + 1 :]], axis=1)

"""The paper's utility: one solve for the goal, one product for the pool.

v = -𝓗⁻¹∇τ is the direction in parameters that the goal asks for. Adding (x, k) moves the
optimum by -𝓗⁻¹∇ℓ(x, k) to first order, hence the goal by ⟨v, ∇ℓ⟩ = ⟨p, s⟩ - s_k with s = J v
the motion of the row's logits (Eq. 3 of the paper, for every label at once).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, astype, like, namespace, to_numpy
from goalward.core.candidates import Candidates
from goalward.goals import Goal
from goalward.labels import Resolver
from goalward.models import Fitted
from goalward.models.left_out import left_out_pull
from goalward.models.trust import refuse_flat
from goalward.solvers import Solution, Solver, named
from goalward.utility.labelings import batch_codes, batch_rows
from goalward.utility.motion import STATISTICS, Motion
from goalward.utility.neighbours import relative_weights
from goalward.utility.rule import Judged
from goalward.utility.scorer import GoalRule, Scored, Scorer, Supposed, is_constant
from goalward.utility.utility import Utility

__all__ = ["Direction", "FirstOrder", "Moving"]


@dataclass(frozen=True)
class FirstOrder(Utility):
    """Influence of a labelled row on the goal, to first order (the paper's Eq. 3).

    Its ranking is good where leverages are small (many labels, strong penalty); its values
    are too large for few labels. Under the model's own prediction its expectation is the
    same for every row (Remark 1).

    Parameters
    ----------
    solver
        "auto", "cholesky", "dual", "cg" or a solver object.
    per_row_penalty
        Count the penalty into every row's loss, as the paper's Eq. 3 does literally: adds
        (1/n) Σ ρⱼvⱼθⱼ to all utilities. The ranking is the same; the comparison with
        retraining at fixed C is not.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.DevLoss([[2.0]], [1])
    >>> gw.utility.FirstOrder()(fitted, goal, [[1.5], [3.0]]).shape
    (2, 2)
    """

    solver: str | Solver = field(default="auto", kw_only=True)
    per_row_penalty: bool = field(default=False, kw_only=True)

    def prepare(self, fitted: Fitted, goal: Goal) -> Direction | Moving:
        """Return the utility with its direction solved for."""
        refuse_flat(fitted, "FirstOrder()")
        auto = self.solver == "auto"
        solve = fitted.solve if auto else named(self.solver).prepare(fitted.hessian)
        return self.along(fitted, solve(goal.gradient(fitted)))

    def solved_by(self, solver: Solver) -> FirstOrder:
        """Return the utility with a solver at hand, unless it has one of its own."""
        return replace(self, solver=solver) if self.solver == "auto" else self

    def along(self, fitted: Fitted, solution: Solution) -> Direction | Moving:
        """Return the utility of the goal whose 𝓗⁻¹∇τ is at hand."""
        v = -solution.value
        xp = namespace(v)
        constant = 0.0
        if self.per_row_penalty:
            penalised = fitted.penalty[:, None] * v * fitted.params
            constant = float(xp.sum(penalised)) / len(fitted.labelled)
        if not (fitted.model.is_linear and fitted.loss.fused):
            return Moving(fitted, fitted.model.moving(fitted.params, v), constant, solution)
        motion = Motion.along(fitted.params, v, fitted.model.linear("FirstOrder").intercept)
        return Direction(motion, fitted.class_weights, constant, solution)

    def known(self, fitted: Fitted, goal: Goal) -> Float[NDArray[Any], "n l"]:
        """Return Δτ of other labels of the labelled rows, without one by the step of leaving it out."""
        known = fitted.labelled
        linear = fitted.model.linear("gw.relabel")
        motion = to_numpy(linear.jvp(known.X, fitted.solve(goal.gradient(fitted)).value))
        targets, w = to_numpy(known.targets), to_numpy(known.weights)[:, None]
        heavy = w * to_numpy(relative_weights(fitted))
        here = np.sum(motion * to_numpy(fitted.proba_of(known.X)), axis=1, keepdims=True)
        own = np.sum(motion * targets, axis=1, keepdims=True)
        change = heavy * (motion - here) - w * (own - here)
        pull, _, Q = left_out_pull(fitted, known.X, targets, known.weights)
        return np.column_stack([change, np.sum((motion @ Q) * pull, axis=1)])

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return the sum over each batch's rows (Remark 2), for every labeling."""
        rows, n_batches, size = batch_rows(fitted, X_batches)
        per_label = self.prepare(fitted, goal)(rows).per_label
        xp = namespace(per_label)
        per_label = xp.reshape(per_label, (n_batches, size, fitted.n_classes))
        codes = batch_codes(fitted, labels, n_batches, size)
        total: Any = 0.0
        for j in range(size):
            if codes.shape[0] == 1:
                index = like(codes[0, :, j], per_label)
                total = total + xp.take(per_label[:, j, :], index, axis=1)
            else:
                index = like(codes[:, :, j], per_label)
                total = total + xp.take_along_axis(per_label[:, j, :], index, axis=1)
        return total


@dataclass(frozen=True)
class Moving(Scorer):
    """The goal's direction for a model that is not linear: a forward-mode pass over rows."""

    fitted: Fitted
    moving: Callable[[Rows], tuple[Array, Array]]
    constant: float
    report: Solution

    def __call__(self, rows: Rows) -> Scored:
        """Return the utilities of rows under every label, and what the model predicts."""
        logits, motion = self.moving(rows)
        proba = self.fitted.loss.proba(logits)
        per_label = self.fitted.loss.along(proba, motion)
        if self.fitted.class_weights is not None:
            per_label = per_label * astype(self.fitted.class_weights, per_label.dtype)
        return Scored(per_label + self.constant if self.constant else per_label, proba)


@dataclass(frozen=True)
class Direction(Scorer):
    """A goal's direction, ready for rows: one product with [Θ | V] gives all labels.

    It holds a few numbers per feature and no rows, so that it can be sent to where the rows are.
    """

    motion: Motion
    class_weights: Float[Array, " k"] | None
    constant: float
    report: Solution

    def __call__(self, rows: Rows) -> Scored:
        """Return the utilities of rows under every label, and what the model predicts."""
        per_label, proba = self.motion.tables(rows)
        if self.class_weights is not None:
            per_label = per_label * astype(self.class_weights, per_label.dtype)
        return Scored(per_label + self.constant if self.constant else per_label, proba)

    def reduced(self, rows: Rows, statistic: str) -> Float[Array, " n"]:
        """Return a statistic of the utilities of each row, without a table of them."""
        values = self.motion.reduced(rows, statistic)
        return values + self.constant if statistic != "spread" and self.constant else values

    def under(self, resolver: Resolver, supposed: Supposed) -> GoalRule:
        """Return the rule; with class weights only the table tells what an operator says."""
        plain = self.class_weights is None
        if plain and resolver.operator.statistic in STATISTICS:
            return Reduced(self, resolver, supposed)
        return GoalRule(self, resolver, supposed, constant=plain and is_constant(resolver))


@dataclass(frozen=True, eq=False)
class Reduced(GoalRule):
    """A statistic of first-order utilities, in one pass and without a table of them."""

    scorer: Direction
    parallel = True

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the statistic of every row."""
        return self.judged(rows).values

    def judged(self, rows: Candidates) -> Judged:
        """Return the numbers alone."""
        return Judged(self.scorer.reduced(rows.X, str(self.resolver.operator.statistic)))

    def on(self, convert: Callable[[Any], Any]) -> Reduced:
        """Return the rule with its few numbers on a GPU."""
        motion = self.scorer.motion
        there = replace(motion, both=convert(motion.both), constant=convert(motion.constant))
        return replace(self, scorer=replace(self.scorer, motion=there), supposed=None)

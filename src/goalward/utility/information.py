"""What a label's curvature does to a goal that needs no labels.

A row x labelled, whatever its label, adds the curvature JᵀΛJ to 𝓗, hence takes 𝓗⁻¹Jᵀ S J𝓗⁻¹ from its
inverse, S = (I + ΛM)⁻¹Λ (Woodbury). A goal that is minus the mean of a risk over reference rows is
then expected to rise by

    gain = tr(S N),   N = J𝓗⁻¹ F 𝓗⁻¹Jᵀ,   F = mean J_rᵀ slope_r J_r

to first order in what M loses; for FisherRatio exactly, while logits stand still. The slope says
what a unit of a row's covariance is worth (`goals.PosteriorGoal`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, cast

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, astype, like, namespace, rows_at, stack_rows, to_numpy
from goalward.core.candidates import Candidates
from goalward.errors import Unsupported, VacuousUtility
from goalward.goals import FisherRatio, Goal, PosteriorGoal
from goalward.labels import Resolver
from goalward.models import Fitted
from goalward.selection.rule import Judged, Rule
from goalward.solvers import Inverse, Solution
from goalward.solvers.cholesky import dense_curvature
from goalward.utility.fidelity import Fidelity, fidelity
from goalward.utility.one_by_one import expected_change
from goalward.utility.scorer import Scored, Scorer, Supposed
from goalward.utility.utility import Utility

__all__ = ["GainRule", "Gains", "Information", "Taken"]

LARGEST_BLOCK = 2**22
"""Numbers in one array of forms: 32 MB."""


@dataclass(frozen=True)
class Information(Utility):
    """The gain of a goal of the posterior from a row's curvature: the same for every label.

    For `DecisionRisk`, `Epig` and `FisherRatio`, which `GoalOriented` gives it by itself. The model
    must be linear. With more than 1,000 unknowns (features times classes less one) the covariance
    is held in the leading directions of the goal's and the labelled rows, outside of which rows have
    the prior's variance; `suggestion.solver.reason` says how much that leaves out.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.FisherRatio([[0.2], [0.8]])
    >>> gw.utility.Information()(fitted, goal, [[0.5], [9.0]]).shape
    (2, 2)
    """

    def prepare(self, fitted: Fitted, goal: Goal) -> Gains:
        """Return the utility bound to a model and a goal, if it is one of the posterior."""
        for _, part in goal.parts:
            if part.utility != "information":
                raise Unsupported(
                    f"Information() came with {type(part).__name__}, a goal of the logits; "
                    "DecisionRisk, Epig and FisherRatio, or sums of these alone, were expected. Use "
                    "FirstOrder() for goals of the logits; the two kinds cannot be added up."
                )
        return Gains.of(fitted, cast(tuple[tuple[float, PosteriorGoal], ...], goal.parts))

    # Curvature is added as weights are now, whatever the label.
    bound = prepare

    def truth(self, fitted: Fitted, goal: Goal, X_pool: Any) -> NDArray[Any]:
        """Return what a label is expected to add to the goal's value, once for each label."""
        change = expected_change(fitted, goal, fitted.features(X_pool, "X_pool"))
        return np.repeat(change[:, None], fitted.n_answers, axis=1)

    def batch(self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None) -> Any:
        """Refuse: the labels of a batch change nothing here."""
        raise Unsupported(
            "Information().batch(...) came; the gain does not depend on labels, so there are no "
            "labelings to compare. Use Sequential(), which adds up what the rows bring together."
        )


@dataclass(frozen=True)
class Gains(Scorer):
    """The goal's rows folded into one matrix, ready for candidates.

    Parameters
    ----------
    F
        (qc, qc): what the goal asks of the covariance.
    """

    fitted: Fitted
    posterior: Inverse
    F: NDArray[Any] = field(repr=False)
    report: Solution | None = None

    @classmethod
    def of(cls, fitted: Fitted, parts: Sequence[tuple[float, PosteriorGoal]]) -> Gains:
        """Return the gains of a weighted sum of goals, their reference rows read in blocks."""
        first = type(parts[0][1]).__name__
        for _, goal in parts:
            goal.check_loss(fitted)
        rows = [fitted.features(goal.X, f"X of {type(goal).__name__}") for _, goal in parts]
        posterior = fitted.posterior(reduce(stack_rows, rows), first)
        asked = cls._asked(fitted, posterior, parts, rows)
        if not asked.any():
            names = ", ".join(type(goal).__name__ for _, goal in parts)
            warnings.warn(
                f"No reference row of {names} has anything at stake: the model is certain of all "
                "of them. Rows are taken by the variance they remove (FisherRatio) instead. "
                "Check the penalty and the reference rows, or stop.",
                VacuousUtility,
                stacklevel=2,
            )
            plain = [(weight, FisherRatio(goal.X)) for weight, goal in parts]
            asked = cls._asked(fitted, posterior, plain, rows)
        report = Solution(asked, 0.0, 0, "Information", posterior.reason)
        return cls(fitted, posterior, asked, report)

    @staticmethod
    def _asked(
        fitted: Fitted,
        posterior: Inverse,
        parts: Sequence[tuple[float, PosteriorGoal]],
        rows: Sequence[Rows],
    ) -> NDArray[Any]:
        """Return F: for each goal the mean of J_rᵀ slope_r J_r, weighted."""
        size = len(posterior.matrix)
        c = fitted.hessian.basis.shape[1]
        F = np.zeros((size, size))
        step = max(1, LARGEST_BLOCK // (c * c))
        for (weight, goal), some in zip(parts, rows, strict=True):
            m = some.shape[0]
            for start in range(0, m, step):
                part = rows_at(some, np.arange(start, min(start + step, m)))
                Z = posterior.coordinates(part)
                logits = np.asarray(to_numpy(fitted.logits_of(part)), dtype=np.float64)
                bound = goal.under(fitted.loss)
                slope = weight * (bound.slope(logits, posterior.leverage(part, Z)) / m)
                F += dense_curvature(Z, slope, np.zeros(Z.shape[1]))
        return F

    def __call__(self, rows: Rows) -> Scored:
        """Return the gain of every row, once for each label, with its leverage."""
        proba, _, blocks, M, N = self.forms(rows)
        xp = namespace(proba)
        found = like(gains(blocks, M, N), proba, dtype=proba.dtype)
        leverage = np.einsum("nab,nba->n", blocks, M)
        per_label = xp.broadcast_to(found[:, None], (len(found), self.fitted.n_answers))
        return Scored(per_label, proba, like(leverage, proba, dtype=proba.dtype))

    def under(self, resolver: Resolver, supposed: Supposed) -> Rule:
        """Return the rule: every label brings the same, so there is nothing to resolve."""
        return GainRule(self, supposed=supposed)

    def taking(self, rows: Rows) -> Taken:
        """Return the rows as candidates of a batch that is picked one by one."""
        _, Z, blocks, M, N = self.forms(rows)
        return Taken(Z, blocks, M, N, self.posterior, self.F)

    def forms(
        self, rows: Rows
    ) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return predictions, coordinates, Λ times the expected weight, M and N of rows."""
        Z = self.posterior.coordinates(rows)
        proba = self.fitted.loss.proba(self.fitted.logits_of(rows))
        weights = np.ones(rows.shape[0])
        if self.fitted.loss.kind == "class":
            weights = to_numpy(proba @ astype(self.fitted.label_weights, proba.dtype))
        blocks = np.asarray(to_numpy(self.fitted.loss.blocks(proba)), dtype=np.float64)
        M, N = self.posterior.leverage(rows, Z), self.posterior.form(self.bent, Z)
        return proba, Z, weights[:, None, None] * blocks, M, N

    @cached_property
    def bent(self) -> Float[NDArray[Any], "p p"]:
        """𝓗⁻¹F𝓗⁻¹, which makes N of a row."""
        inverse = self.posterior.matrix
        found: NDArray[Any] = inverse @ self.F @ inverse
        return found


@dataclass(frozen=True, eq=False)
class Taken:
    """Candidates whose M and N follow as rows are taken: an update of rank K-1 for each.

    With y = 𝓗⁻¹J_kᵀ of the row taken, t = 𝓗⁻¹F y and A, B what J_x makes of them,

        M ← M - A S Aᵀ,   N ← N - A S Bᵀ - B S Aᵀ + A S (yᵀFy) S Aᵀ

    so a pick costs n q c² for n candidates instead of their quadratic forms again.
    """

    Z: Float[NDArray[Any], "n q"]
    blocks: Float[NDArray[Any], "n c c"]
    M: Float[NDArray[Any], "n c c"]
    N: Float[NDArray[Any], "n c c"]
    inverse: Inverse
    F: Float[NDArray[Any], "p p"]

    def after(self, position: int) -> Taken:
        """Return what holds once the curvature of a candidate is added."""
        q, c = self.Z.shape[1], self.M.shape[1]
        z, block = self.Z[position], self.blocks[position]
        y, S = self.inverse.change(z, self.M[position], block)
        Fy = self.F @ y
        t = self.inverse.matrix @ Fy
        A = (self.Z @ y.reshape(q, c * c)).reshape(-1, c, c)
        B = (self.Z @ t.reshape(q, c * c)).reshape(-1, c, c)
        AS = A @ S
        cross = AS @ B.transpose(0, 2, 1)
        M = self.M - AS @ A.transpose(0, 2, 1)
        N = self.N - cross - cross.transpose(0, 2, 1) + AS @ (y.T @ Fy) @ AS.transpose(0, 2, 1)
        return replace(self, M=M, N=N, inverse=self.inverse.less(y, S))


@dataclass(frozen=True, eq=False)
class GainRule(Rule):
    """The gain of rows, which follows as rows are taken.

    Whatever its label, a row taken adds its curvature and leaves the model where it is, so
    Sequential's `update` makes no difference here.

    Parameters
    ----------
    taken
        The rows that were in play when the last row was taken, and what holds for them.
    """

    gains: Gains
    taken: tuple[Candidates, Taken] | None = None
    supposed: Supposed | None = None
    parallel = True

    @property
    def report(self) -> Solution | None:
        """What is held of the covariance."""
        return self.gains.report

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the gain of every row."""
        if self.taken is not None and self.taken[0] is rows:
            taken = self.taken[1]
            return gains(taken.blocks, taken.M, taken.N)
        return self.gains(rows.X).per_label[:, 0]

    def judged(self, rows: Candidates) -> Judged:
        """Return the gains with the rows' leverages; a table of labels would say the same again."""
        per_label, _, leverage = self.gains(rows.X)
        return Judged(per_label[:, 0], leverage=leverage)

    def table(self, rows: Candidates) -> Float[Array, "n k"]:
        """Return the gain of rows, once for each label."""
        return self.gains(rows.X).per_label

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        """Return the rule once a row has added its curvature."""
        held = self.taken
        taken = held[1] if held is not None and held[0] is rows else self.gains.taking(rows.X)
        now = taken.after(position)
        return GainRule(replace(self.gains, posterior=now.inverse), (rows, now))

    def portable(self) -> Rule:
        """Return the rule without the goal's rows."""
        return replace(self, supposed=None)

    def fidelity(self, X_pool: Any, ids: Any, rows: int, seed: int) -> Fidelity:
        """Return how gains compare with what retraining is expected to add to the goal's value."""
        assert self.supposed is not None
        s = self.supposed
        return fidelity(s.utility, s.fitted, s.goal, X_pool, rows=rows, seed=seed)


def gains(
    blocks: Float[NDArray[Any], "n c c"],
    M: Float[NDArray[Any], "n c c"],
    N: Float[NDArray[Any], "n c c"],
) -> Float[NDArray[Any], " n"]:
    """Return tr((I + ΛM)⁻¹ΛN) of every row."""
    inner = np.linalg.solve(np.eye(M.shape[1]) + blocks @ M, blocks)
    return np.asarray(np.einsum("nab,nba->n", inner, N))

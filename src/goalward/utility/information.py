"""Goals that a row serves whatever its label: information about the posterior, and coverage.

A row x labelled, whatever its label, adds the curvature JᵀΛJ to 𝓗, hence takes 𝓗⁻¹Jᵀ S J𝓗⁻¹ from its
inverse, S = (I + ΛM)⁻¹Λ (Woodbury). A goal that is minus the mean of a risk over reference rows is
then expected to rise by

    gain = tr(S N),   N = J𝓗⁻¹ F 𝓗⁻¹Jᵀ,   F = mean J_rᵀ slope_r J_r

to first order in what M loses; for FisherRatio exactly, while logits stand still. The slope says
what a unit of a row's covariance is worth (`goals.PosteriorGoal`).
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, cast

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.linalg import block_diag

from goalward.core.arrays import Array, Rows, astype, namespace, rows_at, stack_rows, to_numpy
from goalward.core.rows import Candidates
from goalward.errors import Unsupported, VacuousUtility
from goalward.goals import Coverage, Goal
from goalward.goals.coverage import Cover, unit_rows
from goalward.goals.posterior import FisherRatio, PosteriorGoal
from goalward.labels import Resolver
from goalward.models import Fitted
from goalward.solvers.cholesky import dense_curvature
from goalward.solvers.inverse import Inverse, rows_at_once, shrunk
from goalward.solvers.solution import Solution
from goalward.utility.fidelity import Fidelity, fidelity
from goalward.utility.one_by_one import expected_change
from goalward.utility.utility import (
    ExplainedRule,
    FollowingRule,
    LookAhead,
    RowScores,
    Rule,
    Scored,
    Scorer,
    SequentialRule,
    Utility,
)

# Candidates of a batch whose gains (`utility.information`) follow as rows are taken.


@dataclass(frozen=True, eq=False)
class Taken:
    """Candidates whose M and N follow as rows are taken: an update of rank K-1 for each.

    With y = 𝓗⁻¹J_kᵀ of the row taken, t = 𝓗⁻¹F y and A, B what J_x makes of them,

        M ← M - A S Aᵀ,   N ← N - A S Bᵀ - B S Aᵀ + A S (yᵀFy) S Aᵀ

    so a pick costs n q c² for n candidates instead of their quadratic forms again.

    Parameters
    ----------
    proba
        What is predicted for them.
    Z, blocks, M, N
        Their coordinates, Λ times the expected weight, and the forms.
    inverse, off
        𝓗⁻¹ before a row was taken, and Y, YS of what YSYᵀ takes off it since.
    """

    proba: Float[Array, "n k"]
    Z: Float[Array, "n q"]
    blocks: Float[Array, "n c c"]
    M: Float[Array, "n c c"]
    N: Float[Array, "n c c"]
    inverse: Inverse
    F: Float[Array, "p p"]
    off: tuple[Float[Array, "p r"], Float[Array, "p r"]] | None = None

    def after(self, position: int) -> Taken:
        """Return what holds once the curvature of a candidate is added."""
        xp = namespace(self.Z)
        q, c = self.Z.shape[1], self.M.shape[1]
        z, S = self.Z[position : position + 1, :], self.S[position, :, :]
        y, S = xp.reshape(self.inverse.pulled(z), (c, -1)).T, (S + S.T) / 2
        if self.off is not None:
            Y, YS = self.off
            y = y - YS @ xp.reshape(z @ xp.reshape(Y, (q, -1)), (c, -1)).T
        Fy = self.F @ y
        t = self.inverse.matrix @ Fy
        off = y, y @ S
        if self.off is not None:
            t = t - YS @ (Y.T @ Fy)
            off = tuple(xp.concat(both, axis=1) for both in zip(self.off, off, strict=True))
        both = self.Z @ xp.concat([xp.reshape(v, (q, c * c)) for v in (y, t)], axis=1)
        A, B = (xp.reshape(part, (-1, c, c)) for part in (both[:, : c * c], both[:, c * c :]))
        AS = A @ S
        half = AS @ _turned(B - 0.5 * (AS @ (y.T @ Fy)))
        M, N = self.M - AS @ _turned(A), self.N - half - _turned(half)
        return replace(self, M=M, N=N, off=off)

    @property
    def posterior(self) -> Inverse:
        """𝓗⁻¹ now."""
        if self.off is None:
            return self.inverse
        Y, YS = self.off
        return replace(self.inverse, matrix=self.inverse.matrix - YS @ Y.T)

    @cached_property
    def S(self) -> Float[Array, "n c c"]:
        """(I + ΛM)⁻¹Λ of every row."""
        return shrunk(self.blocks, self.M)

    @property
    def gains(self) -> Float[Array, " n"]:
        """tr(S N) of every row."""
        return namespace(self.M).sum(self.S * _turned(self.N), axis=(1, 2))

    def scored(self, n_answers: int) -> Scored:
        """Return the gains, once for each label, with predictions and leverages."""
        xp, proba = namespace(self.proba), self.proba
        found = astype(self.gains, proba.dtype)
        leverage = xp.sum(self.blocks * _turned(self.M), axis=(1, 2))
        per_label = xp.broadcast_to(found[:, None], (found.shape[0], n_answers))
        return Scored(per_label, proba, astype(leverage, proba.dtype))


def _turned(A: Float[Array, "n a b"]) -> Float[Array, "n b a"]:
    return namespace(A).permute_dims(A, (0, 2, 1))


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
                    f"Information() needs DecisionRisk, Epig or FisherRatio, or a sum of these, got "
                    f"{type(part).__name__}. Use FirstOrder() for goals of the logits."
                )
        return Gains.of(fitted, cast(tuple[tuple[float, PosteriorGoal], ...], goal.parts))

    # Curvature is added as weights are now, whatever the label.
    bound = prepare

    def truth(self, fitted: Fitted, goal: Goal, X_pool: Any) -> NDArray[Any]:
        """Return what a label is expected to add to the goal's value, once for each label."""
        change = expected_change(fitted, goal, fitted.features(X_pool, "X_pool"))
        return np.repeat(change[:, None], fitted.n_answers, axis=1)


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
    F: Float[Array, "p p"] = field(repr=False)
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
        if not bool(namespace(asked).any(asked != 0.0)):
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
    ) -> Float[Array, "p p"]:
        """Return F: for each goal the mean of J_rᵀ slope_r J_r, weighted."""
        c = fitted.hessian.basis.shape[1]
        step = max(1, LARGEST_BLOCK // (c * c))
        found = []
        for (weight, goal), some in zip(parts, rows, strict=True):
            m, bound = some.shape[0], replace(goal, loss=fitted.loss)
            for start in range(0, m, step):
                part = rows_at(some, slice(start, start + step))
                Z = posterior.coordinates(part)
                logits = astype(fitted.logits_of(part), Z.dtype)
                slope = bound.worth(logits, posterior.leverage(part, Z))
                found.append(dense_curvature(Z, (weight / m) * slope))
        return reduce(operator.add, found)

    def __call__(self, rows: Rows) -> Scored:
        """Return the gain of every row, once for each label, with its leverage."""
        return self.taking(rows).scored(self.fitted.n_answers)

    def under(self, resolver: Resolver, look_ahead: LookAhead) -> Rule:
        """Return the rule: every label brings the same, so there is nothing to resolve."""
        return GainRule(self, look_ahead=look_ahead)

    def taking(self, rows: Rows) -> Taken:
        """Return the rows as candidates of a batch that is picked one by one."""
        Z = self.posterior.coordinates(rows)
        proba = self.fitted.loss.proba(self.fitted.logits_of(rows))
        blocks = astype(self.fitted.loss.blocks(proba), Z.dtype)
        if self.fitted.loss.kind == "class":
            # Λ times the weight that a label is expected to have.
            weights = proba @ astype(self.fitted.label_weights, proba.dtype)
            blocks = astype(weights, Z.dtype)[:, None, None] * blocks
        return Taken(proba, Z, blocks, *self.forms(rows, Z), self.posterior, self.F)

    def forms(
        self, rows: Rows, Z: Float[Array, "n q"]
    ) -> tuple[Float[Array, "n c c"], Float[Array, "n c c"]]:
        """Return M and N of rows."""
        n, q = Z.shape
        if q < self.F.shape[0]:
            M, N = self.posterior.forms((self.posterior.matrix, self.bent), Z)
            return self.posterior.with_outside(M, rows, Z), N
        # Of one contrast y = 𝓗⁻¹x gives both, ⟨y, x⟩ and ⟨y, Fy⟩, for the price of one of them more.
        xp, step, parts = namespace(Z), rows_at_once(q, 1), []
        for i in range(0, max(n, 1), step):
            some = rows_at(Z, slice(i, i + step))
            y = some @ self.posterior.matrix
            parts.append((xp.sum(y * some, axis=1), xp.sum((y @ self.F) * y, axis=1)))
        M, N = (xp.concat(part)[:, None, None] for part in zip(*parts, strict=True))
        return self.posterior.with_outside(M, rows, Z), N

    @cached_property
    def bent(self) -> Float[Array, "p p"]:
        """𝓗⁻¹F𝓗⁻¹, which makes N of a row."""
        inverse = self.posterior.matrix
        return inverse @ self.F @ inverse


@dataclass(frozen=True, eq=False)
class GainRule(SequentialRule, ExplainedRule):
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
    look_ahead: LookAhead | None = None
    parallel = True

    @property
    def report(self) -> Solution | None:  # type: ignore[override]
        """What is held of the covariance."""
        return self.gains.report

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the gain of every row."""
        held = self._held(rows)
        return self.scores(rows).values if held is None else held.gains

    def scores(self, rows: Candidates) -> RowScores:
        """Return the gains with the rows' leverages; a table of labels would say the same again."""
        held = self._held(rows) or self.now.taking(rows.X)
        per_label, _, leverage = held.scored(1)
        return RowScores(per_label[:, 0], leverage=leverage)

    def _held(self, rows: Candidates) -> Taken | None:
        """Return what holds for rows that are in play."""
        return self.taken[1] if self.taken is not None and self.taken[0] is rows else None

    def table(self, rows: Candidates) -> Float[Array, "n k"]:
        """Return the gain of rows, once for each label."""
        return self.now(rows.X).per_label

    @cached_property
    def now(self) -> Gains:
        """The gains of rows that are not in play."""
        if self.taken is None:
            return self.gains
        return replace(self.gains, posterior=self.taken[1].posterior)

    def playing(self, rows: Candidates) -> SequentialRule:
        """Return the rule with the forms of the rows, which serve their scores and the picks."""
        return replace(self, taken=(rows, self.now.taking(rows.X)))

    def after(self, rows: Candidates, position: int, update: str) -> SequentialRule:
        """Return the rule once a row has added its curvature."""
        now = (self._held(rows) or self.now.taking(rows.X)).after(position)
        return GainRule(self.gains, (rows, now))

    def portable(self) -> Rule:
        """Return the rule without the goal's rows."""
        return replace(self, look_ahead=None)

    def fidelity(self, X_pool: Any, ids: Any, rows: int, seed: int) -> Fidelity:
        """Return how gains compare with what retraining is expected to add to the goal's value."""
        assert self.look_ahead is not None
        s = self.look_ahead
        return fidelity(s.utility, s.fitted, s.goal, X_pool, rows=rows, seed=seed)


# What several rows bring together, and which of them are needed least.
#
# Rows A that add their curvature Λ at once raise a goal of the posterior by tr(S N), where S = (Λ⁻¹ +
# M)⁻¹, and M and N (`utility.information`) are those of all rows of A together, a block for each pair.
# Without row i, S becomes its Schur complement S - S_i S_ii⁻¹ S_iᵀ, so what is lost is
# tr(S_ii⁻¹ T_ii) with T = S N S, and T follows by an update of rank K-1.


@dataclass(frozen=True, eq=False)
class Together:
    """Rows that are added at once.

    Parameters
    ----------
    S, T
        See above; blocks of rows that were left out are zero.
    gain
        By how much all of them raise the goal.
    """

    S: Float[NDArray[Any], "n c n c"]
    T: Float[NDArray[Any], "n c n c"]
    gain: float

    @classmethod
    def of(cls, gains: Gains, rows: Rows) -> Together:
        """Return the rows under a goal."""
        held = gains.taking(rows)
        Z, blocks = held.Z, to_numpy(held.blocks)
        n, c = blocks.shape[:2]
        M = to_numpy(gains.posterior.joint_leverage(rows, Z))
        N = to_numpy(gains.posterior.joint_form(gains.bent, Z))
        added = block_diag(*blocks)
        S = np.linalg.solve(np.eye(n * c) + added @ M, added)
        SN = S @ N
        shape = (n, c, n, c)
        return cls(S.reshape(shape), (SN @ S).reshape(shape), float(np.trace(SN)))

    def losses(self) -> Float[NDArray[Any], " n"]:
        """Return what the goal loses without each row; 0 for those left out already."""
        own = np.arange(len(self.S))
        inverse = np.linalg.pinv(self.S[own, :, own, :], rcond=1e-10, hermitian=True)
        return np.asarray(np.einsum("nab,nba->n", inverse, self.T[own, :, own, :]))

    def without(self, row: int) -> Together:
        """Return the rows without one of them."""
        S, T = self.S, self.T
        inverse = np.linalg.pinv(S[row, :, row, :], rcond=1e-10, hermitian=True)
        R, own = S[:, :, row, :] @ inverse, T[row, :, row, :]
        # T - R T_i - T_iᵀ Rᵀ + R T_ii Rᵀ, the last shared between the two before it.
        half = np.tensordot(R, T[row] - 0.5 * np.tensordot(own, R, axes=(1, 2)), axes=1)
        left = replace(
            self,
            S=S - np.tensordot(R, S[row], axes=1),
            T=T - half - half.transpose(2, 3, 0, 1),
            gain=self.gain - float(np.trace(inverse @ own)),
        )
        for kept in (left.S, left.T):
            kept[row], kept[:, :, row] = 0.0, 0.0
        return left


@dataclass(frozen=True)
class Covering(Utility):
    """How much more of the uncertain reference rows a row covers, whatever its label.

    For `Coverage`, which `GoalOriented` gives it by itself. Exact, while uncertainties stay; as rows
    are taken one by one the gains follow exactly.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    >>> Covering()(fitted, gw.goals.Coverage([[1.0, 1.0]]), [[1.0, 1.0], [0.0, 1.0]]).shape
    (2, 2)
    """

    def prepare(self, fitted: Fitted, goal: Goal) -> Covers:
        """Return the utility bound to a model and a goal, if it is one of coverage."""
        if len(goal.parts) != 1 or goal.utility != "covering":
            raise Unsupported(
                f"Covering() needs Coverage alone, got {type(goal).__name__}. Leave utility= out, and the "
                "goal brings its own."
            )
        ((weight, part),) = goal.parts
        cover = cast(Coverage, part).cover(fitted)
        return Covers(fitted, replace(cover, weights=weight * cover.weights))

    # Where a row is does not depend on what labels change.
    bound = prepare


@dataclass(frozen=True)
class Covers(Scorer):
    """The gains of coverage."""

    fitted: Fitted
    cover: Cover
    report: None = None

    def __call__(self, rows: Rows) -> Scored:
        """Return the gain of every row, once for each label."""
        proba = self.fitted.loss.proba(self.fitted.logits_of(rows))
        found = astype(self.gains(rows), proba.dtype)
        shape = (found.shape[0], self.fitted.n_answers)
        return Scored(namespace(proba).broadcast_to(found[:, None], shape), proba)

    def gains(self, rows: Rows) -> Float[Array, " n"]:
        """Return the gain of every row, block by block."""
        step = self.cover.step
        starts = range(0, max(rows.shape[0], 1), step)
        parts = (unit_rows(rows_at(rows, slice(i, i + step))) for i in starts)
        found = [self.cover.gains(self.cover.kernel(part)) for part in parts]
        return namespace(self.cover.best).concat(found)

    def under(self, resolver: Resolver, look_ahead: LookAhead) -> Rule:
        """Return the rule: every label brings the same, so there is nothing to resolve."""
        return CoverRule(self)


@dataclass(frozen=True, eq=False)
class CoverRule(FollowingRule, ExplainedRule):
    """The gain of rows, which follows as rows are taken.

    Parameters
    ----------
    kernel
        Similarities of the rows in play, once one of them was taken.
    """

    covers: Covers
    kernel: Float[Array, "n m"] | None = None
    parallel = True
    report = None

    def fresh(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the gain of every row."""
        return self.covers.gains(rows.X)

    def playing(self, rows: Candidates) -> SequentialRule:
        """Return the rule with the similarities of the rows, which serve their scores and the picks."""
        cover = self.covers.cover
        kernel = cover.kernel(unit_rows(rows.X))
        return replace(self, kernel=kernel, taken=(rows, cover.gains(kernel)))

    def after(self, rows: Candidates, position: int, update: str) -> SequentialRule:
        """Return the rule once a row is known."""
        same = self.taken is not None and self.taken[0] is rows
        kernel = self.kernel if same else None
        if kernel is None:
            kernel = self.covers.cover.kernel(unit_rows(rows.X))
        cover = self.covers.cover.with_row(kernel[position, :])
        return CoverRule(
            replace(self.covers, cover=cover), kernel, taken=(rows, cover.gains(kernel))
        )

    def table(self, rows: Candidates) -> Any:
        """Return the gain of rows, once for each label."""
        return self.covers(rows.X).per_label

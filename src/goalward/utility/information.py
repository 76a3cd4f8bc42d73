"""Goals whose gain does not depend on the label: information about the posterior, and coverage.

A labelled row adds JᵀΛJ to 𝓗. With S = (I + ΛM)⁻¹Λ (Woodbury) the goal is expected to rise by

    gain = tr(S N),   N = J𝓗⁻¹ F 𝓗⁻¹Jᵀ,   F = mean J_rᵀ slope_r J_r

over reference rows r, to first order in the change of M; for FisherRatio exactly.
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
    FollowingRule,
    LookAhead,
    RowScores,
    Rule,
    Scored,
    Scorer,
    Utility,
)


@dataclass(frozen=True, eq=False)
class Taken:
    """Candidates whose M and N are updated as rows are taken, by rank K-1 each.

    With y = 𝓗⁻¹J_kᵀ of the row taken, A = J_x y and B = J_x 𝓗⁻¹F y:

        M ← M - A S Aᵀ,   N ← N - A S Bᵀ - B S Aᵀ + A S (yᵀFy) S Aᵀ
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
        if self.off is None:
            return self.inverse
        Y, YS = self.off
        return replace(self.inverse, matrix=self.inverse.matrix - YS @ Y.T)

    @cached_property
    def S(self) -> Float[Array, "n c c"]:
        """(I + ΛM)⁻¹Λ of every row."""
        return shrunk(self.blocks, self.M)

    def scored(self, n_answers: int) -> Scored:
        """Return the gains tr(S N), once for each label, with predictions and leverages."""
        xp, proba = namespace(self.proba), self.proba
        gains = astype(xp.sum(self.S * _turned(self.N), axis=(1, 2)), proba.dtype)
        leverage = xp.sum(self.blocks * _turned(self.M), axis=(1, 2))
        per_label = xp.broadcast_to(gains[:, None], (gains.shape[0], n_answers))
        return Scored(per_label, proba, astype(leverage, proba.dtype))


def _turned(A: Float[Array, "n a b"]) -> Float[Array, "n b a"]:
    return namespace(A).permute_dims(A, (0, 2, 1))


LARGEST_BLOCK = 2**22
"""Numbers in one array of forms: 32 MB."""


@dataclass(frozen=True)
class Information(Utility):
    """The gain of a goal of the posterior from a row's curvature: the same for every label.

    The default for `DecisionRisk`, `Epig` and `FisherRatio`; the model must be linear. With
    more than 1,000 unknowns only the leading directions of goal and labelled rows are kept.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.FisherRatio([[0.2], [0.8]])
    >>> gw.utility.Information()(fitted, goal, [[0.5], [9.0]]).shape
    (2, 2)
    """

    def prepare(self, fitted: Fitted, goal: Goal) -> Gains:
        parts: Any = goal.parts
        names = [type(part).__name__ for _, part in parts]
        for (_, part), name in zip(parts, names, strict=True):
            if part.utility != "information":
                raise Unsupported(
                    f"Information() needs DecisionRisk, Epig or FisherRatio, or a sum of these, got {name}. "
                    "Use FirstOrder() for goals of the logits."
                )
        goal.check_loss(fitted)
        rows = [fitted.features(part.X, f"X of {type(part).__name__}") for _, part in parts]
        posterior = fitted.posterior(reduce(stack_rows, rows), names[0])
        asked = _asked(fitted, posterior, parts, rows)
        if not bool(namespace(asked).any(asked != 0.0)):
            warnings.warn(
                f"No reference row of {', '.join(names)} has anything at stake: the model is certain of "
                "all of them. Rows are taken by the variance they remove (FisherRatio) instead. "
                "Check the penalty and the reference rows, or stop.",
                VacuousUtility,
                stacklevel=2,
            )
            plain = [(weight, FisherRatio(part.X)) for weight, part in parts]
            asked = _asked(fitted, posterior, plain, rows)
        report = Solution(asked, 0.0, 0, "Information", posterior.reason)
        return Gains(fitted, posterior, asked, report)

    # Curvature is added with the current weights, whatever the label.
    bound = prepare

    def truth(self, fitted: Fitted, goal: Goal, X_pool: Any) -> NDArray[Any]:
        change = expected_change(fitted, goal, fitted.features(X_pool, "X_pool"))
        return np.repeat(change[:, None], fitted.n_answers, axis=1)


def _asked(
    fitted: Fitted,
    posterior: Inverse,
    parts: Sequence[tuple[float, PosteriorGoal]],
    rows: Sequence[Rows],
) -> Float[Array, "p p"]:
    """Return F: for each goal the mean of J_rᵀ slope_r J_r, weighted."""
    c = fitted.hessian.basis.shape[1]
    step = max(1, LARGEST_BLOCK // (c * c))
    curvatures = []
    for (weight, goal), some in zip(parts, rows, strict=True):
        m, bound = some.shape[0], replace(goal, loss=fitted.loss)
        for start in range(0, m, step):
            part = rows_at(some, slice(start, start + step))
            Z = posterior.coordinates(part)
            logits = astype(fitted.logits_of(part), Z.dtype)
            slope = bound.worth(logits, posterior.leverage(part, Z))
            curvatures.append(dense_curvature(Z, (weight / m) * slope))
    return reduce(operator.add, curvatures)


@dataclass(frozen=True)
class Gains(Scorer):
    """Scorer of the gain; F is the (qc, qc) matrix of the goal's rows."""

    fitted: Fitted
    posterior: Inverse
    F: Float[Array, "p p"] = field(repr=False)
    report: Solution | None = None

    def __call__(self, rows: Rows) -> Scored:
        return self.taking(rows).scored(self.fitted.n_answers)

    def under(self, resolver: Resolver, look_ahead: LookAhead) -> Rule:
        return GainRule(self, look_ahead=look_ahead, report=self.report)

    def taking(self, rows: Rows) -> Taken:
        """Return the rows as candidates of a greedy batch."""
        Z = self.posterior.coordinates(rows)
        proba = self.fitted.loss.proba(self.fitted.logits_of(rows))
        blocks = astype(self.fitted.loss.blocks(proba), Z.dtype)
        if self.fitted.loss.kind == "class":
            # Λ times the expected weight of a label.
            weights = proba @ astype(self.fitted.label_weights, proba.dtype)
            blocks = astype(weights, Z.dtype)[:, None, None] * blocks
        return Taken(proba, Z, blocks, *self.forms(rows, Z), self.posterior, self.F)

    def forms(
        self, rows: Rows, Z: Float[Array, "n q"]
    ) -> tuple[Float[Array, "n c c"], Float[Array, "n c c"]]:
        n, q = Z.shape
        if q < self.F.shape[0]:
            M, N = self.posterior.forms((self.posterior.matrix, self.bent), Z)
            return self.posterior.with_outside(M, rows, Z), N
        # With one contrast y = 𝓗⁻¹x gives both ⟨y, x⟩ and ⟨y, Fy⟩.
        xp, step, parts = namespace(Z), rows_at_once(q, 1), []
        for i in range(0, max(n, 1), step):
            some = rows_at(Z, slice(i, i + step))
            y = some @ self.posterior.matrix
            parts.append((xp.sum(y * some, axis=1), xp.sum((y @ self.F) * y, axis=1)))
        M, N = (xp.concat(part)[:, None, None] for part in zip(*parts, strict=True))
        return self.posterior.with_outside(M, rows, Z), N

    @cached_property
    def bent(self) -> Float[Array, "p p"]:
        """𝓗⁻¹F𝓗⁻¹."""
        inverse = self.posterior.matrix
        return inverse @ self.F @ inverse


@dataclass(frozen=True, eq=False)
class GainRule(Rule):
    """Gain updated as rows are taken; Sequential's `update` has no effect on it."""

    gains: Gains
    taken: tuple[Candidates, Taken] | None = None
    look_ahead: LookAhead | None = None
    report: Solution | None = None
    parallel = True
    explained = True

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        return self.scores(rows).values

    def scores(self, rows: Candidates) -> RowScores:
        per_label, _, leverage = self._held(rows).scored(1)
        return RowScores(per_label[:, 0], leverage=leverage)

    def _held(self, rows: Candidates) -> Taken:
        """Return the candidates, from `taken` where `rows` are in play."""
        if self.taken is None:
            return self.gains.taking(rows.X)
        there, taken = self.taken
        return (
            taken
            if there is rows
            else replace(self.gains, posterior=taken.posterior).taking(rows.X)
        )

    def table(self, rows: Candidates) -> Float[Array, "n k"]:
        return self._held(rows).scored(self.gains.fitted.n_answers).per_label

    def playing(self, rows: Candidates) -> Rule:
        return replace(self, taken=(rows, self._held(rows)))

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        return replace(self, taken=(rows, self._held(rows).after(position)), look_ahead=None)

    def portable(self) -> Rule:
        return replace(self, look_ahead=None)

    def fidelity(self, X_pool: Any, ids: Any, rows: int, seed: int) -> Fidelity:
        look = self.look_ahead
        assert look is not None
        return fidelity(look.utility, look.fitted, look.goal, X_pool, rows=rows, seed=seed)


@dataclass(frozen=True, eq=False)
class Together:
    """Gain of several rows together, and the loss without each of them.

    The gain is tr(S N) with S = (Λ⁻¹ + M)⁻¹ over all rows. Without row i it falls by
    tr(S_ii⁻¹ T_ii), T = S N S. Blocks of rows left out are zero.
    """

    S: Float[NDArray[Any], "n c n c"]
    T: Float[NDArray[Any], "n c n c"]
    gain: float

    @classmethod
    def of(cls, gains: Gains, rows: Rows) -> Together:
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
        """Return the loss of the goal without each row; 0 for rows left out already."""
        own = np.arange(len(self.S))
        inverse = np.linalg.pinv(self.S[own, :, own, :], rcond=1e-10, hermitian=True)
        return np.asarray(np.einsum("nab,nba->n", inverse, self.T[own, :, own, :]))

    def without(self, row: int) -> Together:
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

    The default for `Coverage`. Exact while uncertainties stay the same.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    >>> Covering()(fitted, gw.goals.Coverage([[1.0, 1.0]]), [[1.0, 1.0], [0.0, 1.0]]).shape
    (2, 2)
    """

    def prepare(self, fitted: Fitted, goal: Goal) -> Covers:
        if len(goal.parts) != 1 or goal.utility != "covering":
            raise Unsupported(
                f"Covering() needs Coverage alone, got {type(goal).__name__}. Leave utility= out, and the "
                "goal brings its own."
            )
        ((weight, part),) = goal.parts
        cover = cast(Coverage, part).cover(fitted)
        return Covers(fitted, replace(cover, weights=weight * cover.weights))

    # A row's place does not depend on labels.
    bound = prepare


@dataclass(frozen=True)
class Covers(Scorer):
    """The gains of coverage."""

    fitted: Fitted
    cover: Cover
    report: None = None

    def __call__(self, rows: Rows) -> Scored:
        proba = self.fitted.loss.proba(self.fitted.logits_of(rows))
        gains = astype(self.gains(rows), proba.dtype)
        shape = (gains.shape[0], self.fitted.n_answers)
        return Scored(namespace(proba).broadcast_to(gains[:, None], shape), proba)

    def gains(self, rows: Rows) -> Float[Array, " n"]:
        step = self.cover.step
        starts = range(0, max(rows.shape[0], 1), step)
        parts = (unit_rows(rows_at(rows, slice(i, i + step))) for i in starts)
        gains = [self.cover.gains(self.cover.kernel(part)) for part in parts]
        return namespace(self.cover.best).concat(gains)

    def under(self, resolver: Resolver, look_ahead: LookAhead) -> Rule:
        return CoverRule(self)


@dataclass(frozen=True, eq=False)
class CoverRule(FollowingRule):
    """Gain updated as rows are taken; `kernel` are the similarities of the rows in play."""

    covers: Covers
    kernel: Float[Array, "n m"] | None = None
    parallel = True
    explained = True

    def fresh(self, rows: Candidates) -> Float[Array, " n"]:
        return self.covers.gains(rows.X)

    def playing(self, rows: Candidates) -> Rule:
        cover = self.covers.cover
        kernel = cover.kernel(unit_rows(rows.X))
        return replace(self, kernel=kernel, taken=(rows, cover.gains(kernel)))

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        same = self.taken is not None and self.taken[0] is rows
        kernel = self.kernel if same else None
        if kernel is None:
            kernel = self.covers.cover.kernel(unit_rows(rows.X))
        cover = self.covers.cover.with_row(kernel[position, :])
        return CoverRule(
            replace(self.covers, cover=cover), kernel, taken=(rows, cover.gains(kernel))
        )

    def table(self, rows: Candidates) -> Any:
        return self.covers(rows.X).per_label

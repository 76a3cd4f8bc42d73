"""The paper's utility (Eq. 3): one solve for the goal, one product for the pool.

With v = -𝓗⁻¹∇τ and s = J v, adding (x, k) changes the goal by ⟨v, ∇ℓ⟩ = ⟨p, s⟩ - s_k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import array_api_compat
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, astype, is_sparse, like, namespace, softmax, to_numpy
from goalward.core.kernels import gpu
from goalward.core.kernels.compiled import kernels, two_lines
from goalward.core.rows import Candidates
from goalward.goals import Goal
from goalward.labels import Expected, Predicted, Resolver
from goalward.models import Fitted
from goalward.models.fitted import left_out_pull
from goalward.solvers import Solution, Solver, named
from goalward.utility.labelings import batch_codes, batch_rows
from goalward.utility.neighbours import relative_weights
from goalward.utility.utility import (
    GoalRule,
    LookAhead,
    RowScores,
    Scored,
    Scorer,
    Utility,
    chunk_rows,
    stacked,
)


@dataclass(frozen=True)
class FirstOrder(Utility):
    """Influence of a labelled row on the goal, to first order (the paper's Eq. 3).

    Values are too large where leverages are large. Under the model's own prediction the expectation
    is the same for every row (Remark 1).

    Parameters
    ----------
    solver
        "auto", "cholesky", "dual", "cg" or a solver object.
    per_row_penalty
        Add the penalty to every row's loss, as Eq. 3 does literally; the ranking is the same.

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
        fitted.refuse_flat("FirstOrder()")
        auto = self.solver == "auto"
        solve = fitted.solve if auto else named(self.solver).prepare(fitted.hessian)
        solution = solve(goal.gradient(fitted))
        v = -solution.value
        xp = namespace(v)
        constant = 0.0
        if self.per_row_penalty:
            penalised = fitted.penalty[:, None] * v * fitted.params
            constant = float(xp.sum(penalised)) / len(fitted.labelled)
        if not (fitted.model.is_linear and fitted.loss.fused):
            return Moving(fitted, fitted.model.moving(fitted.params, v), constant, solution)
        K = fitted.n_classes
        if K == 2:
            both = xp.stack([p[:, 1] - p[:, 0] for p in (fitted.params, v)], axis=1)
        else:
            both = xp.concat([fitted.params, v], axis=1)
        if both.shape[0] > fitted.n_features:
            motion = Motion(both[:-1, :], both[-1, :], K)
        else:
            motion = Motion(both, xp.zeros_like(both[0, :]), K)
        return Direction(motion, fitted.class_weights, constant, solution)

    def solved_by(self, solver: Solver) -> FirstOrder:
        return replace(self, solver=solver) if self.solver == "auto" else self

    def known(self, fitted: Fitted, goal: Goal) -> Float[NDArray[Any], "n l"]:
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
        rows, n_batches, size = batch_rows(fitted, X_batches)
        per_label = self.prepare(fitted, goal)(rows).per_label
        xp = namespace(per_label)
        per_label = xp.reshape(per_label, (n_batches, size, fitted.n_classes))
        codes = batch_codes(fitted, labels, size)
        total: Any = 0.0
        for j in range(size):
            total = total + xp.take(per_label[:, j, :], like(codes[:, j], per_label), axis=1)
        return total


@dataclass(frozen=True)
class Moving(Scorer):
    """The goal's direction for a model that is not linear: a forward-mode pass over rows."""

    fitted: Fitted
    moving: Callable[[Rows], tuple[Array, Array]]
    constant: float
    report: Solution

    def __call__(self, rows: Rows) -> Scored:
        logits, motion = self.moving(rows)
        proba = self.fitted.loss.proba(logits)
        per_label = self.fitted.loss.along(proba, motion)
        if self.fitted.class_weights is not None:
            per_label = per_label * astype(self.fitted.class_weights, per_label.dtype)
        return Scored(per_label + self.constant if self.constant else per_label, proba)


@dataclass(frozen=True)
class Direction(Scorer):
    """Scorer by one product with [Θ | V] for all labels; holds no rows, so it is cheap to send."""

    motion: Motion
    class_weights: Float[Array, " k"] | None
    constant: float
    report: Solution

    def __call__(self, rows: Rows) -> Scored:
        per_label, proba = self.motion.tables(rows)
        if self.class_weights is not None:
            per_label = per_label * astype(self.class_weights, per_label.dtype)
        return Scored(per_label + self.constant if self.constant else per_label, proba)

    def under(self, resolver: Resolver, look_ahead: LookAhead) -> GoalRule:
        plain = self.class_weights is None
        if plain and resolver.operator.statistic in STATISTICS:
            return Reduced(self, resolver, look_ahead)
        # To first order all rows have one expectation under the model's own prediction (Remark 1).
        constant = plain and resolver.operator == Expected(Predicted())
        return GoalRule(self, resolver, look_ahead, constant=constant)


@dataclass(frozen=True, eq=False)
class Reduced(GoalRule):
    """A statistic of first-order utilities, in one pass and without a table of them."""

    scorer: Direction
    parallel = True

    def scores(self, rows: Candidates) -> RowScores:
        constant, statistic = self.scorer.constant, str(self.resolver.operator.statistic)
        values = self.scorer.motion.reduced(rows.X, statistic)
        return RowScores(values + constant if constant and statistic != "spread" else values)

    def on(self, convert: Callable[[Any], Any]) -> Reduced:
        motion = self.scorer.motion
        there = replace(motion, both=convert(motion.both), constant=convert(motion.constant))
        return replace(self, scorer=replace(self.scorer, motion=there), look_ahead=None)


STATISTICS = ("mean", "min", "max", "spread")
"""Statistics of `Motion.reduced` over the labels; "spread" is the standard deviation under p."""


@dataclass(frozen=True)
class Motion:
    """Map from rows to logits and their motion: [Θ | V] without intercepts, and the intercepts."""

    both: Float[Array, "d c"]
    constant: Float[Array, " c"]
    n_classes: int

    def tables(self, rows: Rows) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
        """Return the utilities of every label and the predictions, both (n, K)."""
        with np.errstate(invalid="ignore", over="ignore"):  # told by the scores
            parts = [self._table(moved + c[:, None]) for moved, c in self._moved(rows)]
        return stacked([u for u, _ in parts]), stacked([p for _, p in parts])

    def reduced(self, rows: Rows, statistic: str) -> Float[Array, " n"]:
        """Return one of `STATISTICS` of every row's utilities, without a table of them."""
        if not isinstance(rows, np.ndarray) and gpu.usable(rows):
            return self._on_gpu(rows, statistic)
        resolve = _binary if self.n_classes == 2 else _several
        with np.errstate(invalid="ignore", over="ignore"):  # told by the scores
            parts = [resolve(moved, c, statistic) for moved, c in self._moved(rows)]
        return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts)

    def _on_gpu(self, rows: Rows, statistic: str) -> Float[Array, " n"]:
        both, constant = astype(self.both, rows.dtype), astype(self.constant, rows.dtype)
        if self.n_classes == 2:
            return gpu.binary(rows, both, constant, statistic)
        size = _resident(both)
        xp = namespace(rows)
        parts = []
        for start in range(0, rows.shape[0], size):
            moved = xp.addmm(constant, rows[start : start + size, :], both)
            parts.append(gpu.several(moved, self.n_classes, statistic))
        return parts[0] if len(parts) == 1 else xp.concat(parts)

    def _table(self, moved: Float[Array, "c n"]) -> tuple[Array, Array]:
        xp = namespace(moved)
        if self.n_classes == 2:
            p, t = _sigmoid(moved[0, :]), moved[1, :]
            rest = _sigmoid(-moved[0, :])
            return xp.stack([p * t, -rest * t]).T, xp.stack([rest, p]).T
        f, s = moved[: self.n_classes, :], moved[self.n_classes :, :]
        p = softmax(f, axis=0)
        return (xp.sum(p * s, axis=0) - s).T, p.T

    def _moved(self, rows: Rows) -> Iterator[tuple[Float[Array, "c n"], Float[Array, " c"]]]:
        """Return rows times [Θ | V], chunk by chunk, and the constants still to be added."""
        both = astype(self.both, rows.dtype)
        constant = astype(self.constant, rows.dtype)
        plain, total = array_api_compat.is_numpy_array(rows), rows.shape[0]
        size = chunk_rows(self.n_classes) if plain or is_sparse(rows) else _resident(both)
        left = np.ascontiguousarray(both.T) if plain else None
        # Allocating at every chunk would cost as much as the product.
        buffer = np.empty((both.shape[1], min(size, total)), dtype=rows.dtype) if plain else None
        for start in range(0, total, size):
            part = rows[start : min(start + size, total), :]
            if left is None or buffer is None:
                yield (part @ both).T, constant
            elif self.n_classes == 2:
                yield two_lines(left, part), constant
            else:
                if part.shape[0] != buffer.shape[1]:
                    buffer = np.empty((both.shape[1], part.shape[0]), dtype=rows.dtype)
                yield np.matmul(left, part.T, out=buffer), constant


def _resident(both: Array) -> int:
    """Return rows per chunk on an accelerator: products large enough to fill it."""
    return max(1024, 2**28 // int(both.shape[1]))


def _sigmoid(x: Array) -> Array:
    xp = namespace(x)
    small = xp.exp(-xp.abs(x))
    return xp.where(x >= 0.0, xp.ones_like(x), small) / (1.0 + small)


def _binary(
    moved: Float[Array, "2 n"], constant: Float[Array, " 2"], statistic: str
) -> Float[Array, " n"]:
    """Return a statistic of the utilities p t and (p - 1) t."""
    xp = namespace(moved)
    delta, t = moved[0, :] + constant[0], moved[1, :] + constant[1]
    if statistic == "spread":
        # √(p (1 - p)) by one exponential, without cancellation.
        half = xp.exp(-0.5 * xp.abs(delta))
        return half / (1.0 + half * half) * xp.abs(t)
    p = _sigmoid(delta)
    if statistic == "mean":
        return (p - 0.5) * t
    first, second = p * t, -_sigmoid(-delta) * t
    return xp.minimum(first, second) if statistic == "min" else xp.maximum(first, second)


def _several(
    moved: Float[Array, "kk n"], constant: Float[Array, " kk"], statistic: str
) -> Float[Array, " n"]:
    """Return a statistic of the utilities ⟨p, s⟩ - s_k."""
    xp = namespace(moved)
    K = moved.shape[0] // 2
    if kernels and isinstance(moved, np.ndarray):
        f, out = moved[:K], np.empty_like(moved[0])
        # NumPy's exponential is vectorised, the compiler's is not.
        kernels["shift"](f, constant)
        kernels["resolved"](
            np.exp(f, out=f), moved[K:], constant[K:], STATISTICS.index(statistic), out
        )
        return out
    moved = moved + constant[:, None]
    f, s = moved[:K, :], moved[K:, :]
    weights = xp.exp(f - xp.max(f, axis=0))
    total = xp.sum(weights, axis=0)
    mean = xp.sum(weights * s, axis=0) / total
    if statistic == "spread":
        gap = s - mean
        return xp.sqrt(xp.sum(weights * gap * gap, axis=0) / total)
    if statistic == "mean":
        return mean - xp.mean(s, axis=0)
    return mean - (xp.max(s, axis=0) if statistic == "min" else xp.min(s, axis=0))

"""Our utility beyond first order: the new row's own loss exact, the rest to second order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, namespace, rows_at
from goalward.core.threads import in_threads
from goalward.errors import BadParameter
from goalward.goals import Goal
from goalward.models import Fitted
from goalward.solvers import Solution, Solver, named
from goalward.solvers.inverse import rows_at_once
from goalward.utility.added_rows import Window
from goalward.utility.goal_curvature import GoalCurvature
from goalward.utility.implicit_slopes import Equations, implicit_slopes
from goalward.utility.labelings import batches
from goalward.utility.neighbours import Neighbours
from goalward.utility.retrain import CorrectedModels
from goalward.utility.scorer import Scored, Scorer
from goalward.utility.utility import Utility

__all__ = ["ImplicitStep"]


@dataclass(frozen=True)
class ImplicitStep(Utility):
    """Δτ with the new row's own loss exact and everything else to second order.

    Where leverages are large (few labels, weak penalty) first order over-estimates, and
    under the model's own prediction it is vacuous; this stays close to retraining at the
    price of a few matrix products. The error falls like n⁻³, first order's like n⁻².

    Parameters
    ----------
    solver
        For the goal's direction: "auto", "cholesky", "dual", "cg" or a solver object.
    exact_goal
        Evaluate the goal at the moved logits of its rows instead of to second order:
        dearer, for short lists and for goals that bend a lot, such as Fisher. Batches
        always do.
    corrections
        Steps towards the retrained model after the implicit one, each with an exact line search; the
        goal is evaluated at the end. One serves moderate penalties, three where the penalty is weak
        or labels surprise. `Retrain` takes the same steps until nothing moves.
    n_jobs
        Threads; None is 1, -1 all cores.

    Examples
    --------
    >>> from goalward.testing import problem
    >>> task = problem(n_classes=3)
    >>> ImplicitStep()(task.fitted, task.goal, task.X_pool[:2]).shape
    (2, 3)
    """

    solver: str | Solver = field(default="auto", kw_only=True)
    exact_goal: bool = field(default=False, kw_only=True)
    corrections: int = field(default=0, kw_only=True)
    n_jobs: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.corrections, bool) or self.corrections not in range(100):
            raise BadParameter(
                f"corrections={self.corrections!r}; a whole number from 0 to 99 was expected. Use 1, or 3 "
                "where the penalty is weak."
            )

    def prepare(self, fitted: Fitted, goal: Goal) -> _Stepper | CorrectedModels:
        """Return the utility with its direction, inverse and curvatures made."""
        neighbours = Neighbours.of(fitted, goal)
        if self.corrections:
            return CorrectedModels(neighbours, self.n_jobs, corrections=self.corrections)
        solve = named(self.solver).prepare(neighbours.fitted.hessian)
        solution = solve(goal.gradient(neighbours.fitted))
        v = -solution.value
        curvature = GoalCurvature.of(neighbours, v, None if self.exact_goal else solve)
        return _Stepper(self, neighbours, curvature, v @ neighbours.base.Q, solution)

    def known(self, fitted: Fitted, goal: Goal) -> Float[NDArray[Any], "n l"]:
        """Return Δτ of other labels of the labelled rows by Newton's step, with its corrections."""
        neighbours = Neighbours.of(fitted, goal)
        return CorrectedModels(neighbours, self.n_jobs, corrections=1 + self.corrections).known()

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return Δτ of each batch by the joint step of its rows, the goal evaluated."""
        stepper = replace(self, exact_goal=True).prepare(fitted, goal)
        values = [stepper.window(*job) for job in batches(fitted, X_batches, labels)]
        return namespace(values[0]).stack(values)


@dataclass(frozen=True)
class _Stepper(Scorer):
    """Neighbours of a model by the implicit step."""

    options: ImplicitStep
    neighbours: Neighbours
    curvature: GoalCurvature
    direction: Float[Array, "p c"]
    report: Solution

    def __call__(self, rows: Rows) -> Scored:
        """Return Δτ of every row under every label, and the rows' leverages tr(ΛM)."""
        step = rows_at_once(*self.neighbours.base.start.shape)
        parts = [
            self._block(rows_at(rows, slice(first, first + step)))
            for first in range(0, rows.shape[0], step)
        ]
        if len(parts) == 1:
            return parts[0]
        xp = namespace(parts[0].per_label)
        return Scored(*(xp.concat(list(column), axis=0) for column in zip(*parts, strict=True)))

    def _block(self, rows: Rows) -> Scored:
        fitted, base = self.neighbours.fitted, self.neighbours.base
        proba = fitted.loss.proba(fitted.logits_of(rows))
        rows = self.neighbours.rows(rows)
        Z = base.coordinates(rows)
        xp = namespace(Z)
        M = base.inverse.leverage(rows, Z)
        f = Z @ base.start
        r = self._slopes(f, M, self.neighbours.answers(rows))
        if self.options.exact_goal:
            utility = self._evaluated(rows, Z, r)
        else:
            s = self.neighbours.model.jvp(rows, self.direction)
            utility = xp.sum(s[:, :, None] * r, axis=1) + _half(self.curvature(rows, Z), r)
        blocks = fitted.loss.blocks(fitted.loss.proba(f @ base.Q.T))
        return Scored(utility, proba, xp.sum(blocks * M, axis=(1, 2)))

    def _slopes(
        self, f: Float[Array, "n c"], M: Float[Array, "n c c"], targets: Float[Array, "_ c l"]
    ) -> Float[Array, "n c l"]:
        """Return the rows' slopes where the model will be, by threads."""
        fitted, Q = self.neighbours.fitted, self.neighbours.base.Q
        xp = namespace(f)
        L, shared = fitted.n_answers, targets.shape[0] == 1
        weights = xp.broadcast_to(fitted.label_weights, (1, Q.shape[1], L))
        # Blocks that stay in a core's cache: 1.6 times faster than the whole at once.
        step = max(1, 2**17 // (Q.shape[1] * L))
        parts = [slice(i, i + step) for i in range(0, f.shape[0], step)]
        jobs = []
        for part in parts:
            t = targets if shared else rows_at(targets, part)
            some = rows_at(f, part), rows_at(M, part)
            jobs.append((Equations(*some, t, weights, Q, fitted.loss),))
        return xp.concat(in_threads(implicit_slopes, jobs, self.options.n_jobs), axis=0)

    def _evaluated(self, rows: Rows, Z: Array, r: Float[Array, "n c l"]) -> Float[Array, "n l"]:
        """Return the goal at the moved logits, plus the labelled rows' third derivative."""
        inverse = self.neighbours.base.inverse
        xp = namespace(Z)
        parts = []
        first = 0
        for some in self.neighbours.chunks(rows):
            last = first + some.shape[0]
            Z_some, added = self.neighbours.singles(some)
            slopes = r[first:last, :, :]
            flat = xp.reshape(xp.permute_dims(slopes, (1, 0, 2)), added.targets.shape)
            inside = _half(inverse.form(self.curvature.third, Z_some), slopes)
            change = self.neighbours.pulled(added, flat, some, Z_some)
            parts.append(xp.reshape(change, inside.shape) + inside)
            first = last
        return xp.concat(parts, axis=0)

    def window(self, rows: Rows, codes: NDArray[Any]) -> Float[Array, " l"]:
        """Return Δτ of one batch under each of the labelings `codes` (L, b)."""
        return self.neighbours.windows(rows, codes, self._window)

    def _window(
        self, added: Window, rows: Rows, Z: Float[Array, "b q"], codes: NDArray[Any]
    ) -> Float[Array, " l"]:
        r = added.slopes(self.neighbours.base)
        change = self.neighbours.pulled(added, r, rows, Z)
        third = self.neighbours.base.inverse.joint_form(self.curvature.third, Z)
        flat = namespace(r).reshape(r, (1, third.shape[0], -1))
        return change + _half(third[None, :, :], flat)[0, :]


def _half(A: Float[Array, "n s s"], r: Float[Array, "n s l"]) -> Float[Array, "n l"]:
    """Return ½ rᵀAr of every row and label."""
    xp = namespace(r)
    return 0.5 * xp.sum(r * xp.matmul(A, r), axis=1)

"""Our utility beyond first order: the new row's own loss exact, the rest to second order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, astype, dense, like, namespace, rows_at, scale_rows
from goalward.core.threads import in_threads
from goalward.errors import BadParameter, Unsupported
from goalward.goals import Goal, Kernel
from goalward.models import Fitted
from goalward.models.trust import refuse_flat
from goalward.solvers import Solution, Solve, Solver, named
from goalward.solvers import inverse as inverses
from goalward.solvers.cholesky import dense_curvature
from goalward.solvers.inverse import rows_at_once
from goalward.utility.added_rows import Window
from goalward.utility.implicit_slopes import Equations, implicit_slopes
from goalward.utility.labelings import batches
from goalward.utility.neighbours import Neighbours
from goalward.utility.retrain import CorrectedModels
from goalward.utility.utility import Scored, Scorer, Utility

WIDEST = 4096
"""Features up to which a d x d matrix is made for two classes."""

LEAK = 1e-3
"""Share of a curvature that other rows may have before a goal counts as coupled; second
differences of a goal of the user's own are noisy to about 1e-5."""


@dataclass(frozen=True)
class GoalCurvature:
    """N of the neighbours of a model, ready for rows.

    Parameters
    ----------
    inside
        (qc, qc): 𝓗⁻¹ S 𝓗⁻¹ in the coordinates, S the curvature of goal and labelled rows.
    third
        The part of it that is the labelled rows'.
    blocks
        QᵀW_rowsQ of the goal's rows, by term, for what lies outside the coordinates.
    couplings
        Of the terms whose rows depend on one another.
    """

    neighbours: Neighbours
    inside: Float[Array, "qc qc"] = field(repr=False)
    third: Float[Array, "qc qc"] = field(repr=False)
    blocks: list[Float[Array, "_ c c"]] = field(repr=False)
    couplings: list[RowCoupling]

    @classmethod
    def of(
        cls, neighbours: Neighbours, v: Float[Array, "p k"], solve: Solve | None
    ) -> GoalCurvature:
        """Return the curvature along the goal's direction v.

        Without `solve` that of the labelled rows alone: for a goal that is evaluated instead.
        """
        refuse_flat(neighbours.fitted, "ImplicitStep()")
        base, matrix = neighbours.base, neighbours.base.inverse.matrix
        none = namespace(v).zeros_like(base.coordinates.ridge)
        third = dense_curvature(base.B, _third_blocks(neighbours, v), none)
        blocks: list[Array] = []
        couplings: list[RowCoupling] = []
        if solve is not None:
            blocks = [_goal_blocks(neighbours, i) for i in range(len(neighbours.terms))]
            couplings = couplings_of(neighbours, solve)
        own = sum(
            dense_curvature(Z, W, none)
            for Z, W in zip(neighbours.goal_coordinates, blocks, strict=solve is not None)
        )
        inside, third = (matrix @ S @ matrix for S in (third + own, third))
        return cls(neighbours, inside, third, blocks, couplings)

    def __call__(self, rows: Rows, Z: Float[Array, "n q"]) -> Float[Array, "n c c"]:
        """Return N of every row."""
        neighbours = self.neighbours
        N = neighbours.base.inverse.form(self.inside, Z)
        for coupling in self.couplings:
            N = N + coupling(neighbours, rows)
        if neighbours.base.coordinates.basis is None:
            return N
        if self._pays(*Z.shape) and self._link is not None:
            return N + self._outside_binary(rows, Z, self._link)
        for term, Z_goal, W in zip(
            neighbours.terms, neighbours.goal_coordinates, self.blocks, strict=True
        ):
            N = N + self._outside(rows, Z, term.X, Z_goal, W)
        return N

    def _outside(
        self, rows: Rows, Z: Array, X_goal: Rows, Z_goal: Array, W: Float[Array, "m c c"]
    ) -> Float[Array, "n c c"]:
        """Return what the goal's rows add outside the coordinates, by their products with the rows.

        A goal row moves by G = z_gᵀ𝓗⁻¹z + (e/ρ) I with e its product with the row outside:
        GᵀWG less the inside part is (e/ρ)(W G₀ + G₀ᵀ W) + (e/ρ)² W, summed over goal rows.
        """
        base = self.neighbours.base
        xp = namespace(Z)
        (n, q), c = Z.shape, W.shape[1]
        square: Any = 0.0
        first: Any = 0.0
        step = max(1, inverses.LARGEST_BLOCK // (c * c * q))
        for start in range(0, W.shape[0], step):
            part = slice(start, min(start + step, W.shape[0]))
            W_part, Z_part = W[part, :, :], Z_goal[part, :]
            E = base.coordinates.outside(rows, Z, rows_at(X_goal, part), Z_part)
            assert E is not None
            E = E / base.rho
            square = square + (E * E) @ xp.reshape(W_part, (-1, c * c))
            # Σ_g e W_g ⊗ z_g, to meet 𝓗⁻¹z below.
            weighted = W_part[:, :, :, None] * Z_part[:, None, None, :]
            first = first + E @ xp.reshape(weighted, (-1, c * c * q))
        # y of a row by contrast of the goal's row, coordinate, contrast of the row's own.
        y = xp.permute_dims(base.inverse.pulled(Z), (0, 3, 2, 1))
        moved = xp.reshape(y, (n, c * q, c))
        cross = xp.matmul(xp.reshape(first, (n, c, c * q)), moved)
        return xp.reshape(square, (n, c, c)) + cross + xp.permute_dims(cross, (0, 2, 1))

    def _pays(self, n: int, q: int) -> bool:
        """Return whether `_link` saves products: made with m d², and d + q for a row in place of m."""
        m, d = sum(W.shape[0] for W in self.blocks), self.neighbours.terms[0].X.shape[1]
        return bool(n * (m - d - q) > m * d)

    @cached_property
    def _span(self) -> Float[Array, "d r"] | None:
        """The directions of the coordinates in features."""
        coordinates = self.neighbours.base.coordinates
        if coordinates.rows is None or coordinates.rows.shape[1] > WIDEST:
            return None
        return dense(coordinates.rows.T @ coordinates.basis)

    @cached_property
    def _link(self) -> Float[Array, "d dq"] | None:
        """For two classes: what turns a row into its part of N outside the coordinates, made once.

        [(I - EEᵀ) Σ w gᵀg (I - EEᵀ)/ρ² | (2/ρ)(I - EEᵀ) Σ w g z_gᵀ 𝓗⁻¹], E the span: the cost of a
        pool does not grow with rows times goal rows then. Single precision is enough for a
        second-order term, and twice as fast.
        """
        base, E = self.neighbours.base, self._span
        if base.start.shape[1] > 1 or E is None:
            return None
        xp = namespace(base.start)
        spread: Any = 0.0
        link: Any = 0.0
        for term, Z_goal, W in zip(
            self.neighbours.terms, self.neighbours.goal_coordinates, self.blocks, strict=True
        ):
            w = W[:, 0, 0]
            spread = spread + dense(term.X.T @ scale_rows(term.X, w))
            link = link + dense(term.X.T @ (w[:, None] * Z_goal))
        left = spread - E @ (E.T @ spread)
        outer = (left - (left @ E) @ E.T) / base.rho**2
        link = (link - E @ (E.T @ link)) @ base.inverse.matrix * (2.0 / base.rho)
        return astype(xp.concat([outer, link], axis=1), xp.float32)

    def _outside_binary(
        self, rows: Rows, Z: Array, link: Float[Array, "d dq"]
    ) -> Float[Array, "n 1 1"]:
        """Return the rows' part of N outside the coordinates, in single precision.

        What lies in the span, a common offset above all, is taken off in double precision first:
        it would drown the rest.
        """
        xp = namespace(Z)
        assert self._span is not None
        inside = self.neighbours.base.coordinates.directions(Z) @ self._span.T
        plain = astype(dense(rows) - inside, xp.float32)
        product = plain @ link
        d = link.shape[0]
        own = xp.sum(product[:, :d] * plain, axis=1)
        cross = xp.sum(product[:, d:] * astype(Z, xp.float32), axis=1)
        return astype(own + cross, Z.dtype)[:, None, None]


def _goal_blocks(neighbours: Neighbours, index: int) -> Float[Array, "m c c"]:
    """Return QᵀW_rowsQ for every row of one term of the goal, weighted."""
    term, Z = neighbours.terms[index], neighbours.goal_coordinates[index]
    Q = neighbours.base.Q
    xp = namespace(Z)
    logits = Z @ neighbours.base.start @ Q.T
    bent = _row_curvature(term.kernel, logits, xp.broadcast_to(Q[:, 0], logits.shape))
    columns = [bent(logits, xp.broadcast_to(Q[:, a], logits.shape)) @ Q for a in range(Q.shape[1])]
    return term.weight * xp.stack(columns, axis=2)


def _third_blocks(neighbours: Neighbours, v: Float[Array, "p k"]) -> Float[Array, "n c c"]:
    """Return QᵀTQ for every labelled row."""
    hessian = neighbours.fitted.hessian
    motion = neighbours.model.jvp(hessian.labelled.X, v)
    return hessian.labelled.weights[:, None, None] * neighbours.fitted.loss.third(
        hessian.proba, motion
    )


def _row_curvature(
    kernel: Kernel, logits: Float[Array, "m k"], probe: Float[Array, "m k"]
) -> Callable[[Array, Array], Array]:
    """Return W_rows of a kernel; refuse one that couples rows and does not say how.

    Rows that do not depend on one another bend alike when some of the motions are reversed.
    """
    own: Callable[[Array, Array], Array] | None = getattr(kernel, "own", None)
    if own is not None:
        return own
    xp = namespace(logits)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(logits.shape[0], 1))
    sign = like(signs, logits, dtype=logits.dtype)
    together = kernel.curvature(logits, probe)
    leak = xp.max(xp.abs(kernel.curvature(logits, sign * probe) - sign * together))
    if float(leak) > LEAK * float(xp.max(xp.abs(together))):
        raise Unsupported(
            f"The goal's rows depend on one another ({type(kernel).__name__}), and ImplicitStep() "
            "takes its curvature row by row. Use ImplicitStep(exact_goal=True), FirstOrder() or "
            "Retrain(), or give the kernel the methods of goals.Coupled."
        )
    return kernel.curvature


@dataclass(frozen=True)
class RowCoupling:
    """What one term of the goal adds to N because its rows are coupled.

    Parameters
    ----------
    directions
        𝓗⁻¹ J_gᵀ z_i side by side, each in the K-1 contrasts.
    middle
        C, times the term's weight.
    """

    directions: Float[Array, "p rc"] = field(repr=False)
    middle: Float[Array, "r r"] = field(repr=False)

    def __call__(self, neighbours: Neighbours, rows: Rows) -> Float[Array, "n c c"]:
        """Return Σ_ij C_ij y_i y_jᵀ of every row."""
        xp = namespace(self.middle)
        moved = neighbours.model.jvp(rows, self.directions)
        y = xp.reshape(moved, (moved.shape[0], self.middle.shape[0], -1))
        return xp.matmul(xp.permute_dims(y, (0, 2, 1)), xp.matmul(self.middle, y))


def couplings_of(neighbours: Neighbours, solve: Solve) -> list[RowCoupling]:
    """Return the couplings of the goal's terms that have any."""
    Q, model = neighbours.base.Q, neighbours.model
    found = []
    for term in neighbours.terms:
        coupling = getattr(term.kernel, "coupling", None)
        if coupling is None:
            continue
        vectors, middle = coupling(neighbours.fitted.logits_of(term.X))
        pulled = [model.vjp(term.X, vectors[i, :, :]) for i in range(vectors.shape[0])]
        directions = namespace(Q).concat([solve(g).value @ Q for g in pulled], axis=1)
        found.append(RowCoupling(directions, term.weight * middle))
    return found


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

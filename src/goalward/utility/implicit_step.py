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
from goalward.core.cores import in_threads
from goalward.errors import BadParameter, Unsupported
from goalward.goals import Goal, Kernel, Term
from goalward.models import Fitted
from goalward.solvers import Solution, Solve, Solver, named
from goalward.solvers import inverse as inverses
from goalward.solvers.cholesky import dense_curvature
from goalward.solvers.inverse import rows_at_once
from goalward.utility.implicit_slopes import Equations, implicit_slopes
from goalward.utility.labelings import batches
from goalward.utility.neighbours import Base, Neighbours
from goalward.utility.retrain import CorrectedModels
from goalward.utility.utility import Scored, Scorer, Utility

WIDEST = 4096
"""Features up to which a d x d matrix is made for two classes."""

LEAK = 1e-3
"""Share of the curvature from other rows above which a goal counts as coupled."""


@dataclass(frozen=True)
class GoalCurvature:
    """N of the neighbours of a model.

    `inside` is 𝓗⁻¹ S 𝓗⁻¹ with S the curvature of goal and labelled rows, `third` the labelled rows'
    part, `blocks` QᵀWQ of the goal's rows by term, `couplings` those of dependent rows.
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
        """Return the curvature along v; without `solve` that of the labelled rows only."""
        neighbours.fitted.refuse_flat("ImplicitStep()")
        base, matrix = neighbours.base, neighbours.base.inverse.matrix
        none = namespace(v).zeros_like(base.inverse.coordinates.ridge)
        hessian = neighbours.fitted.hessian
        motion = neighbours.model.jvp(hessian.labelled.X, v)
        bent = base.weights[:, None, None] * base.loss.third(hessian.proba, motion)
        third = dense_curvature(base.B, bent, none)
        blocks: list[Array] = []
        couplings: list[RowCoupling] = []
        if solve is not None:
            pairs = zip(neighbours.terms, neighbours.goal_coordinates, strict=True)
            blocks = [_goal_blocks(base, *pair) for pair in pairs]
            couplings = couplings_of(neighbours, solve)
        own = sum(
            dense_curvature(Z, W, none)
            for Z, W in zip(neighbours.goal_coordinates, blocks, strict=solve is not None)
        )
        inside, third = (matrix @ S @ matrix for S in (third + own, third))
        return cls(neighbours, inside, third, blocks, couplings)

    def __call__(self, rows: Rows, Z: Float[Array, "n q"]) -> Float[Array, "n c c"]:
        neighbours = self.neighbours
        N = neighbours.base.inverse.form(self.inside, Z)
        for coupling in self.couplings:
            N = N + coupling(neighbours, rows)
        if neighbours.base.inverse.coordinates.basis is None:
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
        """Return the goal rows' part of N outside: Σ (e/ρ)(W G₀ + G₀ᵀ W) + (e/ρ)² W."""
        base = self.neighbours.base
        xp = namespace(Z)
        (n, q), c = Z.shape, W.shape[1]
        square: Any = 0.0
        first: Any = 0.0
        step = max(1, inverses.LARGEST_BLOCK // (c * c * q))
        for start in range(0, W.shape[0], step):
            part = slice(start, min(start + step, W.shape[0]))
            W_part, Z_part = W[part, :, :], Z_goal[part, :]
            E = base.inverse.coordinates.outside(rows, Z, rows_at(X_goal, part), Z_part)
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
        """Return whether `_link` is cheaper: m d² once, and d + q instead of m per row."""
        m, d = sum(W.shape[0] for W in self.blocks), self.neighbours.terms[0].X.shape[1]
        return bool(n * (m - d - q) > m * d)

    @cached_property
    def _span(self) -> Float[Array, "d r"] | None:
        coordinates = self.neighbours.base.inverse.coordinates
        if coordinates.rows is None or coordinates.rows.shape[1] > WIDEST:
            return None
        return dense(coordinates.rows.T @ coordinates.basis)

    @cached_property
    def _link(self) -> Float[Array, "d dq"] | None:
        """Return the map from a row to its part of N outside the coordinates, for two classes.

        [(I - EEᵀ) Σ w gᵀg (I - EEᵀ)/ρ² | (2/ρ)(I - EEᵀ) Σ w g z_gᵀ 𝓗⁻¹], E the span.
        Single precision is enough for a second-order term.
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
        """Return the rows' part of N outside; the span is removed in double precision first."""
        xp = namespace(Z)
        assert self._span is not None
        inside = self.neighbours.base.inverse.coordinates.directions(Z) @ self._span.T
        plain = astype(dense(rows) - inside, xp.float32)
        product = plain @ link
        d = link.shape[0]
        own = xp.sum(product[:, :d] * plain, axis=1)
        cross = xp.sum(product[:, d:] * astype(Z, xp.float32), axis=1)
        return astype(own + cross, Z.dtype)[:, None, None]


def _goal_blocks(base: Base, term: Term, Z: Float[Array, "m q"]) -> Float[Array, "m c c"]:
    """Return QᵀW_rowsQ for every row of one term of the goal, weighted."""
    xp, Q = namespace(Z), base.Q
    logits = Z @ base.start @ Q.T
    bent = _row_curvature(term.kernel, logits, xp.broadcast_to(Q[:, 0], logits.shape))
    columns = [bent(logits, xp.broadcast_to(Q[:, a], logits.shape)) @ Q for a in range(Q.shape[1])]
    return term.weight * xp.stack(columns, axis=2)


def _row_curvature(
    kernel: Kernel, logits: Float[Array, "m k"], probe: Float[Array, "m k"]
) -> Callable[[Array, Array], Array]:
    """Return W_rows of a kernel; raise if it couples rows and has no method `own`."""
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
    """Part of N from coupled goal rows, Σ_ij C_ij y_i y_jᵀ: y are `directions`, C is `middle`."""

    directions: Float[Array, "p rc"] = field(repr=False)
    middle: Float[Array, "r r"] = field(repr=False)

    def __call__(self, neighbours: Neighbours, rows: Rows) -> Float[Array, "n c c"]:
        xp = namespace(self.middle)
        moved = neighbours.model.jvp(rows, self.directions)
        y = xp.reshape(moved, (moved.shape[0], self.middle.shape[0], -1))
        return xp.matmul(xp.permute_dims(y, (0, 2, 1)), xp.matmul(self.middle, y))


def couplings_of(neighbours: Neighbours, solve: Solve) -> list[RowCoupling]:
    """Return the couplings of the goal's terms that have any."""
    Q, model = neighbours.base.Q, neighbours.model
    couplings = []
    for term in neighbours.terms:
        coupling = getattr(term.kernel, "coupling", None)
        if coupling is None:
            continue
        vectors, middle = coupling(neighbours.fitted.logits_of(term.X))
        pulled = [model.vjp(term.X, vectors[i, :, :]) for i in range(vectors.shape[0])]
        directions = namespace(Q).concat([solve(g).value @ Q for g in pulled], axis=1)
        couplings.append(RowCoupling(directions, term.weight * middle))
    return couplings


@dataclass(frozen=True)
class ImplicitStep(Utility):
    """Δτ with the new row's own loss exact and everything else to second order.

    Close to retraining also where leverages are large (few labels, weak penalty). The error falls
    like n⁻³, that of first order like n⁻².

    Parameters
    ----------
    solver
        For the goal's direction: "auto", "cholesky", "dual", "cg" or a solver object.
    exact_goal
        Evaluate the goal at the moved logits instead of to second order; batches always do.
    corrections
        Steps towards the retrained model after the implicit one: 1 to 3 are usual.
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
                f"corrections must be a whole number from 0 to 99, got {self.corrections!r}. Use 1, or 3 "
                "where the penalty is weak."
            )

    def prepare(self, fitted: Fitted, goal: Goal) -> _Stepper | CorrectedModels:
        neighbours = Neighbours.of(fitted, goal)
        if self.corrections:
            return CorrectedModels(neighbours, self.n_jobs, corrections=self.corrections)
        solve = named(self.solver).prepare(neighbours.fitted.hessian)
        solution = solve(goal.gradient(neighbours.fitted))
        v = -solution.value
        curvature = GoalCurvature.of(neighbours, v, None if self.exact_goal else solve)
        return _Stepper(self, neighbours, curvature, v @ neighbours.base.Q, solution)

    def known(self, fitted: Fitted, goal: Goal) -> Float[NDArray[Any], "n l"]:
        neighbours = Neighbours.of(fitted, goal)
        return CorrectedModels(neighbours, self.n_jobs, corrections=1 + self.corrections).known()

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
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
        step = rows_at_once(*self.neighbours.base.start.shape)
        starts = range(0, rows.shape[0], step)
        parts = [self._block(rows_at(rows, slice(i, i + step))) for i in starts]
        xp = namespace(parts[0].per_label)
        return Scored(*(xp.concat(list(column), axis=0) for column in zip(*parts, strict=True)))

    def _block(self, rows: Rows) -> Scored:
        fitted, base = self.neighbours.fitted, self.neighbours.base
        proba = fitted.loss.proba(fitted.logits_of(rows))
        rows = like(rows, self.neighbours.base.Q, dtype=self.neighbours.base.Q.dtype)
        Z = base.inverse.coordinates(rows)
        xp = namespace(Z)
        M = base.inverse.leverage(rows, Z)
        f = Z @ base.start
        r = self._slopes(f, M, self.neighbours.answers(rows))
        if self.options.exact_goal:
            utility = self._evaluated(rows, r)
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
        shape = (*f.shape, fitted.n_answers)
        targets, weights = (xp.broadcast_to(x, shape) for x in (targets, fitted.label_weights))
        equations = Equations(f, M, targets, weights, Q, fitted.loss)
        # Blocks that fit a core's cache are 1.6 times faster.
        step = max(1, 2**17 // (shape[1] * shape[2]))
        jobs = [(equations.only(slice(i, i + step)),) for i in range(0, shape[0], step)]
        return xp.concat(in_threads(implicit_slopes, jobs, self.options.n_jobs), axis=0)

    def _evaluated(self, rows: Rows, r: Float[Array, "n c l"]) -> Float[Array, "n l"]:
        """Return the goal at the moved logits, plus the labelled rows' third derivative."""
        xp, parts, first = namespace(r), [], 0
        for some in self.neighbours.chunks(rows):
            added, last = self.neighbours.singles(some), first + some.shape[0]
            slopes = r[first:last, :, :]
            flat = xp.reshape(xp.permute_dims(slopes, (1, 0, 2)), added.targets.shape)
            third = self.neighbours.base.inverse.form(self.curvature.third, added.Z[:, 0, :])
            change = self.neighbours.change(added, *added.pulled_by(flat))
            parts.append(xp.reshape(change, (last - first, -1)) + _half(third, slopes))
            first = last
        return xp.concat(parts, axis=0)

    def window(self, rows: Rows, codes: NDArray[Any]) -> Float[Array, " l"]:
        inverse, parts = self.neighbours.base.inverse, []
        for added, _ in self.neighbours.windows(rows, codes):
            r = added.slopes()
            change = self.neighbours.change(added, *added.pulled_by(r))
            third = inverse.joint_form(self.curvature.third, added.Z[0, ...])
            flat = namespace(r).reshape(r, (1, third.shape[0], -1))
            parts.append(change + _half(third[None, :, :], flat)[0, :])
        return namespace(parts[0]).concat(parts)


def _half(A: Float[Array, "n s s"], r: Float[Array, "n s l"]) -> Float[Array, "n l"]:
    """Return ½ rᵀAr of every row and label."""
    xp = namespace(r)
    return 0.5 * xp.sum(r * xp.matmul(A, r), axis=1)

"""The truth: the goal after really retraining with each label, for all of them at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace, put_at, rows_at, to_numpy
from goalward.core.threads import in_threads
from goalward.errors import NotConverged
from goalward.goals.goal import Goal
from goalward.models.fitted import Fitted
from goalward.solvers.auto import Auto
from goalward.solvers.conjugate_gradient import ConjugateGradient
from goalward.utility.added_rows import Added, Singles, Window, times
from goalward.utility.descent import FINE, Point, Slope, Walk, descend, first_decrement
from goalward.utility.labelings import batches
from goalward.utility.neighbours import ChangedRows, Neighbours, relative_weights
from goalward.utility.one_by_one import OneByOne, labelled_too, value_of
from goalward.utility.utility import ROUNDING, Certified, Scored, Scorer, Utility


@dataclass(frozen=True)
class Certificate:
    """What the certificates of all neighbours of a model share.

    Parameters
    ----------
    reach
        κ of the labelled rows.
    bends
        For each term of the goal, how much each of its rows bends at most, per squared range; None
        where its kernel does not say.
    inside
        b of motions inside the coordinates.
    """

    neighbours: Neighbours
    reach: float
    bends: list[Float[Array, " _"]] | None
    inside: float

    @classmethod
    def of(cls, neighbours: Neighbours) -> Certificate:
        """Return what is known before a row is looked at."""
        base = neighbours.base
        matrix = base.inverse.matrix
        reach = float(np.sqrt(_ranges(base.inverse.form(matrix, base.B), base.Q).max()))
        bends: list[Array] | None = []
        for term, Z in zip(neighbours.terms, neighbours.goal_coordinates, strict=True):
            bound = getattr(term.kernel, "bend_bound", None)
            if bound is None or bends is None:
                bends = None
                continue
            bends.append(abs(term.weight) * bound(Z.shape[0], base.Q.shape[0], Z))
        inside = 0.0 if bends is None else _largest(neighbours, bends)
        return cls(neighbours, reach, bends, inside)

    def __call__(
        self,
        added: Singles,
        psi: Array,
        a: Array,
        rows: Rows,
        Z: Float[Array, "n q"],
        before: NDArray[Any],
    ) -> NDArray[Any]:
        """Return how far the goal of every model can be from its value at the model's optimum.

        `before` is the change of the goal where the models are.
        """
        base = self.neighbours.base
        if self.bends is None:
            return np.full(psi.shape[2], np.inf)
        walk = Walk(base, added, Point.of(base, added, psi, a))
        slope = walk.slope()
        z, z_own = slope.preconditioned(base, added, walk.bend)
        left, size = self._left(walk, slope, z, z_own)
        after, pull = self._goal(added, psi - z, a - z_own, rows, Z)
        steep = to_numpy(_norm(pull, walk))
        outside = self._outside(added, rows, Z)
        bound = np.abs(to_numpy(after) - before) + steep * left
        bound = bound + 0.5 * (self.inside + outside) * left * left
        scale = ROUNDING * (np.abs(before) + steep * size)
        scale = scale + 1e-13 * abs(self.neighbours.before)
        return np.where(np.isfinite(left), bound + scale, np.inf)

    def _left(
        self, walk: Walk, slope: Slope, z: Array, z_own: Array
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a bound of ‖e‖_P, infinite where there is none, and ν."""
        base, rows, (law, own_law) = walk.base, walk.rows, walk.laws
        squared = to_numpy(slope.along(base, rows, z, z_own))
        nu = np.sqrt(np.maximum(squared, 0.0))
        step = Point.of(base, rows, z, z_own)
        pulled = base.weights[:, None, None] * base.loss.bent(law, step.f)
        own = rows.weights * base.lowered(base.loss.bent(own_law, step.own))
        inside = base.lowered(times(base.B.T, pulled)) + rows.pull(own)
        g = slope.g - inside - base.coordinates.ridge[:, None, None] * z
        rest = Slope(g, slope.own - own / base.rho - z_own, base.raised(g), slope.decrement)
        bent = to_numpy(rest.along(base, rows, z, z_own))
        in_H = np.sqrt(np.maximum(squared - bent, 0.0))
        c = np.minimum(1.0, to_numpy(base.loss.least_ratio(law, base.law)))
        reach = np.maximum(self.reach, self._own_reach(walk))
        with np.errstate(all="ignore"):
            t = reach * nu / c
            R = np.maximum(-np.log1p(-t), 1e-8)
            phi, psi = -np.expm1(-R) / R, np.expm1(R) / R - 1.0
            left = (psi * in_H + to_numpy(_norm(rest, walk)) / np.sqrt(c)) / phi / np.sqrt(c)
        return np.where(t < 1.0 - 1e-9, left, np.inf), nu

    def _own_reach(self, walk: Walk) -> NDArray[Any]:
        """Return κ of each model's own row: of its leverage once its curvature is counted."""
        base, rows = walk.base, walk.rows
        assert isinstance(rows, Singles)
        xp = namespace(rows.leverage)
        n_labels = rows.targets.shape[2] // rows.leverage.shape[0]
        D = base.loss.law_blocks(walk.laws[1])[0, ...] * rows.weights[0, 0, :][:, None, None]
        M = xp.repeat(rows.leverage, n_labels, axis=0)
        eye = xp.eye(M.shape[1], dtype=M.dtype, device=M.device)
        reach: NDArray[Any] = np.sqrt(_ranges(xp.linalg.solve(eye + xp.matmul(M, D), M), base.Q))
        return reach

    def _goal(
        self, added: Singles, psi: Array, a: Array, rows: Rows, Z: Float[Array, "n q"]
    ) -> tuple[Float[Array, " m"], Slope]:
        """Return the change of τ in every model, and ∇τ there: inside, and along its row's own way."""
        base = self.neighbours.base
        xp = namespace(psi)
        inside, own = xp.zeros_like(psi), xp.zeros_like(a)
        change: Any = -self.neighbours.before
        for term, Z_goal, logits, E in self.neighbours.goal_logits(psi, a, rows, Z):
            change = change + term.weight * term.kernel.value(logits)
            u = term.weight * term.kernel.cotangent(logits)
            u = xp.permute_dims(u @ base.Q, (1, 2, 0))
            inside = inside + times(Z_goal.T, u)
            if E is not None:
                by_row = xp.reshape(u, (*u.shape[:2], E.shape[1], -1))
                own = own + xp.reshape(xp.sum(E[:, None, :, None] * by_row, axis=0), own.shape)
        # In the units of a slope: the own direction's metric is ρ S.
        squares = xp.repeat(added.S, own.shape[2] // added.S.shape[0], axis=0)
        tiny = xp.full_like(squares, 1e-12)
        own = xp.where(squares > tiny, own / (base.rho * xp.maximum(squares, tiny)), 0.0 * own)
        return change, Slope(inside, own, base.raised(inside), xp.zeros_like(squares))

    def _outside(self, added: Singles, rows: Rows, Z: Float[Array, "n q"]) -> NDArray[Any]:
        """Return b of motions along each row's own direction."""
        base = self.neighbours.base
        assert self.bends is not None
        total = np.zeros(rows.shape[0])
        pairs = zip(
            self.neighbours.terms, self.neighbours.goal_coordinates, self.bends, strict=True
        )
        for term, Z_goal, bend in pairs:
            E = base.coordinates.outside(term.X, Z_goal, rows, Z)
            if E is not None:
                weighted = np.sum(2.0 * to_numpy(bend)[:, None] * to_numpy(E) ** 2, axis=0)
                total += weighted / np.maximum(base.rho * to_numpy(added.S), 1e-12)
        return np.repeat(total, added.targets.shape[2] // len(total))


def _norm(slope: Slope, walk: Walk) -> Float[Array, " m"]:
    """Return ‖·‖_P⁻¹ of a gradient."""
    xp = namespace(slope.g)
    squared = slope.along(
        walk.base, walk.rows, *slope.preconditioned(walk.base, walk.rows, walk.bend)
    )
    return xp.sqrt(xp.maximum(squared, xp.zeros_like(squared)))


def _ranges(M: Float[Array, "n c c"], Q: Float[Array, "k c"]) -> NDArray[Any]:
    """Return the largest variance of a difference of two logits, row by row."""
    full = to_numpy(namespace(M).matmul(namespace(M).matmul(Q, M), Q.T))
    own = np.diagonal(full, axis1=1, axis2=2)
    found: NDArray[Any] = (own[:, :, None] + own[:, None, :] - 2.0 * full).max(axis=(1, 2))
    return found


def _largest(neighbours: Neighbours, bends: list[Array]) -> float:
    """Return b inside the coordinates: the largest eigenvalue of Σ 2βJᵀJ in the metric of 𝓗₀.

    The squared range of a vector is at most twice its squared length.
    """
    base = neighbours.base
    matrix = to_numpy(base.inverse.matrix)
    c = base.start.shape[1]
    pairs = zip(neighbours.goal_coordinates, bends, strict=True)
    gram: Any = sum(2.0 * to_numpy((Z * beta[:, None]).T @ Z) for Z, beta in pairs)
    root = np.linalg.cholesky(matrix)
    return float(np.linalg.eigvalsh(root.T @ np.kron(gram, np.eye(c)) @ root)[-1])


# All models that add a row, or a batch of rows, under each label: moved, and the goal there.


@dataclass(frozen=True)
class MovedModels(Scorer):
    """Neighbours of a model, moved to where their added rows pull them.

    Parameters
    ----------
    n_jobs
        Threads; None is 1, -1 all cores.
    """

    neighbours: Neighbours
    n_jobs: int | None
    report: None = None
    certifies: ClassVar[bool] = True

    @abstractmethod
    def moved(self, added: Added) -> tuple[Array, Array, NDArray[Any]]:
        """Return Ψ and a of every model, and which of them may be believed."""

    def __call__(self, rows: Rows) -> Scored:
        """Return Δτ of every row under every label."""
        fitted = self.neighbours.fitted
        proba = fitted.loss.proba(fitted.logits_of(rows))
        jobs = [(part,) for part in self.neighbours.chunks(self.neighbours.rows(rows))]
        values = in_threads(self.singles, jobs, self.n_jobs)
        return Scored(namespace(values[0]).concat(values, axis=0), proba)

    def singles(self, rows: Rows) -> Float[Array, "n k"]:
        """Return Δτ of each row under each label."""
        n_rows, L = rows.shape[0], self.neighbours.fitted.n_answers
        Z, added = self.neighbours.singles(rows)
        values = self._values(added, rows, Z, lambda m: ([m // L], [m % L]))
        return namespace(values).reshape(values, (n_rows, L))

    def certified(self, rows: Rows) -> Certified:
        """Return Δτ of every row under every label, and how far from retraining each can be."""
        shared = Certificate.of(self.neighbours)
        jobs = [(part, shared) for part in self.neighbours.chunks(self.neighbours.rows(rows))]
        parts = in_threads(self._certified, jobs, self.n_jobs)
        return Certified(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _certified(self, rows: Rows, shared: Certificate) -> Certified:
        Z, added = self.neighbours.singles(rows)
        psi, a, _ = self.moved(added)
        values = to_numpy(self.neighbours.change(psi, a, rows, Z))
        bounds = shared(added, psi, a, rows, Z, values)
        shape = (rows.shape[0], self.neighbours.fitted.n_answers)
        return Certified(values.reshape(shape), bounds.reshape(shape))

    def known(self) -> Float[NDArray[Any], "n l"]:
        """Return Δτ with each label of the labelled rows instead of its own, and last without it."""
        jobs = list(self.neighbours.changed())
        return np.concatenate(in_threads(self._known, jobs, self.n_jobs))

    def _known(self, part: slice, rows: Rows, changed: ChangedRows) -> Float[NDArray[Any], "n l"]:
        psi, a, believed = self.moved(changed)
        values = to_numpy(self.neighbours.change(psi, a, rows, changed.Z.T)).copy()
        each = values.size // rows.shape[0]
        for m in np.flatnonzero(~believed):
            values[m] = self._polished(self._relabelled(part.start + int(m) // each, int(m) % each))
        return values.reshape(-1, each)

    def _relabelled(self, i: int, k: int) -> Fitted:
        """Return the model with label k of labelled row i; without it where that is none, or its own."""
        fitted, known = self.neighbours.fitted, self.neighbours.fitted.labelled
        xp, at = namespace(known.targets), np.array([i])
        label = xp.zeros_like(known.targets[:1, :])
        ratio = xp.zeros_like(known.weights[:1])
        if k < fitted.n_classes and float(known.targets[i, k]) < 1.0 - 1e-12:
            label = like(np.eye(fitted.n_classes)[[k]], label, dtype=label.dtype)
            ratio = relative_weights(fitted)[i : i + 1, k]
        targets = put_at(known.targets, at, label, axis=0)
        weights = put_at(known.weights, at, ratio * known.weights[i : i + 1], axis=0)
        return replace(fitted, labelled=replace(known, targets=targets, weights=weights))

    def window(self, rows: Rows, codes: NDArray[Any]) -> Float[Array, " l"]:
        """Return Δτ of one batch under each of the labelings `codes` (L, b)."""
        return self.neighbours.windows(rows, codes, self._window)

    def _window(
        self, added: Window, rows: Rows, Z: Float[Array, "b q"], codes: NDArray[Any]
    ) -> Float[Array, " l"]:
        everyone = list(range(rows.shape[0]))
        return self._values(added, rows, Z, lambda m: (everyone, codes[m]))

    def _values(
        self, added: Added, rows: Rows, Z: Array, which: Callable[[int], tuple[list[int], Any]]
    ) -> Float[Array, " m"]:
        """Return Δτ of every model; `which` names the rows and labels that one of them adds."""
        psi, a, believed = self.moved(added)
        values = self.neighbours.change(psi, a, rows, Z)
        if believed.all():
            return values
        plain = to_numpy(values).copy()
        for m in np.flatnonzero(~believed):
            index, codes = which(int(m))
            plain[m] = self._newton(rows_at(rows, np.asarray(index)), np.asarray(codes))
        return like(plain, values)

    def _newton(self, rows: Rows, codes: NDArray[Any]) -> float:
        return self._polished(labelled_too(self.neighbours.fitted, rows, codes))

    def _polished(self, after: Fitted) -> float:
        """Return Δτ of a model by Newton's method."""
        # A rough step is enough while far away, and products are cheaper than factors then.
        q, c = self.neighbours.base.start.shape
        solver = ConjugateGradient() if q * c > 300 else Auto()
        try:
            after = after.polished(tol=1e-10, solver=solver)
        except NotConverged:
            after = after.polished(tol=1e-10, solver=Auto())
        return value_of(after, self.neighbours.terms) - self.neighbours.before


@dataclass(frozen=True)
class CorrectedModels(MovedModels):
    """Neighbours by the implicit step and some steps of descent after it."""

    corrections: int = 1

    def moved(self, added: Added) -> tuple[Array, Array, NDArray[Any]]:
        """Return the models so many steps on."""
        base = self.neighbours.base
        walk = Walk(base, added, Point.of(base, added, *added.implicit(base)))
        for _ in range(self.corrections):
            walk.step(walk.slope(), FINE)
        psi, a = walk.point.psi, walk.point.a
        return psi, a, np.isfinite(to_numpy(namespace(psi).sum(psi, axis=(0, 1))))


@dataclass(frozen=True)
class Retrain(Utility):
    """Δτ by retraining to the optimum at fixed penalty: exact, and made fast by structure.

    All models share one factorisation and are moved together (`goalward.utility.descent`);
    those that stall are retrained one by one by Newton's method. A network is retrained from its
    trained weights, and a classifier without curvature refitted, one model after another
    (`goalward.utility.one_by_one`; tol, max_sweeps and n_jobs do not apply). The penalty stays what it
    is in the fitted model; where a class's first label frees the intercepts, that label is refitted.

    Parameters
    ----------
    tol
        Newton decrement at each optimum, relative to that of the added rows before.
    max_sweeps
        Steps before a model is handed to Newton's method.
    n_jobs
        Threads; None is 1, -1 all cores. BLAS is held to one thread in each.

    Examples
    --------
    >>> from goalward.testing import problem
    >>> task = problem(n_classes=2)
    >>> Retrain(n_jobs=2)(task.fitted, task.goal, task.X_pool[:3]).shape
    (3, 2)
    """

    n_jobs: int | None = field(default=None, kw_only=True)
    tol: float = field(default=1e-10, kw_only=True)
    max_sweeps: int = field(default=200, kw_only=True)

    def prepare(self, fitted: Fitted, goal: Goal) -> _Retrained | OneByOne:
        """Return the utility with its shared factorisation made, where there can be one."""
        if not fitted.model.is_linear:
            return OneByOne.of(fitted, goal)
        return _Retrained(Neighbours.of(fitted, goal), self.n_jobs, options=self)

    def known(self, fitted: Fitted, goal: Goal) -> Float[NDArray[Any], "n l"]:
        """Return Δτ of other labels of the labelled rows, retrained."""
        return _Retrained(Neighbours.of(fitted, goal), self.n_jobs, options=self).known()

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return Δτ of each batch under each labeling, retrained."""
        retrainer = self.prepare(fitted, goal)
        jobs = batches(fitted, X_batches, labels)
        values = in_threads(retrainer.window, jobs, self.n_jobs if fitted.model.is_linear else 1)
        return namespace(values[0]).stack(values)


@dataclass(frozen=True)
class _Retrained(MovedModels):
    """Neighbours of a model, really retrained."""

    options: Retrain = field(default_factory=Retrain)

    def moved(self, added: Added) -> tuple[Array, Array, NDArray[Any]]:
        """Return the optimum of every model, and which of them were reached."""
        base, options = self.neighbours.base, self.options
        # The weaker the penalty, the farther a goal moves for the same decrement.
        target = options.tol * min(1.0, 1e3 * base.rho) * first_decrement(base, added)
        psi, a, decrement = descend(
            base, added, *added.start(base), steps=options.max_sweeps, target=target
        )
        return psi, a, decrement <= target

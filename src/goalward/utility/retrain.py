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
from goalward.utility.added_rows import Added, Window
from goalward.utility.certificate import Certificate
from goalward.utility.descent import FINE, Point, Walk, descend, first_decrement
from goalward.utility.labelings import batches
from goalward.utility.neighbours import ChangedRows, Neighbours, relative_weights
from goalward.utility.one_by_one import OneByOne, labelled_too, value_of
from goalward.utility.scorer import Certified, Scored, Scorer
from goalward.utility.utility import Utility

__all__ = ["CorrectedModels", "MovedModels", "Retrain"]


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

"""Retraining with each label, for all rows and labels at once."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace, put_at, rows_at, to_numpy
from goalward.core.cores import in_threads
from goalward.errors import NotConverged
from goalward.goals.goal import Goal
from goalward.models.fitted import Fitted
from goalward.solvers.auto import Auto
from goalward.solvers.conjugate_gradient import ConjugateGradient
from goalward.utility.certificate import Certificate
from goalward.utility.descent import FINE, Walk, descend, first_decrement
from goalward.utility.labelings import batches
from goalward.utility.neighbours import AddedRows, Neighbours, relative_weights
from goalward.utility.one_by_one import OneByOne, labelled_too, value_of
from goalward.utility.utility import Certified, Scored, Scorer, Utility


@dataclass(frozen=True)
class MovedModels(Scorer):
    """Neighbours of a model, moved towards their optima by `n_jobs` threads."""

    neighbours: Neighbours
    n_jobs: int | None
    report: None = None
    certifies: ClassVar[bool] = True

    @abstractmethod
    def moved(self, added: AddedRows) -> tuple[Array, Array, NDArray[Any]]:
        """Return Ψ and a of every model, and which of them are valid."""

    def __call__(self, rows: Rows) -> Scored:
        fitted, codes = self.neighbours.fitted, np.arange(self.neighbours.fitted.n_answers)[:, None]
        jobs = [(part,) for part in self.neighbours.chunks(rows)]
        values = in_threads(
            lambda part: self._values(self.neighbours.singles(part), codes), jobs, self.n_jobs
        )
        xp = namespace(values[0])
        per_label = xp.reshape(xp.concat(values), (rows.shape[0], -1))
        return Scored(per_label, fitted.proba_of(rows))

    def certified(self, rows: Rows) -> Certified:
        certificate, n_answers = Certificate.of(self.neighbours), self.neighbours.fitted.n_answers

        def bounded(rows: Rows) -> tuple[NDArray[Any], NDArray[Any]]:
            added = self.neighbours.singles(rows)
            psi, a, _ = self.moved(added)
            values = to_numpy(self.neighbours.change(added, psi, a))
            bounds = certificate(added, psi, a, values)
            return values.reshape(-1, n_answers), bounds.reshape(-1, n_answers)

        jobs = [(part,) for part in self.neighbours.chunks(rows)]
        parts = in_threads(bounded, jobs, self.n_jobs)
        return Certified(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def known(self) -> Float[NDArray[Any], "n l"]:
        """Return Δτ with each other label of the labelled rows; the last column drops the row."""
        each = self.neighbours.fitted.n_classes + 1

        def changes(part: slice, changed: AddedRows) -> Float[NDArray[Any], "n l"]:
            psi, a, believed = self.moved(changed)
            values = to_numpy(self.neighbours.change(changed, psi, a)).copy()
            for m in np.flatnonzero(~believed).tolist():
                values[m] = self._polished(self._relabelled(part.start + m // each, m % each))
            return values.reshape(-1, each)

        return np.concatenate(in_threads(changes, list(self.neighbours.changed()), self.n_jobs))

    def window(self, rows: Rows, codes: NDArray[Any]) -> Float[Array, " l"]:
        """Return Δτ of one batch under each of the labelings `codes` (L, b)."""
        parts = [self._values(*window) for window in self.neighbours.windows(rows, codes)]
        return namespace(parts[0]).concat(parts)

    def _values(self, added: AddedRows, codes: NDArray[Any]) -> Float[Array, " m"]:
        """Return Δτ of every model; `codes` are the labelings that each group is tried with."""
        psi, a, believed = self.moved(added)
        values = self.neighbours.change(added, psi, a)
        if believed.all():
            return values
        plain, (L, b) = to_numpy(values).copy(), codes.shape
        for m in np.flatnonzero(~believed).tolist():
            rows = rows_at(added.X, slice(m // L * b, (m // L + 1) * b))
            plain[m] = self._polished(labelled_too(self.neighbours.fitted, rows, codes[m % L]))
        return like(plain, values)

    def _relabelled(self, i: int, k: int) -> Fitted:
        """Return the model with label k of row i, or without the row if k is none or its own."""
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

    def _polished(self, after: Fitted) -> float:
        # Far from the optimum a rough step is enough, and products are cheaper than factors.
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

    def moved(self, added: AddedRows) -> tuple[Array, Array, NDArray[Any]]:
        walk = Walk(added, *added.implicit())
        for _ in range(self.corrections):
            walk.step(walk.slope(), FINE)
        psi, a = walk.point.psi, walk.point.a
        return psi, a, np.isfinite(to_numpy(namespace(psi).sum(psi, axis=(0, 1))))


@dataclass(frozen=True)
class Retrain(Utility):
    """Δτ by retraining to the optimum at fixed penalty.

    All models share one factorisation and are moved together. Networks are retrained from their
    weights and other classifiers refitted, one by one; the parameters do not apply to these.

    Parameters
    ----------
    tol
        Newton decrement at each optimum, relative to that of the added rows before.
    max_sweeps
        Steps before a model is left to Newton's method.
    n_jobs
        Threads; None is 1, -1 all cores. BLAS has one thread in each.

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
        if not fitted.model.is_linear:
            return OneByOne.of(fitted, goal)
        return _Retrained(Neighbours.of(fitted, goal), self.n_jobs, options=self)

    def known(self, fitted: Fitted, goal: Goal) -> Float[NDArray[Any], "n l"]:
        return _Retrained(Neighbours.of(fitted, goal), self.n_jobs, options=self).known()

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        retrainer = self.prepare(fitted, goal)
        jobs = batches(fitted, X_batches, labels)
        values = in_threads(retrainer.window, jobs, self.n_jobs if fitted.model.is_linear else 1)
        return namespace(values[0]).stack(values)


@dataclass(frozen=True)
class _Retrained(MovedModels):
    """Neighbours of a model, retrained to their optima."""

    options: Retrain = field(default_factory=Retrain)

    def moved(self, added: AddedRows) -> tuple[Array, Array, NDArray[Any]]:
        options = self.options
        # The weaker the penalty, the farther a goal moves for the same decrement.
        target = options.tol * min(1.0, 1e3 * added.base.rho) * first_decrement(added)
        # The joint equations of a batch cost more than they save.
        start = added.implicit() if added.Z.shape[1] == 1 else added.unmoved()
        psi, a, decrement = descend(added, *start, steps=options.max_sweeps, target=target)
        return psi, a, decrement <= target

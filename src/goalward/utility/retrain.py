"""The truth: the goal after really retraining with each label, for all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace, rows_at, to_numpy
from goalward.errors import NotConverged
from goalward.goals import Goal
from goalward.models import Fitted
from goalward.solvers import Auto, ConjugateGradient
from goalward.utility.added_rows import Added, Window
from goalward.utility.chord import retrain
from goalward.utility.labelings import batches
from goalward.utility.neighbours import Neighbours
from goalward.utility.one_by_one import OneByOne, labelled_too, value_of
from goalward.utility.scorer import Scored, Scorer
from goalward.utility.threads import in_threads
from goalward.utility.utility import Utility

__all__ = ["Retrain"]


@dataclass(frozen=True)
class Retrain(Utility):
    """Δτ by retraining to the optimum at fixed penalty: exact, and made fast by structure.

    All models share one factorisation and are moved together (`goalward.utility.chord`);
    those that stall are retrained one by one by Newton's method. A network is retrained from its
    trained weights, and a classifier without curvature refitted, one model after another
    (`goalward.utility.one_by_one`; tol, max_sweeps and n_jobs do not apply). The penalty stays what it
    is in the fitted model, also on intercepts that were penalised because a class had no
    label yet.

    Parameters
    ----------
    tol
        Newton decrement at each optimum, relative to that of the added rows before.
    max_sweeps
        Chord steps before a model is handed to Newton's method.
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
    tol: float = field(default=1e-9, kw_only=True)
    max_sweeps: int = field(default=100, kw_only=True)

    def prepare(self, fitted: Fitted, goal: Goal) -> _Retrainer | OneByOne:
        """Return the utility with its shared factorisation made, where there can be one."""
        if not fitted.model.is_linear:
            return OneByOne.of(fitted, goal)
        fitted.check_exclusive("Retrain")
        return _Retrainer(self, Neighbours.of(fitted, goal))

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return Δτ of each batch under each labeling, retrained."""
        retrainer = self.prepare(fitted, goal)
        jobs = batches(fitted, X_batches, labels)
        values = in_threads(retrainer.window, jobs, self.n_jobs if fitted.model.is_linear else 1)
        return namespace(values[0]).stack(values)


@dataclass(frozen=True)
class _Retrainer(Scorer):
    """Neighbours of a model, really retrained."""

    options: Retrain
    neighbours: Neighbours
    report: None = None

    def __call__(self, rows: Rows) -> Scored:
        """Return Δτ of every row under every label."""
        fitted = self.neighbours.fitted
        proba = fitted.loss.proba(fitted.logits_of(rows))
        jobs = [(part,) for part in self.neighbours.chunks(self.neighbours.rows(rows))]
        values = in_threads(self.singles, jobs, self.options.n_jobs)
        return Scored(namespace(values[0]).concat(values, axis=0), proba)

    def singles(self, rows: Rows) -> Float[Array, "n k"]:
        """Return Δτ of each row under each label."""
        n_rows, n_classes = rows.shape[0], self.neighbours.fitted.n_classes
        Z, added = self.neighbours.singles(rows)
        values = self._values(added, rows, Z, lambda m: ([m // n_classes], [m % n_classes]))
        return namespace(values).reshape(values, (n_rows, n_classes))

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
        neighbours, options = self.neighbours, self.options
        # A model that diverges overflows before it is found out and handed to Newton.
        with np.errstate(all="ignore"):
            psi, a, converged = retrain(
                neighbours.base, added, tol=options.tol, max_sweeps=options.max_sweeps
            )
        values = neighbours.change(psi, a, rows, Z)
        if converged.all():
            return values
        plain = to_numpy(values).copy()
        for m in np.flatnonzero(~converged):
            index, codes = which(int(m))
            plain[m] = self._newton(rows_at(rows, np.asarray(index)), np.asarray(codes))
        return like(plain, values)

    def _newton(self, rows: Rows, codes: NDArray[Any]) -> float:
        # A rough step is enough while far away, and products are cheaper than factors then.
        q, c = self.neighbours.base.start.shape
        solver = ConjugateGradient() if q * c > 300 else Auto()
        after = labelled_too(self.neighbours.fitted, rows, codes)
        try:
            after = after.polished(tol=1e-10, solver=solver)
        except NotConverged:
            after = after.polished(tol=1e-10, solver=Auto())
        return value_of(after, self.neighbours.terms) - self.neighbours.before

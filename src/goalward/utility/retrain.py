"""The truth: the goal after really retraining with each label, for all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, namespace
from goalward.core.threads import in_threads
from goalward.goals import Goal
from goalward.models import Fitted
from goalward.utility.added_rows import Added
from goalward.utility.descent import descend, first_decrement
from goalward.utility.labelings import batches
from goalward.utility.moved_models import MovedModels
from goalward.utility.neighbours import Neighbours
from goalward.utility.one_by_one import OneByOne
from goalward.utility.utility import Utility

__all__ = ["Retrain"]


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

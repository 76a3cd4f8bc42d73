"""All models that add a row, or a batch of rows, under each label: moved, and the goal there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace, rows_at, to_numpy
from goalward.core.threads import in_threads
from goalward.errors import NotConverged
from goalward.solvers import Auto, ConjugateGradient
from goalward.utility.added_rows import Added, Window
from goalward.utility.certificate import Certificate
from goalward.utility.descent import FINE, Point, Walk
from goalward.utility.neighbours import Neighbours
from goalward.utility.one_by_one import labelled_too, value_of
from goalward.utility.scorer import Certified, Scored, Scorer

__all__ = ["CorrectedModels", "MovedModels"]


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
        n_rows, n_classes = rows.shape[0], self.neighbours.fitted.n_classes
        Z, added = self.neighbours.singles(rows)
        values = self._values(added, rows, Z, lambda m: ([m // n_classes], [m % n_classes]))
        return namespace(values).reshape(values, (n_rows, n_classes))

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
        shape = (rows.shape[0], self.neighbours.fitted.n_classes)
        return Certified(values.reshape(shape), bounds.reshape(shape))

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
        # A rough step is enough while far away, and products are cheaper than factors then.
        q, c = self.neighbours.base.start.shape
        solver = ConjugateGradient() if q * c > 300 else Auto()
        after = labelled_too(self.neighbours.fitted, rows, codes)
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

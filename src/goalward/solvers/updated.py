"""An inverse that follows the model as rows are added, made exact by a few iterations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, is_sparse, namespace
from goalward.solvers.conjugate_gradient import by_products
from goalward.solvers.coordinates import Coordinates
from goalward.solvers.inverse import Inverse
from goalward.solvers.solution import LinearCurvature, Solve, in_basis

__all__ = ["Updated", "fits"]


@dataclass(frozen=True, eq=False)
class Updated:
    """Conjugate gradients preconditioned by the inverse of a Hessian nearby.

    A row with curvature Λ changes 𝓗⁻¹ by rank K-1 (Woodbury), which costs (pK)²K instead of a
    factorisation. What else has moved since the inverse was made, the iterations take up, so
    that the solution is that of the Hessian given.

    Parameters
    ----------
    inverse
        By features.

    Examples
    --------
    >>> from goalward.testing import problem
    >>> task = problem()
    >>> solver = Updated.of(task.fitted.hessian)
    >>> solver.prepare(task.fitted.hessian)(task.goal.gradient(task.fitted)).iterations
    1
    """

    inverse: Inverse = field(repr=False)
    tol: float | None = None

    @classmethod
    def of(cls, hessian: LinearCurvature) -> Updated:
        """Return the solver of a Hessian, its inverse made once."""
        return cls(Inverse.of(hessian, Coordinates.features(hessian)))

    def added(self, row: Rows, block: Float[Array, "c c"]) -> Updated:
        """Return the solver after a row with curvature `block` has been added."""
        return replace(self, inverse=self.inverse.added(row, block))

    def prepare(self, hessian: LinearCurvature) -> Solve:
        """Return the map g -> 𝓗⁻¹g."""
        matrix = self.inverse.matrix

        def near(r: Float[Array, "p c"]) -> Float[Array, "p c"]:
            xp = namespace(r)
            return xp.reshape(matrix @ xp.reshape(r, (-1,)), r.shape)

        def all_columns(r: Float[Array, "p k"]) -> Float[Array, "p k"]:
            return in_basis(hessian, r, near)

        return by_products(hessian, all_columns, "Updated", self.tol, max_iter=500)


def fits(hessian: LinearCurvature, largest: int = 2500) -> bool:
    """Return whether an inverse by features is worth holding for this Hessian."""
    c = hessian.basis.shape[1]
    size, rows = hessian.shape[0] * c, hessian.proba.shape[0] * c
    return not is_sparse(hessian.labelled.X) and 100 <= size <= largest and rows >= size / 2

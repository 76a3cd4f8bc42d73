"""Two classes as one column: half the work of a product with the Hessian.

In the one contrast q = (1, -1)/√2 of two classes a row's curvature is the number
qᵀΛq = 2 p₀p₁, and the Hessian is Xᵀ diag(2 w p₀p₁) X + ρ on vectors of one column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, namespace
from goalward.solvers.solution import LinearCurvature

__all__ = ["Binary"]


@dataclass(frozen=True)
class Binary:
    """The Hessian of two classes in their contrast.

    Parameters
    ----------
    hessian
        The same, on two columns.
    """

    hessian: LinearCurvature

    @property
    def shape(self) -> tuple[int, int]:
        """(p, 1)."""
        return self.hessian.shape[0], 1

    @property
    def X(self) -> Rows:
        """The labelled rows."""
        return self.hessian.X

    @property
    def weights(self) -> Float[Array, " n"]:
        """The weight of each labelled row."""
        return self.hessian.weights

    @property
    def penalty(self) -> Float[Array, " p"]:
        """ρ for each row of the parameters."""
        return self.hessian.penalty

    @cached_property
    def bend(self) -> Float[Array, " n"]:
        """2 w p₀p₁ of each row."""
        p = self.hessian.proba
        return 2.0 * self.hessian.weights * p[:, 0] * p[:, 1]

    def matvec(self, v: Float[Array, "p 1"]) -> Float[Array, "p 1"]:
        """Return Xᵀ diag(2 w p₀p₁) X v + ρ v."""
        X, column = self.hessian.X, v[:, 0]
        if not self.hessian.intercept:
            return (X.T @ (self.bend * (X @ column)) + self.penalty * column)[:, None]
        xp = namespace(v)
        bent = self.bend * (X @ column[:-1] + column[-1])
        pulled = xp.concat([X.T @ bent, xp.sum(bent, keepdims=True)])
        return (pulled + self.penalty * column)[:, None]

    def spectrum(self) -> tuple[Float[Array, " r"], Float[Array, "p r"]]:
        """Return the eigenvalues and eigenvectors of XᵀWX."""
        return self.hessian.spectrum()

    def mean_curvature(self) -> Float[Array, "1 1"]:
        """Return the mean of 2 p₀p₁ over the rows, as a matrix."""
        xp = namespace(self.bend)
        return xp.reshape(xp.sum(self.bend) / xp.sum(self.weights), (1, 1))

    def diagonal(self) -> Float[Array, "p 1"]:
        """Return the diagonal, for preconditioning: of two equal columns, either."""
        return self.hessian.diagonal()[:, :1]

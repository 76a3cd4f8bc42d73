"""Coordinates in which a retrained model is small.

A penalised optimum lies in the span of its rows. With fewer labelled rows than features
the labelled rows need n coordinates, and each new row adds one direction of its own; with
more rows than features the features themselves serve. All that is needed of the new
directions is what Gram matrices say, so X is only multiplied and may be sparse.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, dense, is_sparse, namespace
from goalward.models import Fitted

__all__ = ["Span"]


@dataclass(frozen=True)
class Span:
    """Rows as coordinates, with a constant column last if there is an intercept.

    Parameters
    ----------
    X
        The labelled rows.
    basis
        (n, r) with coordinates X' Xᵀ basis; None if the features serve themselves.
    intercept
        Whether coordinates end in a constant.
    """

    X: Rows
    basis: Float[Array, "n r"] | None
    intercept: bool

    @classmethod
    def of(cls, fitted: Fitted) -> Span:
        """Return the smaller of the two spaces for the labelled rows of `fitted`."""
        X = fitted.labelled.X
        n_rows, n_features = X.shape
        intercept = fitted.linear("Retrain").intercept
        if n_features <= n_rows:
            return cls(X, None, intercept)
        gram = fitted.labelled.gram
        xp = namespace(gram)
        values, vectors = xp.linalg.eigh(gram)
        # Directions below rounding of the largest carry no row; dropping them changes
        # the Gram matrix, hence every logit, by rounding only.
        count = int(xp.sum(xp.astype(values > values[-1] * 1e-14, xp.int64)))
        keep = slice(n_rows - count, n_rows)
        return cls(X, vectors[:, keep] / xp.sqrt(values[keep]), intercept)

    def coordinates(self, rows: Rows) -> Float[Array, "m q"]:
        """Return the coordinates of rows."""
        flat = dense(rows) if self.basis is None else dense(rows @ self.X.T) @ self.basis
        if not self.intercept:
            return flat
        xp = namespace(flat)
        ones = xp.ones((flat.shape[0], 1), dtype=flat.dtype, device=flat.device)
        return xp.concat([flat, ones], axis=1)

    def weights(self, coordinates: Float[Array, "m q"]) -> Float[Array, "m r"]:
        """Return coordinates without the constant."""
        return coordinates[:, :-1] if self.intercept else coordinates

    def outside(
        self, A: Rows, in_A: Float[Array, "a q"], B: Rows, in_B: Float[Array, "b q"]
    ) -> Float[Array, "a b"] | None:
        """Return ⟨a, b⟩ of the parts outside the span; None where nothing is outside."""
        if self.basis is None:
            return None
        return dense(A @ B.T) - self.weights(in_A) @ self.weights(in_B).T

    def squared_outside(self, A: Rows, in_A: Float[Array, "a q"]) -> Float[Array, " a"]:
        """Return ‖a‖² of the part of each row outside the span, never below zero."""
        xp = namespace(in_A)
        if self.basis is None:
            return xp.zeros_like(in_A[:, 0])
        squares = A.multiply(A).sum(axis=1) if is_sparse(A) else xp.sum(A * A, axis=1)
        inside = self.weights(in_A)
        left = squares - xp.sum(inside * inside, axis=1)
        return xp.maximum(left, xp.zeros_like(left))

"""Coordinates in which a linear model's curvature is small enough to be inverted.

A penalised optimum lies in the span of its rows, and outside of what was seen nothing is known but
the penalty. So a row is its features, or where these are many its part along a few orthonormal
directions; what is left of it outside them has the prior's variance 1/ρ. All that is needed of that
is what Gram matrices say, so rows are only multiplied and may be sparse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import (
    Array,
    Rows,
    astype,
    dense,
    is_sparse,
    leading_eigenvectors,
    like,
    namespace,
    rows_at,
    stack_rows,
    with_constant,
)
from goalward.solvers.solution import LinearCurvature, uniform_penalty

__all__ = ["LARGEST", "Coordinates"]

LARGEST = 1000
"""Unknowns up to which a covariance is held whole: an inverse of it takes about 0.1 s on one core."""

LARGEST_GRAM = 3000
"""Rows or features whose Gram matrix gives the leading directions."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows as coordinates: features or directions, then a constant if there is an intercept.

    Parameters
    ----------
    ridge
        Penalty of each coordinate. All numbers are in its library and precision.
    rho
        Penalty of every direction outside.
    intercept
        Whether coordinates end in a constant.
    basis
        Orthonormal directions, (d, r); with `rows` (n, r), and the directions are rowsᵀ basis. None
        where the features serve themselves.
    rows
        The rows whose span the directions are; d x r numbers of many features are never formed.
    kept
        Share of the rows' squared length that lies along the directions.
    """

    ridge: Float[Array, " q"] = field(repr=False)
    rho: float
    intercept: bool
    basis: Float[Array, "_ r"] | None = field(default=None, repr=False)
    rows: Rows | None = field(default=None, repr=False)
    kept: float = 1.0

    @classmethod
    def features(cls, hessian: LinearCurvature) -> Coordinates:
        """Return the features as coordinates."""
        return cls(hessian.penalty, float(hessian.penalty[0]), hessian.intercept)

    @classmethod
    def spanned(cls, hessian: LinearCurvature) -> Coordinates:
        """Return the span of the labelled rows where they are fewer than features, which serve else."""
        n_rows, n_features = hessian.labelled.X.shape
        if n_features <= n_rows:
            return cls.features(hessian)
        gram = hessian.labelled.gram
        xp = namespace(gram)
        values, vectors = xp.linalg.eigh(gram)
        # Directions below rounding of the largest carry no row; dropping them changes
        # the Gram matrix, hence every logit, by rounding only.
        count = int(xp.sum(xp.astype(values > values[-1] * 1e-14, xp.int64)))
        keep = slice(n_rows - count, n_rows)
        basis = vectors[:, keep] / xp.sqrt(values[keep])
        return cls._along(hessian, hessian.penalty, basis, rows=hessian.labelled.X)

    @classmethod
    def leading(
        cls, hessian: LinearCurvature, rows: Rows, *, largest: int = LARGEST
    ) -> Coordinates:
        """Return at most `largest` unknowns, in double precision.

        Parameters
        ----------
        rows
            The rows that matter, as the model sees them. Where the features are too many, the leading
            directions of these and of the labelled rows are kept.
        """
        room = max(1, largest // hessian.basis.shape[1] - hessian.intercept)
        penalty = astype(hessian.penalty, namespace(hessian.penalty).float64)
        if rows.shape[1] <= room:
            return cls(penalty, float(penalty[0]), hessian.intercept)
        both = [rows, hessian.labelled.X]
        if is_sparse(both[0]) != is_sparse(both[1]):
            both = [dense(X) for X in both]
        basis, kept = _leading(stack_rows(*both), room)
        return cls._along(hessian, penalty, basis, kept=kept)

    @classmethod
    def _along(
        cls, hessian: LinearCurvature, penalty: Array, basis: Array, **more: Any
    ) -> Coordinates:
        """Return coordinates along directions, all of which have the penalty of the weights."""
        rho, _ = uniform_penalty(hessian)
        xp = namespace(basis)
        ridge = xp.full((basis.shape[1],), rho, dtype=basis.dtype, device=basis.device)
        if hessian.intercept:
            ridge = xp.concat([ridge, penalty[-1:]])
        return cls(ridge, rho, hessian.intercept, basis, **more)

    def __call__(self, rows: Rows) -> Float[Array, "n q"]:
        """Return the coordinates of rows as the model sees them."""
        X = like(rows, self.ridge, dtype=self.ridge.dtype)
        if self.rows is not None:
            X = dense(X @ self.rows.T)
        Z = dense(X) if self.basis is None else X @ self.basis
        return with_constant(Z) if self.intercept else Z

    def directions(self, Z: Float[Array, "n q"]) -> Float[Array, "n r"]:
        """Return coordinates without the constant."""
        return Z[:, :-1] if self.intercept else Z

    def outside(
        self, A: Rows, in_A: Float[Array, "a q"], B: Rows, in_B: Float[Array, "b q"]
    ) -> Float[Array, "a b"] | None:
        """Return ⟨a, b⟩ of the parts outside; None where nothing is outside."""
        if self.basis is None:
            return None
        return dense(A @ B.T) - self.directions(in_A) @ self.directions(in_B).T

    def squared_outside(self, rows: Rows, Z: Float[Array, "n q"]) -> Float[Array, " n"]:
        """Return ‖x‖² of the part of each row outside, never below zero."""
        xp = namespace(Z)
        if self.basis is None:
            return xp.zeros_like(Z[:, 0])
        X = like(rows, self.ridge, dtype=self.ridge.dtype)
        inside = self.directions(Z)
        squares = np.ravel(X.multiply(X).sum(axis=1)) if is_sparse(X) else xp.sum(X * X, axis=1)
        left = squares - xp.sum(inside * inside, axis=1)
        return xp.maximum(left, xp.zeros_like(left))


def _leading(rows: Rows, room: int) -> tuple[Float[Array, "d r"], float]:
    """Return the leading directions of rows, and the share of their squared length there.

    By the smaller of the two Gram matrices; of very many rows some thousands, evenly spaced, speak
    for all.
    """
    if min(rows.shape) > LARGEST_GRAM:
        rows = rows_at(rows, np.linspace(0, rows.shape[0] - 1, LARGEST_GRAM).astype(np.int64))
    m, d = rows.shape
    gram = dense(rows @ rows.T if m < d else rows.T @ rows)
    xp = namespace(gram)
    gram = astype(gram, xp.float64)
    values, vectors = leading_eigenvectors(gram, room)
    # Directions below rounding of the largest carry no row.
    floor = max(float(values[-1]), 0.0) * 1e-12
    first = values.shape[0] - int(xp.sum(xp.astype(values > floor, xp.int64)))
    values, vectors = values[first:], vectors[:, first:]
    if m < d:
        vectors = astype(rows, xp.float64).T @ vectors / xp.sqrt(values)
    total = float(xp.linalg.trace(gram))
    return vectors, float(xp.sum(values)) / total if total > 0 else 1.0

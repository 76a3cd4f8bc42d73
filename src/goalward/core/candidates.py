"""Rows that may be asked about, and rows that have been: as the model sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, dense, is_sparse, namespace, rows_at, scale_rows

__all__ = ["Candidates", "Labelled"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """A block of unlabelled rows.

    Parameters
    ----------
    rows
        Their ids: positions in the pool, unless the caller gave others.
    X
        Their features, clean and in the model's array library.
    predicted
        What the model predicts for them, or how to get it from X: most rules never ask.
    start
        Where the first of them stands in the pool, for messages.
    """

    rows: NDArray[Any]
    X: Rows
    predicted: Float[Array, "n k"] | Callable[[Any], Any]
    start: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def proba(self) -> Float[Array, "n k"]:
        """What the model predicts for them."""
        return self.predicted(self.X) if callable(self.predicted) else self.predicted

    def at(self, position: int) -> Candidates:
        """Return one of them."""
        only = np.array([position])
        p = self.predicted
        there = p if callable(p) else rows_at(p, only)
        return Candidates(self.rows[only], rows_at(self.X, only), there)


@dataclass(frozen=True)
class Labelled:
    """Rows with what is known of their labels: a distribution and a weight each."""

    X: Rows
    targets: Float[Array, "n k"]
    weights: Float[Array, " n"]

    def __len__(self) -> int:
        return int(self.targets.shape[0])

    @cached_property
    def n_seen(self) -> int:
        """How many classes have a label."""
        xp = namespace(self.targets)
        return int(xp.sum(xp.astype(self.weights @ self.targets > 0, xp.int64)))

    @cached_property
    def gram(self) -> Float[Array, "n n"]:
        """X Xᵀ, computed once for every solve and retraining that needs it."""
        return dense(self.X @ self.X.T)

    @cached_property
    def squares(self) -> Rows:
        """X∘X, computed once for all steps of a fit."""
        return self.X.multiply(self.X) if is_sparse(self.X) else self.X * self.X

    @cached_property
    def spectra(self) -> dict[bool, tuple[Array, Array]]:
        """Eigenvalues and eigenvectors of XᵀWX, without and with a constant column, as asked."""
        return {}

    def spectrum(self, intercept: bool) -> tuple[Float[Array, " r"], Float[Array, "p r"]]:
        """Return the eigenvalues and eigenvectors of XᵀWX, of which there are min(n, p).

        The labels do not enter, so one decomposition serves all steps of a fit.
        """
        if intercept not in self.spectra:
            xp = namespace(self.weights)
            root = dense(scale_rows(self.X, xp.sqrt(self.weights)))
            if intercept:
                root = xp.concat([root, xp.sqrt(self.weights)[:, None]], axis=1)
            if root.shape[0] < root.shape[1]:
                values, inner = xp.linalg.eigh(root @ root.T)
                # Directions that the rows do not reach, but for rounding, are left out.
                kept = xp.astype(values > 1e-12 * values[-1], values.dtype)
                scale = xp.sqrt(xp.maximum(values, 1e-12 * values[-1:]))
                vectors = (root.T @ inner) * (kept / scale)
            else:
                values, vectors = xp.linalg.eigh(root.T @ root)
            self.spectra[intercept] = (xp.maximum(values, xp.zeros_like(values)), vectors)
        return self.spectra[intercept]

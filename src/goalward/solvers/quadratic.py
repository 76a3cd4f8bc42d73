"""Quadratic forms of many rows in one matrix: leverages, and what a goal makes of them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, like, namespace

__all__ = ["numbers_per_row", "quadratic"]

WIDEST = 256
"""Coordinates up to which pairs of them are formed."""


def _paired(q: int, c: int) -> bool:
    """Return whether pairs z_j z_l are formed: a quarter of the work where contrasts are several."""
    return c > 1 and q <= (64 if c == 2 else WIDEST)


def numbers_per_row(q: int, c: int) -> int:
    """Return how many numbers a row makes on the way to its form."""
    return q * (q + 1) // 2 + 4 * c * c if _paired(q, c) else c * c * q


def quadratic(Z: Float[Array, "n q"], A: Float[Array, "q c q c"]) -> Float[Array, "n c c"]:
    """Return Σ_jl z_j A[j, :, l, :] z_l for every row, for a symmetric A.

    Few coordinates and several contrasts: one product of the pairs z_j z_l, j ≤ l, with A folded
    accordingly, a quarter of the work. Otherwise one product with A, then one sum per row.
    """
    xp = namespace(Z)
    n, q = Z.shape
    c = A.shape[1]
    if _paired(q, c):
        upper, lower = np.triu_indices(q)
        a, b = np.triu_indices(c)
        first, second = like(upper, Z), like(lower, Z)
        pairs = xp.take(Z, first, axis=1) * xp.take(Z, second, axis=1)
        by_pair = xp.permute_dims(A, (0, 2, 1, 3))
        flat = xp.reshape(by_pair, (q * q, c * c))
        flat = xp.take(flat, like(a * c + b, Z), axis=1)
        folded = xp.take(flat, like(upper * q + lower, Z), axis=0)
        other = xp.take(flat, like(lower * q + upper, Z), axis=0)
        twice = like((upper != lower).astype(float), Z, dtype=Z.dtype)[:, None]
        packed = pairs @ (folded + twice * other)
        place = np.empty((c, c), dtype=np.int64)
        place[a, b] = place[b, a] = np.arange(len(a))
        return xp.reshape(xp.take(packed, like(place.reshape(-1), Z), axis=1), (n, c, c))
    product = xp.reshape(Z @ xp.reshape(A, (q, c * q * c)), (n, c, q, c))
    return xp.sum(product * Z[:, None, :, None], axis=2)

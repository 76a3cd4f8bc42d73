"""Logits and motions of rows by one pass over them, and what operators make of the two.

The fast path of the softmax alone, whose utility of label k is ⟨p, s⟩ - s_k with s the motion of
the logits: p and what operators ask for are made in the same pass. Another loss goes by its own
`along`.

Both live in one (2K, n) array per chunk: labels along the first axis, rows along the second,
which is contiguous, so that every pass over a chunk runs in vector registers and stays in the
cache. Two classes need two numbers a row only, the differences δ and t of the logits and of
the motions: p = σ(δ), and the utilities of the labels are p t and (p - 1) t.

Chunks lie on a fixed grid, so that a row's numbers do not depend on the block it came in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import array_api_compat
import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, Rows, astype, is_sparse, namespace, softmax
from goalward.core.kernels import gpu
from goalward.core.kernels.compiled import compiled, two_lines

__all__ = ["STATISTICS", "Motion", "chunk_rows", "stacked"]

STATISTICS = ("mean", "min", "max", "spread")
"""What `Motion.reduced` knows: mean, least and largest utility over the labels, and its standard
deviation under the model's own prediction."""


def chunk_rows(n_classes: int) -> int:
    """Return rows per chunk.

    Logits and motions take 128 KiB in single precision, twice that in double: they stay in the
    cache; yet no fewer rows than a matrix product needs to be efficient. The same for all types,
    so that the grid is one.
    """
    return max(256, 2**18 // (16 * n_classes) // 64 * 64)


@dataclass(frozen=True)
class Motion:
    """The map from rows to their logits and to the motion of these along a direction.

    Parameters
    ----------
    both
        [Θ | V], weights without intercepts; for two classes the two difference columns.
    constant
        The intercepts of the same columns.
    n_classes
        K.
    """

    both: Float[Array, "d c"]
    constant: Float[Array, " c"]
    n_classes: int

    @classmethod
    def along(cls, params: Any, direction: Any, intercept: bool) -> Motion:
        """Return the map for parameters (p, K) and a direction of the same shape."""
        xp = namespace(params)
        if params.shape[1] == 2:
            both = xp.stack([p[:, 1] - p[:, 0] for p in (params, direction)], axis=1)
        else:
            both = xp.concat([params, direction], axis=1)
        if intercept:
            return cls(both[:-1, :], both[-1, :], int(params.shape[1]))
        return cls(both, xp.zeros_like(both[0, :]), int(params.shape[1]))

    def tables(self, rows: Rows) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
        """Return the utilities of every label and the predictions, both (n, K)."""
        with np.errstate(invalid="ignore", over="ignore"):  # told by the scores
            parts = [self._table(moved + c[:, None]) for moved, c in self._moved(rows)]
        return stacked([u for u, _ in parts]), stacked([p for _, p in parts])

    def reduced(self, rows: Rows, statistic: str) -> Float[Array, " n"]:
        """Return one of `STATISTICS` of every row's utilities, without a table of them."""
        if gpu.usable(rows):
            return self._on_gpu(rows, statistic)
        resolve = _binary if self.n_classes == 2 else _several
        with np.errstate(invalid="ignore", over="ignore"):  # told by the scores
            parts = [resolve(moved, c, statistic) for moved, c in self._moved(rows)]
        return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts)

    def _on_gpu(self, rows: Rows, statistic: str) -> Float[Array, " n"]:
        """Return a statistic by kernels of our own, around the library's matrix product."""
        both, constant = astype(self.both, rows.dtype), astype(self.constant, rows.dtype)
        if self.n_classes == 2:
            return gpu.binary(rows, both, constant, statistic)
        size = _resident(both)
        xp = namespace(rows)
        parts = []
        for start in range(0, rows.shape[0], size):
            moved = xp.addmm(constant, rows[start : start + size, :], both)
            parts.append(gpu.several(moved, self.n_classes, statistic))
        return parts[0] if len(parts) == 1 else xp.concat(parts)

    def _table(self, moved: Float[Array, "c n"]) -> tuple[Array, Array]:
        xp = namespace(moved)
        if self.n_classes == 2:
            p, t = _sigmoid(moved[0, :]), moved[1, :]
            rest = _sigmoid(-moved[0, :])
            return xp.stack([p * t, -rest * t]).T, xp.stack([rest, p]).T
        f, s = moved[: self.n_classes, :], moved[self.n_classes :, :]
        p = softmax(f, axis=0)
        return (xp.sum(p * s, axis=0) - s).T, p.T

    def _moved(self, rows: Rows) -> Iterator[tuple[Float[Array, "c n"], Float[Array, " c"]]]:
        """Return rows times [Θ | V], chunk by chunk, and the constants that are still to be added."""
        both = astype(self.both, rows.dtype)
        constant = astype(self.constant, rows.dtype)
        plain, total = array_api_compat.is_numpy_array(rows), rows.shape[0]
        product = _product(both, plain=plain)
        on_cpu = plain or is_sparse(rows)
        size = chunk_rows(self.n_classes) if on_cpu else _resident(both)
        for start in range(0, total, size):
            moved = product(rows[start : min(start + size, total), :])
            yield moved, constant


def stacked(parts: list[Any]) -> Any:
    """Return tables one under another, labels along the first axis in memory as theirs are."""
    if len(parts) == 1:
        return parts[0]
    return namespace(parts[0]).concat([part.T for part in parts], axis=1).T


def _resident(both: Array) -> int:
    """Return rows per chunk on an accelerator: products large enough to fill it."""
    return max(1024, 2**28 // int(both.shape[1]))


def _product(both: Float[Array, "d c"], *, plain: bool) -> Callable[[Rows], Float[Array, "c n"]]:
    """Return rows -> (rows both)ᵀ; for plain arrays of NumPy the fastest road for these columns."""
    if not plain:
        return lambda X: (X @ both).T
    left = np.ascontiguousarray(both.T)
    buffers: dict[int, Any] = {}

    def into_buffer(X: Rows) -> Array:
        # Fresh pages at every chunk would cost as much as the product.
        n = X.shape[0]
        if n not in buffers:
            buffers[n] = np.empty((left.shape[0], n), dtype=X.dtype)
        return np.matmul(left, X.T, out=buffers[n])

    return into_buffer if left.shape[0] > 2 else partial(two_lines, left)


def _sigmoid(x: Array) -> Array:
    xp = namespace(x)
    small = xp.exp(-xp.abs(x))
    return xp.where(x >= 0.0, xp.ones_like(x), small) / (1.0 + small)


def _binary(
    moved: Float[Array, "2 n"], constant: Float[Array, " 2"], statistic: str
) -> Float[Array, " n"]:
    """Return a statistic of the utilities p t and (p - 1) t."""
    xp = namespace(moved)
    delta, t = moved[0, :] + constant[0], moved[1, :] + constant[1]
    if statistic == "spread":
        # √(p (1 - p)) by one exponential, and without a difference of nearly equal numbers.
        half = xp.exp(-0.5 * xp.abs(delta))
        return half / (1.0 + half * half) * xp.abs(t)
    p = _sigmoid(delta)
    if statistic == "mean":
        return (p - 0.5) * t
    first, second = p * t, -_sigmoid(-delta) * t
    return xp.minimum(first, second) if statistic == "min" else xp.maximum(first, second)


def _several(
    moved: Float[Array, "kk n"], constant: Float[Array, " kk"], statistic: str
) -> Float[Array, " n"]:
    """Return a statistic of the utilities ⟨p, s⟩ - s_k."""
    xp = namespace(moved)
    K = moved.shape[0] // 2
    shift, finish = compiled("shift"), compiled("resolved")
    if shift and finish and isinstance(moved, np.ndarray):
        f, out = moved[:K], np.empty_like(moved[0])
        # NumPy's exponential is in vector registers, the compiler's is not.
        shift(f, constant)
        finish(np.exp(f, out=f), moved[K:], constant[K:], STATISTICS.index(statistic), out)
        return out
    moved = moved + constant[:, None]
    f, s = moved[:K, :], moved[K:, :]
    weights = xp.exp(f - xp.max(f, axis=0))
    total = xp.sum(weights, axis=0)
    mean = xp.sum(weights * s, axis=0) / total
    if statistic == "spread":
        gap = s - mean
        return xp.sqrt(xp.sum(weights * gap * gap, axis=0) / total)
    if statistic == "mean":
        return mean - xp.mean(s, axis=0)
    return mean - (xp.max(s, axis=0) if statistic == "min" else xp.min(s, axis=0))

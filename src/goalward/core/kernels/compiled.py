"""Loops that NumPy has no single call for, compiled by Numba where it is installed.

Importing and compiling cost about a second, which a small pool never earns back: nothing is
compiled until `accelerate()` is called. Engines call it for pools of 100,000 rows or so, and a
program with many rounds may.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Kernel = Callable[..., Any]
kernels: dict[str, Kernel] = {}
"""The compiled loops by name; none where `accelerate` was not called."""


def installed() -> bool:
    """Return whether Numba is there to compile with."""
    return importlib.util.find_spec("numba") is not None


def compiled(name: str) -> Kernel | None:
    """Return a compiled loop, or None where `accelerate` was not called."""
    return kernels.get(name)


def accelerate(on: bool = True) -> bool:
    """Compile the loops for this process, or drop them; return whether they are in use.

    Scores agree with NumPy's to rounding. Without Numba (`pip install goalward[fast]`) nothing
    changes and False is returned.

    Examples
    --------
    >>> accelerate(False)
    False
    """
    kernels.clear()
    if on and installed():
        kernels.update(_compiled())
    return bool(kernels)


@contextmanager
def accelerated(wanted: bool) -> Iterator[bool]:
    """Compile the loops for a while, if wanted; those that are in use stay. Give whether they are."""
    before = bool(kernels)
    try:
        yield before or (wanted and accelerate())
    finally:
        if not before:
            kernels.clear()


@cache
def _compiled() -> dict[str, Kernel]:
    import numba

    # Sums may be reordered, so that they run in vector registers; NaN and infinity stay what
    # they are, since they are how bad numbers in a pool are found.
    jit = numba.njit(fastmath={"contract", "reassoc", "nsz", "arcp"}, nogil=True, cache=True)
    return {loop.__name__: jit(loop) for loop in (two_products, shift, resolved)}


def two_lines(left: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    """Return left Xᵀ for two lines: X is read once, by a compiled loop or from the cache.

    One product with two columns, which BLAS does badly, takes several times as long.
    """
    out = np.empty((2, X.shape[0]), dtype=X.dtype)
    read_once = kernels.get("two_products")
    if read_once is not None:
        read_once(X, left[0], left[1], out)
        return out
    size = max(64, 2**19 // (X.shape[1] * X.itemsize))
    for start in range(0, X.shape[0], size):
        rows = X[start : start + size]
        for column, into in zip(left, out, strict=True):
            np.dot(rows, column, out=into[start : start + size])
    return out


def two_products(
    X: NDArray[Any], a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]
) -> None:  # pragma: no cover - compiled
    """Write X a and X b, reading X once."""
    for i in range(X.shape[0]):
        # Zeros of X's own type, so that single precision stays single.
        p = X[i, 0] * a[0]
        q = X[i, 0] * b[0]
        for j in range(1, X.shape[1]):
            p += X[i, j] * a[j]
            q += X[i, j] * b[j]
        out[0, i] = p
        out[1, i] = q


def shift(logits: NDArray[Any], constant: NDArray[Any]) -> None:  # pragma: no cover - compiled
    """Add a constant to each line, then take each column's largest entry off, in place."""
    K, n = logits.shape
    top = np.empty_like(logits[0])
    for j in range(n):
        top[j] = logits[0, j] + constant[0]
    for k in range(1, K):
        for j in range(n):
            top[j] = max(top[j], logits[k, j] + constant[k])
    for k in range(K):
        for j in range(n):
            logits[k, j] = logits[k, j] + constant[k] - top[j]


def resolved(
    weights: NDArray[Any],
    values: NDArray[Any],
    constant: NDArray[Any],
    code: int,
    out: NDArray[Any],
) -> None:  # pragma: no cover - compiled
    """Write each column's weighted mean of values less their mean (0), most (1) or least (2).

    Or (3) the weighted standard deviation.
    """
    K, n = weights.shape
    total, other = np.empty_like(out), np.empty_like(out)
    for j in range(n):
        value = values[0, j] + constant[0]
        total[j] = weights[0, j]
        out[j] = weights[0, j] * value
        other[j] = value
    for k in range(1, K):
        for j in range(n):
            value = values[k, j] + constant[k]
            total[j] += weights[k, j]
            out[j] += weights[k, j] * value
            if code == 0:
                other[j] += value
            elif code == 1:
                other[j] = max(other[j], value)
            elif code == 2:
                other[j] = min(other[j], value)
    if code < 3:
        share = other[0] * 0 + (K if code == 0 else 1)
        for j in range(n):
            out[j] = out[j] / total[j] - other[j] / share
        return
    for j in range(n):
        out[j] /= total[j]
        other[j] = 0
    for k in range(K):
        for j in range(n):
            gap = values[k, j] + constant[k] - out[j]
            other[j] += weights[k, j] * gap * gap
    for j in range(n):
        out[j] = np.sqrt(other[j] / total[j])

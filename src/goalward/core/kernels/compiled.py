"""Loops that NumPy has no single call for, compiled by Numba where it is installed.

Importing and compiling cost about a second, which a small pool never earns back: nothing is
compiled until `accelerate()` is called. `goalward rank` and `goalward.scale.rank` call it for
pools of some gigabytes, and a program with many rounds may.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["accelerate", "compiled", "installed"]

Kernel = Callable[..., Any]
_kernels: dict[str, Kernel] = {}


def installed() -> bool:
    """Return whether Numba is there to compile with."""
    return importlib.util.find_spec("numba") is not None


def compiled(name: str) -> Kernel | None:
    """Return a compiled loop, or None where `accelerate` was not called."""
    return _kernels.get(name)


def accelerate(on: bool = True) -> bool:
    """Compile the loops for this process, or drop them; return whether they are in use.

    Scores agree with NumPy's to rounding. Without Numba (`pip install goalward[fast]`) nothing
    changes and False is returned.

    Examples
    --------
    >>> accelerate(False)
    False
    """
    _kernels.clear()
    if not (on and installed()):
        return False
    import numba

    # Sums may be reordered, so that they run in vector registers; NaN and infinity stay what
    # they are, since they are how bad numbers in a pool are found.
    jit = numba.njit(fastmath={"contract", "reassoc", "nsz", "arcp"}, nogil=True, cache=True)
    for loop in (two_products, shift, moments):
        _kernels[loop.__name__] = jit(loop)
    return True


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


def moments(
    weights: NDArray[Any],
    values: NDArray[Any],
    constant: NDArray[Any],
    mean: NDArray[Any],
    deviation: NDArray[Any],
    wanted: bool,
) -> None:  # pragma: no cover - compiled
    """Write the weighted mean of each column's values and, if wanted, their standard deviation."""
    K, n = weights.shape
    total = np.empty_like(mean)
    for j in range(n):
        total[j] = weights[0, j]
        mean[j] = weights[0, j] * (values[0, j] + constant[0])
    for k in range(1, K):
        for j in range(n):
            total[j] += weights[k, j]
            mean[j] += weights[k, j] * (values[k, j] + constant[k])
    for j in range(n):
        mean[j] /= total[j]
    if not wanted:
        return
    for j in range(n):
        gap = values[0, j] + constant[0] - mean[j]
        deviation[j] = weights[0, j] * gap * gap
    for k in range(1, K):
        for j in range(n):
            gap = values[k, j] + constant[k] - mean[j]
            deviation[j] += weights[k, j] * gap * gap
    for j in range(n):
        deviation[j] = np.sqrt(deviation[j] / total[j])

"""Splitting off the one direction the softmax cannot see.

Adding a constant to all logits of a row changes nothing, so 𝓗 acts on "all classes up
together" as the bare penalty, and on the K-1 contrasts as a definite matrix. A solver
factors the second part only; the first is a division, and where the penalty is 0 (a free
intercept) the solution of least norm has nothing there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from goalward.core.arrays import Array, like, namespace

__all__ = ["least_norm", "solve_in_contrasts"]


@cache
def _contrasts(n_classes: int) -> Any:
    return np.ascontiguousarray(scipy.linalg.helmert(n_classes).T)


def solve_in_contrasts(
    g: Float[Array, "p k"],
    penalty: Float[Array, " p"],
    solve: Callable[[Float[Array, "p c"]], Float[Array, "p c"]],
) -> Float[Array, "p k"]:
    """Return 𝓗⁻¹g, given the solution map in the K-1 contrasts."""
    xp = namespace(g)
    n_classes = g.shape[1]
    Q = like(_contrasts(n_classes), g, dtype=g.dtype)
    contrast = solve(g @ Q) @ Q.T
    common = xp.sum(g, axis=1) / n_classes
    safe = xp.where(penalty > 0.0, penalty, xp.ones_like(penalty))
    level = xp.where(penalty > 0.0, common / safe, xp.zeros_like(common))
    return contrast + level[:, None]


def least_norm(v: Float[Array, "p k"], penalty: Float[Array, " p"]) -> Float[Array, "p k"]:
    """Return v without its part along the flat direction of a free intercept."""
    xp = namespace(v)
    level = xp.sum(v, axis=1) / v.shape[1]
    flat = xp.where(penalty > 0.0, xp.zeros_like(level), level)
    return v - flat[:, None]

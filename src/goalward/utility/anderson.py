"""Anderson's acceleration of many fixed-point iterations at once."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, namespace

__all__ = ["Anderson"]

MEMORY = 4
"""Steps to look back on; 3 to 5 take about the same time."""


class Anderson:
    """Anderson's acceleration of the fixed point x = x + step(x), each model on its own."""

    def __init__(self) -> None:
        self.points: list[Array] = []
        self.steps: list[Array] = []
        self.gram: list[list[Array]] = []
        self.last: tuple[Array, Array] | None = None

    def next(self, x: Float[Array, "x m"], step: Float[Array, "x m"]) -> Float[Array, "x m"]:
        """Return the next point: the combination of past steps that cancels best."""
        xp = namespace(x)
        if self.last is not None:
            self._remember(x - self.last[0], step - self.last[1])
        self.last = (x, step)
        count = len(self.steps)
        if count == 0:
            return x + step
        A = xp.stack(
            [
                xp.stack([self.gram[max(i, j)][min(i, j)] for j in range(count)], axis=-1)
                for i in range(count)
            ],
            axis=-2,
        )
        right = xp.stack([columns(s, step) for s in self.steps], axis=-1)
        trace = sum(self.gram[i][i] for i in range(count))
        ridge = 1e-12 * trace + 1e-300
        A = A + ridge[:, None, None] * xp.eye(count, dtype=x.dtype, device=x.device)
        gamma = xp.linalg.solve(A, right[:, :, None])[:, :, 0]
        out = x + step
        for i in range(count):
            out = out - gamma[:, i] * self.points[i]
        return out

    def _remember(self, moved: Float[Array, "x m"], changed: Float[Array, "x m"]) -> None:
        """Keep how the point moved together with the change of the step, and its products."""
        if len(self.steps) == MEMORY:
            del self.points[0], self.steps[0], self.gram[0]
            self.gram = [row[1:] for row in self.gram]
        self.points.append(moved + changed)
        self.steps.append(changed)
        # Products with earlier changes are known already: only those with the newest are taken.
        self.gram.append([columns(changed, other) for other in self.steps])


def columns(a: Float[Array, "x m"], b: Float[Array, "x m"]) -> Float[Array, " m"]:
    """Return the inner product of each column of `a` with that of `b`."""
    if isinstance(a, np.ndarray):
        product: Array = np.einsum("xm,xm->m", a, b)
        return product
    return namespace(a).sum(a * b, axis=0)

"""Anderson's acceleration of many fixed-point iterations at once."""

from __future__ import annotations

from jaxtyping import Float

from goalward.arrays import Array, namespace

__all__ = ["Anderson"]

MEMORY = 4
"""Steps to look back on; 3 to 5 take about the same time."""


class Anderson:
    """Anderson's acceleration of the fixed point x = x + step(x), each model on its own."""

    def __init__(self) -> None:
        self.points: list[Array] = []
        self.steps: list[Array] = []
        self.last: tuple[Array, Array] | None = None

    def next(self, x: Float[Array, "x m"], step: Float[Array, "x m"]) -> Float[Array, "x m"]:
        """Return the next point: the combination of past steps that cancels best."""
        xp = namespace(x)
        if self.last is not None:
            self.points.append(x - self.last[0])
            self.steps.append(step - self.last[1])
            del self.points[:-MEMORY], self.steps[:-MEMORY]
        self.last = (x, step)
        count = len(self.steps)
        if count == 0:
            return x + step
        gram = [
            [xp.sum(s * t, axis=0) for t in self.steps[: i + 1]] for i, s in enumerate(self.steps)
        ]
        A = xp.stack(
            [
                xp.stack([gram[max(i, j)][min(i, j)] for j in range(count)], axis=-1)
                for i in range(count)
            ],
            axis=-2,
        )
        right = xp.stack([xp.sum(s * step, axis=0) for s in self.steps], axis=-1)
        trace = sum(gram[i][i] for i in range(count))
        ridge = 1e-12 * trace + 1e-300
        A = A + ridge[:, None, None] * xp.eye(count, dtype=x.dtype, device=x.device)
        gamma = xp.linalg.solve(A, right[:, :, None])[:, :, 0]
        out = x + step
        for i in range(count):
            out = out - gamma[:, i] * (self.points[i] + self.steps[i])
        return out

    def only(self, index: Array) -> None:
        """Forget the models that are not at `index`."""
        if self.last is None:
            return
        xp = namespace(self.last[0])
        self.last = (xp.take(self.last[0], index, axis=1), xp.take(self.last[1], index, axis=1))
        self.points = [xp.take(x, index, axis=1) for x in self.points]
        self.steps = [xp.take(x, index, axis=1) for x in self.steps]

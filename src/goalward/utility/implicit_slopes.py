"""Slopes of the new rows' loss after the step: r = w (softmax(f - M r) - e_k), for all rows.

Newton steps overshoot for surprising labels and steps with Böhning's bound are small, so a mixture
with Anderson acceleration comes first, and conjugate gradients finish the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, namespace, put_at, rows_at, to_numpy
from goalward.models.loss import Loss

TOLERANCE = 1e-8
"""Largest miss of an equation; a label's slope is of order 1."""

MOST, SEARCHES = 500, 10
"""Most conjugate directions, and most points of each line search."""

BOLD = 0.8
"""Share of the curvature at f in a step: half the sweeps of the bound alone, with 26 classes."""

MEMORY = 4
"""Past steps of Anderson acceleration; 3 to 5 take about the same time."""


@dataclass
class Anderson:
    """Anderson's acceleration of the fixed point x = x + step(x), each model on its own."""

    points: list[Array] = field(default_factory=list)
    steps: list[Array] = field(default_factory=list)
    gram: list[list[Array]] = field(default_factory=list)
    last: tuple[Array, Array] | None = None

    def next(self, x: Float[Array, "x m"], step: Float[Array, "x m"]) -> Float[Array, "x m"]:
        """Return the next point: the combination of past steps that cancels best."""
        xp = namespace(x)
        if self.last is not None:
            changed = step - self.last[1]
            if len(self.steps) == MEMORY:
                del self.points[0], self.steps[0], self.gram[0]
                self.gram = [row[1:] for row in self.gram]
            self.points.append(x - self.last[0] + changed)
            self.steps.append(changed)
            # Only products with the newest change are computed.
            self.gram.append([_columns(changed, other) for other in self.steps])
        self.last, out = (x, step), x + step
        count = len(self.steps)
        if count == 0:
            return out
        gram = [self.gram[max(i, j)][min(i, j)] for i in range(count) for j in range(count)]
        A = xp.reshape(xp.stack(gram, axis=-1), (-1, count, count))
        ridge = 1e-12 * sum(self.gram[i][i] for i in range(count)) + 1e-300
        A = A + ridge[:, None, None] * xp.eye(count, dtype=x.dtype, device=x.device)
        right = xp.stack([_columns(s, step) for s in self.steps], axis=-1)
        gamma = xp.linalg.solve(A, right[:, :, None])[:, :, 0]
        for i in range(count):
            out = out - gamma[:, i] * self.points[i]
        return out


def _columns(a: Float[Array, "x m"], b: Float[Array, "x m"]) -> Float[Array, " m"]:
    """Return the inner product of each column of `a` with that of `b`."""
    if isinstance(a, np.ndarray):
        product: Array = np.einsum("xm,xm->m", a, b)
        return product
    return namespace(a).sum(a * b, axis=0)


def line_search(
    length: Array,
    slope_at: Callable[[Array], tuple[Array, Any]],
    bent: Callable[[Any], Array],
    enough: Array,
    looks: int,
) -> tuple[Array, Any]:
    """Return the minima of convex functions along a line, and the state there, by bracketed Newton.

    `slope_at` returns slopes and the state, `bent` second derivatives from the state. The search
    ends where all slopes are at most `enough`.
    """
    xp = namespace(length)
    low, high = xp.zeros_like(length), xp.full_like(length, float("inf"))
    for left in reversed(range(looks)):
        slope, seen = slope_at(length)
        going = xp.abs(slope) > enough
        if left == 0 or not bool(xp.any(going)):
            break
        low, high = xp.where(slope < 0.0, length, low), xp.where(slope < 0.0, high, length)
        newton = length - slope / bent(seen)
        middle = xp.where(xp.isfinite(high), 0.5 * (low + high), 2.0 * length)
        moved = xp.where((newton > low) & (newton < high), newton, middle)
        length = xp.where(going, moved, length)
    return length, seen


def block_diagonal(blocks: Float[Array, "n b c c"]) -> Float[Array, "n s s"]:
    """Return matrices with the blocks of each on the diagonal."""
    xp, (n, b, c, _) = namespace(blocks), blocks.shape
    if b == 1:
        return blocks[:, 0, :, :]
    eye = xp.eye(b, dtype=blocks.dtype, device=blocks.device)[None, :, None, :, None]
    return xp.reshape(blocks[:, :, :, None, :] * eye, (n, b * c, b * c))


@dataclass(frozen=True)
class Equations:
    """r = w (p(f - M r) - t) of n rows or batches under l labelings; M is the leverage."""

    f: Float[Array, "n s"]
    M: Float[Array, "n s s"]
    targets: Float[Array, "n s l"]
    weights: Float[Array, "n s l"]
    Q: Float[Array, "k c"]
    loss: Loss

    def lifted(self, x: Float[Array, "n s l"]) -> Float[Array, "nb k l"]:
        """Return x in the loss's columns, row of a batch by row of a batch."""
        xp, columns = namespace(x), self.loss.columns(self.Q)
        return xp.matmul(columns, xp.reshape(x, (-1, self.Q.shape[1], x.shape[2])))

    def miss(self, r: Float[Array, "n s l"], law: Array | None = None) -> Float[Array, "n s l"]:
        """Return the residual r - w (p(f - M r) - t); `law` is p if known."""
        xp = namespace(r)
        if law is None:
            law = self.loss.law(self.lifted(self.f[:, :, None] - xp.matmul(self.M, r)))
        mean = xp.matmul(self.loss.columns(self.Q).T, law)
        return r - self.weights * (xp.reshape(mean, r.shape) - self.targets)

    def damping(self) -> Float[Array, "n s s"]:
        """Return (I + BM)⁻¹, B a mixture of the largest curvature at f and its bound."""
        xp, (n, s), c = namespace(self.f), self.f.shape, self.Q.shape[1]
        own = self.loss.blocks(self.loss.proba(xp.reshape(self.f, (-1, c)) @ self.Q.T))
        heaviest = xp.reshape(xp.max(self.weights, axis=2), (n, -1, c))[:, :, :1, None]
        curvature = block_diagonal(xp.reshape(own, (n, -1, c, c)) * heaviest)
        eye = xp.eye(s, dtype=self.f.dtype, device=self.f.device)
        bound = self.loss.steepest * float(xp.max(self.weights))
        B = BOLD * curvature + (1.0 - BOLD) * bound * eye
        return xp.linalg.inv(eye + xp.matmul(B, self.M))

    def only(self, index: slice | NDArray[Any]) -> Equations:
        """Return the equations of the rows at `index`."""
        parts = (self.f, self.M, self.targets, self.weights)
        f, M, targets, weights = (rows_at(x, index) for x in parts)
        return replace(self, f=f, M=M, targets=targets, weights=weights)


def implicit_slopes(equations: Equations, *, most: int = 30) -> Float[Array, "n s l"]:
    """Return r of every row (or batch) under every label (or labeling)."""
    f, targets, weights = equations.f, equations.targets, equations.weights
    xp, (n, s) = namespace(f), f.shape
    if s == equations.Q.shape[1]:
        own = equations.loss.own_slopes(f, equations.M, targets, weights)
        if own is not None:
            return own
    r = done = xp.zeros_like(targets)
    damp = equations.damping()
    active = np.arange(n)
    history = Anderson()
    for sweep in range(1, most + 1):
        miss = equations.miss(r)
        worst = to_numpy(xp.max(xp.max(xp.abs(miss), axis=2), axis=1))
        ready = worst <= TOLERANCE
        if ready.all():
            return put_at(done, active, r, axis=0)
        if sweep == most:
            break
        if ready.mean() >= 0.25:
            done = put_at(done, active, r, axis=0)
            index = np.flatnonzero(~ready)
            damp, r, miss = (rows_at(x, index) for x in (damp, r, miss))
            equations, active = equations.only(index), active[~ready]
            history = Anderson()
        step = -xp.matmul(damp, miss)
        flat = (xp.reshape(xp.permute_dims(x, (1, 0, 2)), (s, -1)) for x in (r, step))
        moved = xp.reshape(history.next(*flat), (s, *r.shape[::2]))
        r = xp.permute_dims(moved, (1, 0, 2))
    # Large leverages: the bound is far from the curvature.
    done = put_at(done, active, r, axis=0)
    index = np.flatnonzero(~ready)
    rest = _descended(equations.only(index), rows_at(damp, index))
    return put_at(done, active[~ready], rest, axis=0)


def _descended(equations: Equations, damp: Float[Array, "n s s"]) -> Float[Array, "n s l"]:
    """Return r by conjugate gradients in the metric of M, with `damp` as preconditioner."""
    xp, loss, r = namespace(damp), equations.loss, equations.targets * 0.0
    n, _, L = r.shape

    def dot(a: Array, b: Array) -> Float[Array, "n 1 l"]:
        return xp.sum(xp.reshape(a * b, (n, -1, L)), axis=1, keepdims=True)

    f = equations.lifted(equations.f[:, :, None] + r)
    weights = xp.reshape(equations.weights, (f.shape[0], -1, L))[:, :1, :]
    law, pulls = loss.law(f), equations.weights * equations.targets

    def searched(moved: Array, step: Array, miss: Array) -> tuple[Array, Array, Array]:
        """Return how far to go along a step, with the logits and the law there."""
        d, first = equations.lifted(moved), dot(moved, miss)
        bend, pull = dot(moved, step), dot(moved, r + pulls)

        def ahead(length: Array) -> Float[Array, "nb k l"]:
            return f - xp.repeat(length, f.shape[0] // n, axis=0) * d

        def slope_at(length: Array) -> tuple[Array, Array]:
            law = loss.law(ahead(length))
            return pull + length * bend - dot(weights * law, d), law

        def bent(law: Array) -> Float[Array, "n 1 l"]:
            second = bend + dot(weights * loss.bent(law, d), d)
            return xp.maximum(second, xp.full_like(second, 1e-300))

        enough = 0.1 * xp.abs(first)
        length, there = line_search(-first / bent(law), slope_at, bent, enough, SEARCHES + 1)
        return length, ahead(length), there

    last: tuple[Array, ...] | None = None
    for _ in range(MOST):
        miss = equations.miss(r, law)
        if float(xp.max(xp.abs(miss))) <= TOLERANCE:
            break
        step = -xp.matmul(damp, miss)
        moved = xp.matmul(equations.M, step)
        size, plain = -dot(miss, moved), moved
        if last is not None:
            before, before_size, before_step, before_moved = last
            share = (size + dot(miss, before)) / xp.maximum(before_size, xp.full_like(size, 1e-300))
            share = xp.where(share * dot(miss, before_moved) < size, share, xp.zeros_like(size))
            share = xp.maximum(share, xp.zeros_like(share))
            step, moved = step + share * before_step, moved + share * before_moved
        last = (plain, size, step, moved)
        length, f, law = searched(moved, step, miss)
        r = r + length * step
    return r

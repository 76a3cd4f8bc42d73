"""The new rows' own equations: r = w (softmax(f - M r) - e_k), solved for all at once.

r is the slope of the new rows' loss where the model will be. Keeping F quadratic, the row's logits
move by -M r, and r is the slope there: K-1 equations in K-1 contrasts, the optimum of the convex
½ rᵀMr + w ℓ(f - M r). Newton steps with the curvature at f overshoot for surprising labels, steps with
its bound w/2 (Böhning) never do and are small. A mixture of the two lets one small inverse serve all
labels of a row; Anderson's method makes up for what it is not, and conjugate directions with line
searches end what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, like, namespace, put_at, to_numpy
from goalward.models.loss import Loss

# Anderson's acceleration of many fixed-point iterations at once.


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


TOLERANCE = 1e-8
"""Largest miss of an equation; a label's slope is of order 1."""

MOST, SEARCHES = 500, 10
"""Conjugate directions, and points looked at along each: a tenth of the slope may be left."""

BOLD = 0.8
"""Share of the curvature at f in a step: half the sweeps of the bound alone, with 26 classes."""


@dataclass(frozen=True)
class Equations:
    """r = w (p(f - M r) - t) of n rows (or batches) under l labels (or labelings), in contrasts.

    Parameters
    ----------
    f
        Logits now: s contrasts of one row, or those of all rows of a batch one after another.
    M
        Leverage.
    targets, weights
        Each labeling in contrasts, and the weight of its rows, repeated over contrasts; one for
        all rows, or one for each.
    """

    f: Float[Array, "n s"]
    M: Float[Array, "n s s"]
    targets: Float[Array, "_ s l"]
    weights: Float[Array, "_ s l"]
    Q: Float[Array, "k c"]
    loss: Loss

    def start(self) -> Float[Array, "n s l"]:
        """Return r = 0."""
        xp = namespace(self.f)
        shape = (*self.f.shape, self.targets.shape[2])
        return xp.zeros(shape, dtype=self.f.dtype, device=self.f.device)

    def logits(self, r: Float[Array, "n s l"]) -> Float[Array, "n s l"]:
        """Return f - M r."""
        return self.f[:, :, None] - namespace(r).matmul(self.M, r)

    def miss(self, r: Float[Array, "n s l"]) -> Float[Array, "n s l"]:
        """Return what r differs from the slope at the logits it leads to."""
        return r - self.slope(self.logits(r))

    def slope(self, f: Float[Array, "n s l"]) -> Float[Array, "n s l"]:
        """Return w (p(f) - t), row of a batch by row of a batch."""
        xp = namespace(f)
        by_row = xp.reshape(f, (-1, self.Q.shape[1], f.shape[2]))
        return self.weights * (xp.reshape(self.loss.mean(by_row, self.Q), f.shape) - self.targets)

    def slope_under(self, law: Float[Array, "nb k l"]) -> Float[Array, "n s l"]:
        """Return w (p - t) where the law is known, in the loss's columns."""
        xp = namespace(law)
        mean = xp.matmul(self.loss.columns(self.Q).T, law)
        shape = (*self.f.shape, law.shape[2])
        return self.weights * (xp.reshape(mean, shape) - self.targets)

    def lifted(self, x: Float[Array, "n s l"]) -> Float[Array, "nb k l"]:
        """Return x in the loss's columns, row of a batch by row of a batch."""
        xp = namespace(x)
        return xp.matmul(
            self.loss.columns(self.Q), xp.reshape(x, (-1, self.Q.shape[1], x.shape[2]))
        )

    def curvature(self) -> Float[Array, "n s s"]:
        """Return w QᵀΛQ at f under the heaviest label, block by block of a batch's rows."""
        xp = namespace(self.f)
        (n, s), c = self.f.shape, self.Q.shape[1]
        b = s // c
        own = self.loss.blocks(self.loss.proba(xp.reshape(self.f, (-1, c)) @ self.Q.T))
        weights = xp.reshape(xp.max(self.weights, axis=2), (-1, b, c))[:, :, :1, None]
        own = xp.reshape(own, (n, b, c, c)) * weights
        diagonal = xp.eye(b, dtype=self.f.dtype, device=self.f.device)[None, :, None, :, None]
        return xp.reshape(own[:, :, :, None, :] * diagonal, (n, s, s))

    def damping(self) -> Float[Array, "n s s"]:
        """Return (I + BM)⁻¹ of every row, B between the curvature at f and its bound."""
        xp = namespace(self.f)
        eye = xp.eye(self.f.shape[1], dtype=self.f.dtype, device=self.f.device)
        bound = self.loss.steepest * float(xp.max(self.weights))
        B = BOLD * self.curvature() + (1.0 - BOLD) * bound * eye
        return xp.linalg.inv(eye + xp.matmul(B, self.M))

    def only(self, index: Array) -> Equations:
        """Return those of the rows at `index`."""
        take = namespace(self.f).take
        f, M = take(self.f, index, axis=0), take(self.M, index, axis=0)
        if self.targets.shape[0] == 1:
            return replace(self, f=f, M=M)
        targets, weights = take(self.targets, index, axis=0), self.weights
        weights = weights if weights.shape[0] == 1 else take(weights, index, axis=0)
        return replace(self, f=f, M=M, targets=targets, weights=weights)


def implicit_slopes(equations: Equations, *, most: int = 30) -> Float[Array, "n s l"]:
    """Return r of every row (or batch) under every label (or labeling)."""
    f = equations.f
    xp = namespace(f)
    n, s = f.shape
    r = done = equations.start()
    if s == equations.Q.shape[1]:
        own = equations.loss.own_slopes(f, equations.M, equations.targets, equations.weights)
        if own is not None:
            return own
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
            index = like(np.flatnonzero(~ready), f)
            damp, r, miss = (xp.take(x, index, axis=0) for x in (damp, r, miss))
            equations, active = equations.only(index), active[~ready]
            history = Anderson()
        step = -xp.matmul(damp, miss)
        flat = (xp.reshape(xp.permute_dims(x, (1, 0, 2)), (s, -1)) for x in (r, step))
        moved = xp.reshape(history.next(*flat), (s, *r.shape[::2]))
        r = xp.permute_dims(moved, (1, 0, 2))
    # Large leverages: the bound is far from the curvature.
    done = put_at(done, active, r, axis=0)
    index = like(np.flatnonzero(~ready), f)
    rest = _descended(equations.only(index), xp.take(damp, index, axis=0))
    return put_at(done, active[~ready], rest, axis=0)


def _descended(equations: Equations, damp: Float[Array, "n s s"]) -> Float[Array, "n s l"]:
    """Return r by conjugate directions with line searches, each (row, label) on its own.

    In the metric of M the miss is the slope of the convex ½ rᵀMr + w ℓ(f - M r), and `damp` a
    preconditioner. Logits are linear in a step, so a search takes no product with M; and no
    (row, label) has a matrix of its own.
    """
    xp, r = namespace(damp), equations.start()
    shape, M = r.shape, equations.M

    def dot(a: Array, b: Array) -> Float[Array, "n 1 l"]:
        return xp.sum(xp.reshape(a * b, (shape[0], -1, shape[2])), axis=1, keepdims=True)

    def by_model(x: Float[Array, "n 1 l"]) -> Float[Array, "nb 1 l"]:
        return xp.repeat(x, f.shape[0] // shape[0], axis=0)

    def bent(law: Array, d: Array, bend: Array) -> Float[Array, "n 1 l"]:
        bend = bend + dot(weights * equations.loss.bent(law, d), d)
        return xp.maximum(bend, xp.full_like(bend, 1e-300))

    f = equations.lifted(equations.logits(r))
    each = xp.broadcast_to(equations.weights, shape)
    weights = xp.reshape(each, (f.shape[0], -1, shape[2]))[:, :1, :]
    last: tuple[Array, ...] | None = None
    for _ in range(MOST):
        law = equations.loss.law(f)
        miss = r - equations.slope_under(law)
        if float(xp.max(xp.abs(miss))) <= TOLERANCE:
            break
        step = -xp.matmul(damp, miss)
        moved = xp.matmul(M, step)
        size, plain = -dot(miss, moved), moved
        if last is not None:
            before, before_size, before_step, before_moved = last
            share = (size + dot(miss, before)) / xp.maximum(before_size, xp.full_like(size, 1e-300))
            share = xp.where(share * dot(miss, before_moved) < size, share, xp.zeros_like(size))
            share = xp.maximum(share, xp.zeros_like(share))
            step, moved = step + share * before_step, moved + share * before_moved
        last = (plain, size, step, moved)
        d = equations.lifted(moved)
        bend, pull = dot(moved, step), dot(moved, r + each * equations.targets)
        first = dot(moved, miss)
        length = -first / bent(law, d, bend)
        low, high = xp.zeros_like(length), xp.full_like(length, float("inf"))
        for _ in range(SEARCHES):
            law = equations.loss.law(f - by_model(length) * d)
            slope = pull + length * bend - dot(weights * law, d)
            going = xp.abs(slope) > 0.1 * xp.abs(first)
            if not bool(xp.any(going)):
                break
            low, high = xp.where(slope < 0.0, length, low), xp.where(slope < 0.0, high, length)
            newton = length - slope / bent(law, d, bend)
            middle = xp.where(xp.isfinite(high), 0.5 * (low + high), 2.0 * length)
            inside = (newton > low) & (newton < high)
            length = xp.where(going, xp.where(inside, newton, middle), length)
        r, f = r + length * step, f - by_model(length) * d
    return r

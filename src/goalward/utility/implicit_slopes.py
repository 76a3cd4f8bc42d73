"""The new rows' own equations: r = w (softmax(f - M r) - e_k), solved for all at once.

r is the slope of the new rows' loss where the model will be. Keeping F quadratic, the row's logits
move by -M r, and r is the slope there: K-1 equations in K-1 contrasts, the optimum of the convex
½ rᵀMr + w ℓ(f - M r). Newton steps with the curvature at f overshoot for surprising labels, steps with
its bound w/2 (Böhning) never do and are small. A mixture of the two lets one small inverse serve all
labels of a row; Anderson's method makes up for what it is not, and Newton's, damped, ends what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, like, namespace, put_at, to_numpy
from goalward.models import Loss
from goalward.utility.anderson import Anderson

__all__ = ["Equations", "implicit_slopes"]

TOLERANCE = 1e-8
"""Largest miss of an equation; a label's slope is of order 1."""

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

    def curvature(self, f: Float[Array, "n s l"]) -> Float[Array, "n l s s"]:
        """Return w QᵀΛQ for every (row, label), block by block of a batch's rows."""
        xp = namespace(f)
        (n, s, n_labels), c = f.shape, self.Q.shape[1]
        b = s // c
        by_row = xp.reshape(xp.permute_dims(f, (0, 2, 1)), (-1, c))
        own = self.loss.blocks(self.loss.proba(by_row @ self.Q.T))
        each = xp.permute_dims(self.weights, (0, 2, 1))
        by_label = xp.reshape(each, (-1, n_labels, b, c))[:, :, :, :1, None]
        own = xp.reshape(own, (n, n_labels, b, c, c)) * by_label
        diagonal = xp.eye(b, dtype=f.dtype, device=f.device)[None, None, :, None, :, None]
        return xp.reshape(own[:, :, :, :, None, :] * diagonal, (n, n_labels, s, s))

    def newton(self, r: Float[Array, "n s l"], miss: Float[Array, "n s l"]) -> Array:
        """Return Newton's step from r: -(I + wΛM)⁻¹ of the miss."""
        xp = namespace(r)
        eye = xp.eye(r.shape[1], dtype=r.dtype, device=r.device)
        jacobian = eye + xp.matmul(self.curvature(self.logits(r)), self.M[:, None, :, :])
        flat = xp.permute_dims(miss, (0, 2, 1))[:, :, :, None]
        return -xp.permute_dims(xp.linalg.solve(jacobian, flat)[:, :, :, 0], (0, 2, 1))

    def damping(self) -> Float[Array, "n s s"]:
        """Return (I + BM)⁻¹ of every row, B between the curvature at f and its bound."""
        xp = namespace(self.f)
        eye = xp.eye(self.f.shape[1], dtype=self.f.dtype, device=self.f.device)
        weights = xp.max(self.weights, axis=2, keepdims=True)
        heaviest = replace(self, targets=self.targets[:, :, :1], weights=weights)
        here = heaviest.curvature(self.f[:, :, None])[:, 0, :, :]
        bound = self.loss.steepest * float(xp.max(self.weights))
        B = BOLD * here + (1.0 - BOLD) * bound * eye
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


def implicit_slopes(equations: Equations, *, most: int = 60) -> Float[Array, "n s l"]:
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
    # Large leverages: the bound is far from the curvature. Few rows come here.
    done = put_at(done, active, r, axis=0)
    rest = equations.only(like(np.flatnonzero(~ready), f))
    return put_at(done, active[~ready], _damped_newton(rest), axis=0)


def _damped_newton(equations: Equations) -> Float[Array, "n s l"]:
    """Return r by Newton's method, each (row, label) with steps halved until the miss falls."""

    def missed(r: Array) -> tuple[Array, Array]:
        # In the metric of M the miss is the slope of the convex objective, so it can fall.
        miss = equations.miss(r)
        return miss, xp.sum(miss * xp.matmul(equations.M, miss), axis=1, keepdims=True)

    r = equations.start()
    xp = namespace(r)
    miss, size = missed(r)
    for _ in range(100):
        if float(xp.max(xp.abs(miss))) <= TOLERANCE:
            break
        step = equations.newton(r, miss)
        length = xp.ones_like(size)
        best, best_miss, best_size = r, miss, size
        for _ in range(30):
            trial = r + length * step
            trial_miss, trial_size = missed(trial)
            better = trial_size < best_size
            best = xp.where(better, trial, best)
            best_miss = xp.where(better, trial_miss, best_miss)
            best_size = xp.where(better, trial_size, best_size)
            if bool(xp.all(better | (size <= 1e-30))):
                break
            length = xp.where(best_size < size, length, 0.5 * length)
        r, miss, size = best, best_miss, best_size
    return r

"""The new rows' own equations: r = w (softmax(f - M r) - e_k), solved for all at once.

r is the slope of the new rows' loss where the model will be. Keeping F quadratic, the row's logits
move by -M r, and r is the slope there: K-1 equations in K-1 contrasts, the optimum of the convex
½ rᵀMr + w ℓ(f - M r). Newton steps with the curvature at f overshoot for surprising labels; here the
curvature is replaced by its bound w/2 (Böhning), which never overshoots and lets one small inverse
serve all labels of a row, and Anderson's method makes up for the smaller steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, like, namespace, softmax, to_numpy
from goalward.utility.added_rows import mean_in_contrasts, own_logit
from goalward.utility.anderson import Anderson

__all__ = ["implicit_slopes", "newton_slopes"]

TOLERANCE = 1e-8
"""Largest miss of an equation; a label's slope is of order 1."""


def newton_slopes(
    f: Float[Array, "n s"],
    M: Float[Array, "n s s"],
    targets: Float[Array, "s l"],
    weights: Float[Array, "s l"],
    Q: Float[Array, "k c"],
) -> Float[Array, "n s l"]:
    """Return the first full Newton step from r = 0: (I + wΛM)⁻¹ w (p - e_k)."""
    xp = namespace(f)
    n, s = f.shape
    wide = xp.broadcast_to(f[:, :, None], (n, s, targets.shape[1]))
    slope = xp.permute_dims(weights * (_mean(wide, Q) - targets), (0, 2, 1))[:, :, :, None]
    eye = xp.eye(s, dtype=M.dtype, device=M.device)
    jacobian = eye + xp.matmul(_blocks(wide, Q, weights), M[:, None, :, :])
    return xp.permute_dims(xp.linalg.solve(jacobian, slope)[:, :, :, 0], (0, 2, 1))


def implicit_slopes(
    f: Float[Array, "n s"],
    M: Float[Array, "n s s"],
    targets: Float[Array, "s l"],
    weights: Float[Array, "s l"],
    Q: Float[Array, "k c"],
    *,
    most: int = 60,
) -> Float[Array, "n s l"]:
    """Return r of every row (or batch) under every label (or labeling), in contrasts.

    Parameters
    ----------
    f
        Logits now: s contrasts of one row, or those of all rows of a batch one after another.
    M
        Leverage.
    targets, weights
        Each labeling in contrasts, and the weight of its rows, repeated over contrasts.
    """
    xp = namespace(f)
    n, s = f.shape
    n_labels = targets.shape[1]
    if s == 1:
        steps = weights * M[:, 0, :]
        root = own_logit(f, steps, xp.broadcast_to(targets, (n, n_labels)), steps=60)
        return (weights * (_mean(root[:, None, :], Q)[:, 0, :] - targets))[:, None, :]
    heaviest = float(xp.max(weights))
    eye = xp.eye(s, dtype=M.dtype, device=M.device)
    # (I + (w/2) M)⁻¹ against the miss: the bound's Newton step, one inverse per row.
    damp = xp.linalg.inv(eye + 0.5 * heaviest * M)
    r = xp.broadcast_to(xp.zeros_like(targets), (n, s, n_labels)) + 0.0
    active = np.arange(n)
    done = r
    history = Anderson()
    for sweep in range(1, most + 1):
        miss = r - weights * (_mean(f[:, :, None] - xp.matmul(M, r), Q) - targets)
        worst = to_numpy(xp.max(xp.max(xp.abs(miss), axis=2), axis=1))
        ready = worst <= TOLERANCE
        if ready.all():
            return _put(done, active, r)
        if sweep == most:
            break
        if ready.mean() >= 0.25:
            done = _put(done, active, r)
            index = like(np.flatnonzero(~ready), f)
            f, M, damp, r, miss = (xp.take(x, index, axis=0) for x in (f, M, damp, r, miss))
            active = active[~ready]
            history = Anderson()
        step = -xp.matmul(damp, miss)
        count = r.shape[0] * n_labels
        flat = (xp.reshape(xp.permute_dims(x, (1, 0, 2)), (s, count)) for x in (r, step))
        moved = xp.reshape(history.next(*flat), (s, -1, n_labels))
        r = xp.permute_dims(moved, (1, 0, 2))
    # Large leverages: the bound is far from the curvature. Few rows come here.
    done = _put(done, active, r)
    index = like(np.flatnonzero(~ready), f)
    f, M = (xp.take(x, index, axis=0) for x in (f, M))
    return _put(done, active[~ready], _damped_newton(f, M, targets, weights, Q))


def _damped_newton(
    f: Float[Array, "n s"],
    M: Float[Array, "n s s"],
    targets: Float[Array, "s l"],
    weights: Float[Array, "s l"],
    Q: Float[Array, "k c"],
) -> Float[Array, "n s l"]:
    """Return r by Newton's method, each (row, label) with steps halved until the miss falls."""
    xp = namespace(f)
    n, s = f.shape
    n_labels = targets.shape[1]
    eye = xp.eye(s, dtype=M.dtype, device=M.device)
    r = xp.broadcast_to(xp.zeros_like(targets), (n, s, n_labels)) + 0.0

    def missed(r: Array) -> tuple[Array, Array]:
        # In the metric of M the miss is the slope of the convex objective, so it can fall.
        miss = r - weights * (_mean(f[:, :, None] - xp.matmul(M, r), Q) - targets)
        return miss, xp.sum(miss * xp.matmul(M, miss), axis=1, keepdims=True)

    miss, size = missed(r)
    for _ in range(100):
        if float(xp.max(xp.abs(miss))) <= TOLERANCE:
            break
        blocks = _blocks(f[:, :, None] - xp.matmul(M, r), Q, weights)
        jacobian = eye + xp.matmul(blocks, M[:, None, :, :])
        flat = xp.permute_dims(miss, (0, 2, 1))[:, :, :, None]
        step = -xp.permute_dims(xp.linalg.solve(jacobian, flat)[:, :, :, 0], (0, 2, 1))
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


def _blocks(
    f: Float[Array, "n s l"], Q: Float[Array, "k c"], weights: Float[Array, "s l"]
) -> Float[Array, "n l s s"]:
    """Return w QᵀΛQ at logits f for every (row, label), block by block of a batch's rows."""
    xp = namespace(f)
    n, s, n_labels = f.shape
    K, c = Q.shape
    b = s // c
    by_row = xp.reshape(xp.permute_dims(f, (0, 2, 1)), (n * n_labels * b, c))
    p = softmax(by_row @ Q.T)
    pairs = xp.reshape(Q[:, :, None] * Q[:, None, :], (K, c * c))
    mean = p @ Q
    own = xp.reshape(p @ pairs, (-1, c, c)) - mean[:, :, None] * mean[:, None, :]
    own = xp.reshape(own, (n, n_labels, b, c, c))
    by_label = xp.reshape(weights.T, (n_labels, b, c))[:, :, :1]
    own = own * by_label[None, :, :, :, None]
    diagonal = xp.eye(b, dtype=f.dtype, device=f.device)[None, None, :, None, :, None]
    return xp.reshape(own[:, :, :, :, None, :] * diagonal, (n, n_labels, s, s))


def _mean(f: Float[Array, "n s l"], Q: Float[Array, "k c"]) -> Float[Array, "n s l"]:
    """Return the predicted mean in contrasts, row of a batch by row of a batch."""
    xp = namespace(f)
    n, s, n_labels = f.shape
    c = Q.shape[1]
    by_row = xp.reshape(f, (n * (s // c), c, n_labels))
    return xp.reshape(mean_in_contrasts(by_row, Q), (n, s, n_labels))


def _put(
    into: Float[Array, "n s l"], active: NDArray[Any], r: Float[Array, "m s l"]
) -> Float[Array, "n s l"]:
    """Return `into` with the active rows replaced."""
    if len(active) == into.shape[0]:
        return r
    xp = namespace(into)
    source = np.zeros(into.shape[0], dtype=np.int64)
    source[active] = np.arange(len(active))
    mask = np.zeros(into.shape[0], dtype=bool)
    mask[active] = True
    return xp.where(like(mask, into)[:, None, None], xp.take(r, like(source, into), axis=0), into)

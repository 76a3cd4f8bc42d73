"""Retraining many models at once: chord steps with a shared inverse, and Anderson.

All models have the labelled rows in common and differ in a few added rows. In the
coordinates of the inverse, a model is Ψ (q, c), c = K-1 contrasts, and a dual number a (b, c) for
the direction of its own that each added row brings. Writing z̃ for the added rows'
coordinates, S for what is outside (their Gram matrix there), r for residuals p - t:

    added logits   f = z̃Ψ + S a
    gradient       g = Bᵀ W r + z̃ᵀ α + ρ∘Ψ,   and (in the own directions)  α + ρ a
    step           P⁻¹ of the gradient, P = 𝓗₀ ⊕ ρ + (added rows) D (added rows)ᵀ

𝓗₀ is the curvature before, inverted once for everyone, so that a sweep over all models
is three matrix products. D damps the added rows: their curvature now for one row of two
classes, else its bound ½ (Böhning), with which one small inverse serves all labels. The
step is accelerated by Anderson's method, model by model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, like, namespace, put_at, to_numpy
from goalward.utility.added_rows import Added, Base, times
from goalward.utility.anderson import Anderson

__all__ = ["retrain"]


def retrain(
    base: Base, added: Added, *, tol: float, max_sweeps: int
) -> tuple[Float[Array, "q c m"], Float[Array, "b c m"], NDArray[Any]]:
    """Return Ψ, a and which models converged: Newton decrement ≤ tol times the first one.

    The decrement √(gᵀP₀⁻¹g) measures a gradient by how far it still moves the model, also
    along directions that a weak penalty hardly holds.

    Models leave the sweep as they converge. One that has not after `max_sweeps`, or whose
    numbers overflow, is reported as stalled and left to the caller.
    """
    psi, a = added.start(base)
    xp = namespace(psi)
    q, c, n_models = psi.shape
    b = a.shape[0]
    done_psi, done_a = psi, a
    converged = np.zeros(n_models, dtype=bool)
    active = np.arange(n_models)
    target = tol * _first_decrement(base, added, psi.shape)
    history = Anderson()
    for sweep in range(1, max_sweeps + 1):
        step, size = _sweep(base, added, psi, a)
        size = to_numpy(size)
        ready, dead = size <= target, ~np.isfinite(size)
        if ready.all() and len(active) == n_models:
            return psi, a, ready
        keep = ~(ready | dead)
        last = sweep == max_sweeps or not keep.any()
        # Dropping a few models costs a copy of everything: wait for a quarter.
        if last or keep.sum() <= 0.75 * len(keep):
            some = like(np.flatnonzero(ready), psi)
            done_psi = put_at(done_psi, active[ready], xp.take(psi, some, axis=2), axis=2)
            done_a = put_at(done_a, active[ready], xp.take(a, some, axis=2), axis=2)
            converged[active[ready]] = True
            if last:
                break
            left = added.surviving(keep)
            index = like(left, psi)
            psi, a, step = (xp.take(x, index, axis=x.ndim - 1) for x in (psi, a, step))
            added, active, target = added.only(left), active[left], target[left]
            history.only(index)
        m = psi.shape[2]
        flat = xp.concat([xp.reshape(psi, (q * c, m)), xp.reshape(a, (b * c, m))], axis=0)
        flat = history.next(flat, step)
        psi = xp.reshape(flat[: q * c, :], (q, c, m))
        a = xp.reshape(flat[q * c :, :], (b, c, m))
    return done_psi, done_a, converged


def _sweep(
    base: Base, added: Added, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]
) -> tuple[Float[Array, "x m"], Float[Array, " m"]]:
    """Return the preconditioned step of every model, and its Newton decrement."""
    xp = namespace(psi)
    q, c, m = psi.shape
    f = times(base.B, psi)
    r = base.weights[:, None, None] * (base.mean(f) - base.targets[:, :, None])
    f_added = added.logits(psi, a)
    alpha = added.weights * (base.mean(f_added) - added.targets)
    g = times(base.B.T, r) + added.pull(alpha) + base.coordinates.ridge[:, None, None] * psi
    own = alpha / base.rho + a
    spread = added.outside(own)
    h = xp.reshape(base.inverse.matrix @ xp.reshape(g, (q * c, m)), (q, c, m))
    size = xp.sum(g * h, axis=(0, 1)) + base.rho * xp.sum(own * spread, axis=(0, 1))
    moved = added.logits(h, own)
    y = added.damped(moved, f_added)
    step_psi = added.inverse_pull(y) - h
    step_a = y / base.rho - own
    step = xp.concat([xp.reshape(step_psi, (q * c, m)), xp.reshape(step_a, (-1, m))], axis=0)
    return step, xp.sqrt(xp.maximum(size, xp.zeros_like(size)))


def _first_decrement(base: Base, added: Added, shape: tuple[int, int, int]) -> NDArray[Any]:
    """Return the decrement of every model at the optimum before: what its added rows pull with.

    A label the model is certain of pulls with nothing, so residuals count as 1e-6 at least.
    """
    xp = namespace(base.start)
    psi = xp.broadcast_to(base.start[:, :, None], shape)
    zero = xp.zeros_like(added.targets)
    alpha = base.mean(added.logits(psi, zero)) - added.targets
    pulls = []
    for residual in (added.weights * alpha, 1e-6 * added.targets):
        own = xp.sum(residual * added.outside(residual), axis=(0, 1)) / base.rho
        inside = xp.sum(added.pull(residual) * added.inverse_pull(residual), axis=(0, 1))
        pulls.append(np.sqrt(np.maximum(to_numpy(inside + own), 0.0)))
    first: NDArray[Any] = np.maximum(*pulls)
    return first

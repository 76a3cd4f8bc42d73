"""Retraining many models at once: chord steps with a shared inverse, and Anderson.

All models have the labelled rows in common and differ in a few added rows. In the
coordinates of `Span`, a model is Ψ (q, c), c = K-1 contrasts, and a dual number a (b, c) for
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

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from goalward.arrays import Array, like, namespace, to_numpy

__all__ = ["Added", "Base", "Singles", "Window", "mean_in_contrasts", "retrain"]

MEMORY = 4
"""Steps Anderson's method looks back on; 3 to 5 take about the same time."""


@dataclass(frozen=True)
class Base:
    """What all retrained models share.

    Parameters
    ----------
    B, targets, weights
        The labelled rows: (n, q) coordinates, (n, c) targets in contrasts, (n,) weights.
    ridge, rho
        Penalty of each coordinate, and of directions outside the span.
    start
        (q, c) optimum before.
    inverse
        (q, c, q, c) inverse of 𝓗₀.
    Q
        (K, c) contrasts.
    """

    B: Float[Array, "n q"]
    targets: Float[Array, "n c"]
    weights: Float[Array, " n"]
    ridge: Float[Array, " q"]
    rho: float
    start: Float[Array, "q c"]
    inverse: Float[Array, "q c q c"]
    Q: Float[Array, "k c"]


class Added(Protocol):
    """The added rows of M models; arrays of models have the model axis last."""

    targets: Float[Array, "b c m"]

    def logits(self, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]) -> Array: ...
    def outside(self, a: Float[Array, "b c m"]) -> Array: ...
    def pull(self, alpha: Float[Array, "b c m"]) -> Float[Array, "q c m"]: ...
    def inverse_pull(self, y: Float[Array, "b c m"]) -> Float[Array, "q c m"]: ...
    def damped(self, moved: Float[Array, "b c m"], logits: Array) -> Array: ...
    def start(self, base: Base) -> tuple[Array, Array]: ...
    def surviving(self, keep: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]: ...
    def only(self, index: np.ndarray[Any, Any]) -> Added: ...


def mean_in_contrasts(f: Float[Array, "n c m"], Q: Float[Array, "k c"]) -> Float[Array, "n c m"]:
    """Return Qᵀ softmax(Q f): the predicted mean, in contrasts."""
    xp = namespace(f)
    if Q.shape[0] == 2:
        # Q = (1, -1)/√2, so p₀ - p₁ = tanh(f/√2): one function, no overflow.
        return xp.tanh(f * 0.5**0.5) * 0.5**0.5
    logits = xp.matmul(Q, f)
    exp = xp.exp(logits - xp.max(logits, axis=1, keepdims=True))
    return xp.matmul(Q.T, exp / xp.sum(exp, axis=1, keepdims=True))


@dataclass(frozen=True)
class Singles:
    """One added row per model: G rows under L labels each, M = G L models, label last."""

    Z: Float[Array, "q g"]
    S: Float[Array, " g"]
    U: Float[Array, "g qc c"] = field(repr=False)
    """𝓗₀⁻¹ z̃ᵀ for every row."""
    leverage: Float[Array, "g c c"]
    targets: Float[Array, "1 c m"]
    damping: Float[Array, "g c c"] | None = None

    @classmethod
    def of(cls, base: Base, Z: Array, S: Array, targets: Array) -> Singles:
        """Return the models of rows with coordinates Z (q, G) and targets (1, c, G L)."""
        xp = namespace(Z)
        q, c = base.start.shape
        n_rows = Z.shape[1]
        by_row = xp.reshape(xp.permute_dims(base.inverse, (0, 1, 3, 2)), (q * c * c, q))
        U = xp.reshape(by_row @ Z, (q, c, c, n_rows))
        leverage = xp.permute_dims(xp.sum(Z[:, None, None, :] * U, axis=0), (2, 0, 1))
        eye = xp.eye(c, dtype=Z.dtype, device=Z.device)
        leverage = leverage + (S / base.rho)[:, None, None] * eye
        damping = None if c == 1 else xp.linalg.inv(leverage + 2.0 * eye)
        U = xp.reshape(xp.permute_dims(U, (3, 0, 1, 2)), (n_rows, q * c, c))
        return cls(Z, S, U, leverage, targets, damping)

    def logits(self, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]) -> Array:
        """Return z̃Ψ + S a."""
        xp = namespace(psi)
        products = self.Z[:, None, :, None] * self._by_row(psi)
        return xp.reshape(xp.sum(products, axis=0), a.shape) + self.outside(a)

    def outside(self, a: Float[Array, "b c m"]) -> Array:
        """Return S a."""
        xp = namespace(a)
        return xp.reshape(self.S[:, None] * self._by_row(a), a.shape)

    def pull(self, alpha: Float[Array, "b c m"]) -> Float[Array, "q c m"]:
        """Return z̃ᵀα."""
        xp = namespace(alpha)
        pulled = self.Z[:, None, :, None] * self._by_row(alpha)
        return xp.reshape(pulled, (self.Z.shape[0], *alpha.shape[1:]))

    def inverse_pull(self, y: Float[Array, "b c m"]) -> Float[Array, "q c m"]:
        """Return 𝓗₀⁻¹ z̃ᵀ y."""
        return self._each(self.U, y, (self.Z.shape[0], *y.shape[1:]))

    def damped(self, moved: Float[Array, "b c m"], logits: Array) -> Array:
        """Return (D⁻¹ + leverage)⁻¹ of the added rows' motion."""
        xp = namespace(moved)
        if self.damping is not None:
            return self._each(self.damping, moved, moved.shape)
        p = self._by_row(xp.tanh(logits * 0.5**0.5))
        D = 0.5 * (1.0 - p * p)
        factor = D / (1.0 + D * self.leverage[:, 0, :])
        return xp.reshape(factor, moved.shape) * moved

    def start(self, base: Base) -> tuple[Array, Array]:
        """Return the first guess: the implicit step for two classes, else the optimum before.

        For two classes the new row's own equation f = f₀ - M (p(f) - t) is solved exactly by
        Newton within its bracket, so that a surprising label does not overshoot.
        """
        xp = namespace(self.Z)
        q, c = base.start.shape
        n_models = self.targets.shape[2]
        psi = xp.broadcast_to(base.start[:, :, None], (q, c, n_models)) + 0.0
        a = xp.zeros_like(self.targets)
        if self.damping is not None:
            return psi, a
        M = self.leverage[:, 0, :]
        f0 = (base.start[:, 0] @ self.Z)[:, None]
        t = self._by_row(self.targets)[0, 0]
        # |p - t| ≤ √2, and the left side is increasing: the root lies in between.
        low, high = f0 - 2.0**0.5 * M + 0.0 * t, f0 + 2.0**0.5 * M + 0.0 * t
        f = f0 + 0.0 * t
        for _ in range(8):
            p = xp.tanh(f * 0.5**0.5)
            miss = f - f0 + M * (p * 0.5**0.5 - t)
            low, high = xp.where(miss < 0.0, f, low), xp.where(miss < 0.0, high, f)
            f = f - miss / (1.0 + 0.5 * M * (1.0 - p * p))
            f = xp.where((f > low) & (f < high), f, 0.5 * (low + high))
        own = xp.reshape(f, self.targets.shape)
        alpha = mean_in_contrasts(own, base.Q) - self.targets
        return psi - self.inverse_pull(alpha), -alpha / base.rho

    def surviving(self, keep: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the models of every row that still has one to keep."""
        n_rows = self.Z.shape[1]
        rows = keep.reshape(n_rows, -1).any(axis=1)
        return np.flatnonzero(np.repeat(rows, len(keep) // n_rows))

    def only(self, index: np.ndarray[Any, Any]) -> Singles:
        """Return the models at `index`, all labels of some rows."""
        xp = namespace(self.Z)
        n_labels = self.targets.shape[2] // self.Z.shape[1]
        rows = like(index[::n_labels] // n_labels, self.Z)
        return Singles(
            xp.take(self.Z, rows, axis=1),
            xp.take(self.S, rows, axis=0),
            xp.take(self.U, rows, axis=0),
            xp.take(self.leverage, rows, axis=0),
            xp.take(self.targets, like(index, self.Z), axis=2),
            None if self.damping is None else xp.take(self.damping, rows, axis=0),
        )

    def _by_row(self, x: Float[Array, "s c m"]) -> Float[Array, "s c g l"]:
        return namespace(x).reshape(x, (x.shape[0], x.shape[1], self.Z.shape[1], -1))

    def _each(self, A: Float[Array, "g r c"], y: Array, shape: tuple[int, ...]) -> Array:
        """Return each row's matrix times its labels' vectors, as an array of models."""
        xp = namespace(y)
        by_row = xp.permute_dims(self._by_row(y)[0], (1, 0, 2))
        if by_row.shape[1] == 1:
            product = A * by_row
        else:
            product = xp.matmul(A, by_row)
        return xp.reshape(xp.permute_dims(product, (1, 0, 2)), shape)


@dataclass(frozen=True)
class Window:
    """The same b added rows in all models, under M labelings."""

    Z: Float[Array, "b q"]
    S: Float[Array, "b b"]
    U: Float[Array, "qc bc"] = field(repr=False)
    damping: Float[Array, "bc bc"]
    targets: Float[Array, "b c m"]

    @classmethod
    def of(cls, base: Base, Z: Array, S: Array, targets: Array) -> Window:
        """Return the models of a batch with coordinates Z (b, q) and targets (b, c, M)."""
        xp = namespace(Z)
        q, c = base.start.shape
        b = Z.shape[0]
        by_row = xp.reshape(xp.permute_dims(base.inverse, (0, 1, 3, 2)), (q * c * c, q))
        U = xp.reshape(by_row @ Z.T, (q * c, c, b))
        U = xp.reshape(xp.permute_dims(U, (0, 2, 1)), (q * c, b * c))
        leverage = xp.reshape(Z @ xp.reshape(U, (q, c * b * c)), (b * c, b * c))
        eye = xp.eye(c, dtype=Z.dtype, device=Z.device)
        own = xp.reshape((S / base.rho)[:, None, :, None] * eye[None, :, None, :], (b * c, b * c))
        bound = 2.0 * xp.eye(b * c, dtype=Z.dtype, device=Z.device)
        return cls(Z, S, U, xp.linalg.inv(leverage + own + bound), targets)

    def logits(self, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]) -> Array:
        """Return z̃Ψ + S a."""
        return _times(self.Z, psi) + self.outside(a)

    def outside(self, a: Float[Array, "b c m"]) -> Array:
        """Return S a."""
        return _times(self.S, a)

    def pull(self, alpha: Float[Array, "b c m"]) -> Float[Array, "q c m"]:
        """Return z̃ᵀα."""
        return _times(self.Z.T, alpha)

    def inverse_pull(self, y: Float[Array, "b c m"]) -> Float[Array, "q c m"]:
        """Return 𝓗₀⁻¹ z̃ᵀ y."""
        xp = namespace(y)
        b, c, m = y.shape
        return xp.reshape(self.U @ xp.reshape(y, (b * c, m)), (-1, c, m))

    def damped(self, moved: Float[Array, "b c m"], logits: Array) -> Array:
        """Return (D⁻¹ + leverage)⁻¹ of the added rows' motion, D the bound ½."""
        xp = namespace(moved)
        b, c, m = moved.shape
        return xp.reshape(self.damping @ xp.reshape(moved, (b * c, m)), (b, c, m))

    def start(self, base: Base) -> tuple[Array, Array]:
        """Return the optimum before as the first guess."""
        xp = namespace(self.Z)
        q, c = base.start.shape
        n_models = self.targets.shape[2]
        psi = xp.broadcast_to(base.start[:, :, None], (q, c, n_models))
        return psi + 0.0, xp.zeros_like(self.targets)

    def surviving(self, keep: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the models to keep."""
        return np.flatnonzero(keep)

    def only(self, index: np.ndarray[Any, Any]) -> Window:
        """Return the models at `index`."""
        targets = namespace(self.targets).take(self.targets, like(index, self.Z), axis=2)
        return Window(self.Z, self.S, self.U, self.damping, targets)


def _times(A: Float[Array, "r s"], x: Float[Array, "s c m"]) -> Float[Array, "r c m"]:
    xp = namespace(x)
    return xp.reshape(A @ xp.reshape(x, (x.shape[0], -1)), (A.shape[0], *x.shape[1:]))


def retrain(
    base: Base, added: Added, *, tol: float, max_sweeps: int
) -> tuple[Float[Array, "q c m"], Float[Array, "b c m"], np.ndarray[Any, Any]]:
    """Return Ψ, a and which models converged to ‖g‖ ≤ tol ‖g at the optimum before‖.

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
    target = tol * _first_gradient(base, added, psi.shape)
    history = _Anderson()
    for _ in range(max_sweeps):
        step, size = _sweep(base, added, psi, a)
        size = to_numpy(size)
        ready, dead = size <= target, ~np.isfinite(size)
        if ready.all() and len(active) == n_models:
            return psi, a, ready
        keep = ~(ready | dead)
        # Dropping a few models costs a copy of everything: wait for a quarter.
        if not keep.any() or keep.sum() <= 0.75 * len(keep):
            done_psi = _put(done_psi, active[ready], psi, ready)
            done_a = _put(done_a, active[ready], a, ready)
            converged[active[ready]] = True
            if not keep.any():
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
    else:
        done_psi = _put(done_psi, active[ready], psi, ready)
        done_a = _put(done_a, active[ready], a, ready)
        converged[active[ready]] = True
    return done_psi, done_a, converged


def _sweep(
    base: Base, added: Added, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]
) -> tuple[Float[Array, "x m"], Float[Array, " m"]]:
    """Return the preconditioned step of every model, and its gradient norm."""
    xp = namespace(psi)
    q, c, m = psi.shape
    f = _times(base.B, psi)
    r = base.weights[:, None, None] * (mean_in_contrasts(f, base.Q) - base.targets[:, :, None])
    f_added = added.logits(psi, a)
    alpha = mean_in_contrasts(f_added, base.Q) - added.targets
    g = _times(base.B.T, r) + added.pull(alpha) + base.ridge[:, None, None] * psi
    own = alpha / base.rho + a
    spread = added.outside(own)
    size = xp.sum(g * g, axis=(0, 1)) + base.rho**2 * xp.sum(own * spread, axis=(0, 1))
    inverse = xp.reshape(base.inverse, (q * c, q * c))
    h = xp.reshape(inverse @ xp.reshape(g, (q * c, m)), (q, c, m))
    moved = added.logits(h, own)
    y = added.damped(moved, f_added)
    step_psi = added.inverse_pull(y) - h
    step_a = y / base.rho - own
    step = xp.concat(
        [xp.reshape(step_psi, (q * c, m)), xp.reshape(step_a, (-1, m))], axis=0
    )
    return step, xp.sqrt(xp.maximum(size, xp.zeros_like(size)))


def _first_gradient(
    base: Base, added: Added, shape: tuple[int, int, int]
) -> np.ndarray[Any, Any]:
    """Return ‖g‖ of every model at the optimum before: what its added rows pull with."""
    xp = namespace(base.start)
    psi = xp.broadcast_to(base.start[:, :, None], shape)
    zero = xp.zeros_like(added.targets)
    alpha = mean_in_contrasts(added.logits(psi, zero), base.Q) - added.targets
    pulled = added.pull(alpha)
    size = xp.sum(pulled * pulled, axis=(0, 1)) + xp.sum(alpha * added.outside(alpha), axis=(0, 1))
    pull = np.sqrt(np.maximum(to_numpy(size), 0.0))
    # A label the model is certain of pulls with nothing; rounding sets the floor there.
    residual = base.weights[:, None] * abs(base.targets)
    floor = 1e-6 * float(xp.max(abs(base.B).T @ residual))
    first: np.ndarray[Any, Any] = np.maximum(pull, floor)
    return first


class _Anderson:
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
        gram = [[xp.sum(s * t, axis=0) for t in self.steps[: i + 1]] for i, s in enumerate(self.steps)]
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


def _put(into: Array, where: np.ndarray[Any, Any], source: Array, ready: np.ndarray[Any, Any]) -> Array:
    """Return `into` with the ready models of `source` at `where`."""
    xp = namespace(into)
    columns = np.zeros(into.shape[-1], dtype=np.int64)
    columns[where] = np.flatnonzero(ready)
    mask = np.zeros(into.shape[-1], dtype=bool)
    mask[where] = True
    picked = xp.take(source, like(columns, into), axis=2)
    return xp.where(like(mask, into), picked, into)

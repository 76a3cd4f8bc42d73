"""The rows that retrained models add, and what all of those models share.

Two shapes of the same thing: `Singles`, one row per model, many rows under every label; and
`Window`, one batch of rows under many labelings. `chord` moves either without knowing which.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace
from goalward.solvers import Inverse
from goalward.solvers.coordinates import Coordinates

__all__ = ["Added", "Base", "Singles", "Window", "mean_in_contrasts", "own_logit", "times"]


@dataclass(frozen=True)
class Base:
    """What all retrained models share.

    Parameters
    ----------
    inverse
        𝓗₀⁻¹, and the coordinates it is held in.
    B, targets, weights
        The labelled rows: (n, q) coordinates, (n, c) targets in contrasts, (n,) weights.
    rho
        Penalty of the weights.
    start
        (q, c) optimum before.
    Q
        (K, c) contrasts.
    heaviest
        The largest weight an added row can have: Böhning's bound is half of it.
    """

    inverse: Inverse
    B: Float[Array, "n q"]
    targets: Float[Array, "n c"]
    weights: Float[Array, " n"]
    rho: float
    start: Float[Array, "q c"]
    Q: Float[Array, "k c"]
    heaviest: float

    @property
    def coordinates(self) -> Coordinates:
        """How rows are written."""
        return self.inverse.coordinates


@runtime_checkable
class Added(Protocol):
    """The added rows of M models; arrays of models have the model axis last."""

    @property
    def targets(self) -> Float[Array, "b c m"]: ...
    @property
    def weights(self) -> Float[Array, "b 1 m"]: ...
    def logits(self, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]) -> Array: ...
    def outside(self, a: Float[Array, "b c m"]) -> Array: ...
    def pull(self, alpha: Float[Array, "b c m"]) -> Float[Array, "q c m"]: ...
    def inverse_pull(self, y: Float[Array, "b c m"]) -> Float[Array, "q c m"]: ...
    def damped(self, moved: Float[Array, "b c m"], logits: Array) -> Array: ...
    def start(self, base: Base) -> tuple[Array, Array]: ...
    def surviving(self, keep: NDArray[Any]) -> NDArray[Any]: ...
    def only(self, index: NDArray[Any]) -> Any: ...


def mean_in_contrasts(f: Float[Array, "n c m"], Q: Float[Array, "k c"]) -> Float[Array, "n c m"]:
    """Return Qᵀ softmax(Q f): the predicted mean, in contrasts."""
    xp = namespace(f)
    if Q.shape[0] == 2:
        # Q = (1, -1)/√2, so p₀ - p₁ = tanh(f/√2): one function, no overflow.
        return xp.tanh(f * 0.5**0.5) * 0.5**0.5
    logits = xp.matmul(Q, f)
    exp = xp.exp(logits - xp.max(logits, axis=1, keepdims=True))
    return xp.matmul(Q.T, exp / xp.sum(exp, axis=1, keepdims=True))


def own_logit(
    f0: Float[Array, "g 1"], M: Float[Array, "g l"], t: Float[Array, "g l"], steps: int = 8
) -> Float[Array, "g l"]:
    """Return the root of f = f₀ - M (p(f) - t), for two classes in their one contrast.

    Newton's method within a bracket: |p - t| ≤ √2 and f + M p(f) is increasing. A step that
    leaves the bracket, or does not halve the one before, is a bisection instead.
    """
    xp = namespace(f0)
    low, high = f0 - 2.0**0.5 * M, f0 + 2.0**0.5 * M
    f = f0 + 0.0 * t
    last = high - low
    for _ in range(steps):
        p = xp.tanh(f * 0.5**0.5)
        miss = f - f0 + M * (p * 0.5**0.5 - t)
        low, high = xp.where(miss < 0.0, f, low), xp.where(miss < 0.0, high, f)
        step = -miss / (1.0 + 0.5 * M * (1.0 - p * p))
        middle = 0.5 * (low + high)
        newton = (f + step > low) & (f + step < high) & (xp.abs(step) <= 0.5 * last)
        moved = xp.where(newton, f + step, middle)
        last, f = xp.abs(moved - f), moved
    return f


@dataclass(frozen=True)
class Singles:
    """One added row per model: G rows under L labels each, M = G L models, label last."""

    Z: Float[Array, "q g"]
    S: Float[Array, " g"]
    U: Float[Array, "g qc c"] = field(repr=False)
    """𝓗₀⁻¹ z̃ᵀ for every row."""
    leverage: Float[Array, "g c c"]
    targets: Float[Array, "1 c m"]
    weights: Float[Array, "1 1 m"]
    damping: Float[Array, "g c c"] | None = None

    @classmethod
    def of(cls, base: Base, rows: Rows, Z: Array, targets: Array, weights: Array) -> Singles:
        """Return the models of rows with coordinates Z (G, q) and targets (1, c, G L)."""
        xp = namespace(Z)
        n_rows, c = Z.shape[0], base.start.shape[1]
        y = base.inverse.pulled(Z)
        leverage = base.inverse.leverage(rows, Z, y)
        bound = 2.0 / base.heaviest * xp.eye(c, dtype=Z.dtype, device=Z.device)
        damping = None if c == 1 else xp.linalg.inv(leverage + bound)
        U = xp.reshape(xp.permute_dims(y, (0, 2, 3, 1)), (n_rows, -1, c))
        S = base.coordinates.squared_outside(rows, Z)
        return cls(Z.T, S, U, leverage, targets, weights, damping)

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
        D = 0.5 * (1.0 - p * p) * self._by_row(self.weights)
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
        t = self._by_row(self.targets)[0, 0, ...]
        M = self.leverage[:, 0, :] * self._by_row(self.weights)[0, 0, ...]
        f0 = (base.start[:, 0] @ self.Z)[:, None]
        own = xp.reshape(own_logit(f0, M, t), self.targets.shape)
        alpha = self.weights * (mean_in_contrasts(own, base.Q) - self.targets)
        return psi - self.inverse_pull(alpha), -alpha / base.rho

    def surviving(self, keep: NDArray[Any]) -> NDArray[Any]:
        """Return the models of every row that still has one to keep."""
        n_rows = self.Z.shape[1]
        rows = keep.reshape(n_rows, -1).any(axis=1)
        return np.flatnonzero(np.repeat(rows, len(keep) // n_rows))

    def only(self, index: NDArray[Any]) -> Singles:
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
            xp.take(self.weights, like(index, self.Z), axis=2),
            None if self.damping is None else xp.take(self.damping, rows, axis=0),
        )

    def _by_row(self, x: Float[Array, "s c m"]) -> Float[Array, "s c g l"]:
        return namespace(x).reshape(x, (x.shape[0], x.shape[1], self.Z.shape[1], -1))

    def _each(self, A: Float[Array, "g r c"], y: Array, shape: tuple[int, ...]) -> Array:
        """Return each row's matrix times its labels' vectors, as an array of models."""
        xp = namespace(y)
        by_row = xp.permute_dims(self._by_row(y)[0, ...], (1, 0, 2))
        product = A * by_row if by_row.shape[1] == 1 else xp.matmul(A, by_row)
        return xp.reshape(xp.permute_dims(product, (1, 0, 2)), shape)


@dataclass(frozen=True)
class Window:
    """The same b added rows in all models, under M labelings."""

    Z: Float[Array, "b q"]
    S: Float[Array, "b b"]
    U: Float[Array, "qc bc"] = field(repr=False)
    leverage: Float[Array, "bc bc"]
    damping: Float[Array, "bc bc"]
    targets: Float[Array, "b c m"]
    weights: Float[Array, "b 1 m"]

    @classmethod
    def of(cls, base: Base, rows: Rows, Z: Array, targets: Array, weights: Array) -> Window:
        """Return the models of a batch with coordinates Z (b, q) and targets (b, c, M)."""
        xp = namespace(Z)
        leverage = base.inverse.joint_leverage(rows, Z)
        b, size = Z.shape[0], leverage.shape[0]
        bound = 2.0 / base.heaviest * xp.eye(size, dtype=Z.dtype, device=Z.device)
        U = xp.reshape(base.inverse.pulled(Z), (size, -1)).T
        S = base.coordinates.outside(rows, Z, rows, Z)
        S = xp.zeros((b, b), dtype=Z.dtype, device=Z.device) if S is None else S
        return cls(Z, S, U, leverage, xp.linalg.inv(leverage + bound), targets, weights)

    def logits(self, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]) -> Array:
        """Return z̃Ψ + S a."""
        return times(self.Z, psi) + self.outside(a)

    def outside(self, a: Float[Array, "b c m"]) -> Array:
        """Return S a."""
        return times(self.S, a)

    def pull(self, alpha: Float[Array, "b c m"]) -> Float[Array, "q c m"]:
        """Return z̃ᵀα."""
        return times(self.Z.T, alpha)

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

    def surviving(self, keep: NDArray[Any]) -> NDArray[Any]:
        """Return the models to keep."""
        return np.flatnonzero(keep)

    def only(self, index: NDArray[Any]) -> Window:
        """Return the models at `index`."""
        xp, at = namespace(self.targets), like(index, self.Z)
        targets, weights = (xp.take(x, at, axis=2) for x in (self.targets, self.weights))
        return replace(self, targets=targets, weights=weights)


def times(A: Float[Array, "r s"], x: Float[Array, "s c m"]) -> Float[Array, "r c m"]:
    """Return A x along the first axis, for every class and model."""
    xp = namespace(x)
    return xp.reshape(A @ xp.reshape(x, (x.shape[0], -1)), (A.shape[0], *x.shape[1:]))

"""The rows that retrained models add, and what all of those models share.

Two shapes of the same thing: `Singles`, one row per model, many rows under every label; and
`Window`, one batch of rows under many labelings. `chord` moves either without knowing which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace
from goalward.models import Loss
from goalward.solvers import Inverse
from goalward.solvers.coordinates import Coordinates
from goalward.utility.implicit_slopes import own_logit

__all__ = ["Added", "Base", "Singles", "Window", "times"]


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
    loss
        What a label costs.
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
    loss: Loss
    heaviest: float

    @property
    def coordinates(self) -> Coordinates:
        """How rows are written."""
        return self.inverse.coordinates

    def mean(self, f: Float[Array, "n c m"]) -> Float[Array, "n c m"]:
        """Return what is predicted at logits f, in contrasts."""
        return self.loss.mean(f, self.Q)


@dataclass(frozen=True)
class Added(ABC):
    """The added rows of M models; arrays of models have the model axis last.

    Parameters
    ----------
    Z, S
        z̃, the rows' coordinates, and their Gram matrix outside of these.
    U
        𝓗₀⁻¹ z̃ᵀ.
    leverage, damping
        M, and (M + 2/w)⁻¹ with the bound w/2 of the curvature.
    targets, weights
        (b, c, M) and (b, 1, M).
    """

    Z: Array
    S: Array
    U: Array = field(repr=False)
    leverage: Array
    damping: Array | None
    targets: Float[Array, "b c m"]
    weights: Float[Array, "b 1 m"]

    def logits(self, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]) -> Array:
        """Return z̃Ψ + S a."""
        return self.inside(psi) + self.outside(a)

    def start(self, base: Base) -> tuple[Array, Array]:
        """Return the first guess of Ψ and a: the optimum before."""
        xp = namespace(base.start)
        shape = (*base.start.shape, self.targets.shape[2])
        psi = xp.broadcast_to(base.start[:, :, None], shape)
        return psi + 0.0, xp.zeros_like(self.targets)

    @abstractmethod
    def inside(self, psi: Float[Array, "q c m"]) -> Float[Array, "b c m"]: ...
    @abstractmethod
    def outside(self, a: Float[Array, "b c m"]) -> Float[Array, "b c m"]: ...
    @abstractmethod
    def pull(self, alpha: Float[Array, "b c m"]) -> Float[Array, "q c m"]: ...
    @abstractmethod
    def inverse_pull(self, y: Float[Array, "b c m"]) -> Float[Array, "q c m"]: ...
    @abstractmethod
    def damped(self, moved: Float[Array, "b c m"], logits: Array) -> Array: ...
    @abstractmethod
    def surviving(self, keep: NDArray[Any]) -> NDArray[Any]: ...
    @abstractmethod
    def only(self, index: NDArray[Any]) -> Added: ...

    def _labels(self, index: NDArray[Any]) -> dict[str, Array]:
        xp, at = namespace(self.targets), like(index, self.targets)
        return {
            "targets": xp.take(self.targets, at, axis=2),
            "weights": xp.take(self.weights, at, axis=2),
        }


@dataclass(frozen=True)
class Singles(Added):
    """One added row per model: G rows under L labels each, M = G L models, label last.

    Z is (q, G), S (G,), U (G, qc, c), the leverage (G, c, c).
    """

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
        return cls(Z.T, S, U, leverage, damping, targets, weights)

    def inside(self, psi: Float[Array, "q c m"]) -> Float[Array, "1 c m"]:
        """Return z̃Ψ."""
        xp = namespace(psi)
        products = self.Z[:, None, :, None] * self._by_row(psi)
        return xp.reshape(xp.sum(products, axis=0), (1, *psi.shape[1:]))

    def outside(self, a: Float[Array, "1 c m"]) -> Float[Array, "1 c m"]:
        """Return S a."""
        return namespace(a).reshape(self.S[:, None] * self._by_row(a), a.shape)

    def pull(self, alpha: Float[Array, "1 c m"]) -> Float[Array, "q c m"]:
        """Return z̃ᵀα."""
        pulled = self.Z[:, None, :, None] * self._by_row(alpha)
        return namespace(alpha).reshape(pulled, (self.Z.shape[0], *alpha.shape[1:]))

    def inverse_pull(self, y: Float[Array, "1 c m"]) -> Float[Array, "q c m"]:
        """Return 𝓗₀⁻¹ z̃ᵀ y."""
        return self._each(self.U, y, (self.Z.shape[0], *y.shape[1:]))

    def damped(self, moved: Float[Array, "1 c m"], logits: Array) -> Array:
        """Return (D⁻¹ + M)⁻¹ of the added rows' motion; for two classes D is the curvature now."""
        if self.damping is not None:
            return self._each(self.damping, moved, moved.shape)
        xp = namespace(moved)
        p = self._by_row(xp.tanh(logits * 0.5**0.5))
        D = 0.5 * (1.0 - p * p) * self._by_row(self.weights)
        factor = D / (1.0 + D * self.leverage[:, 0, :])
        return xp.reshape(factor, moved.shape) * moved

    def start(self, base: Base) -> tuple[Array, Array]:
        """Return the first guess: the implicit step for two classes, else the optimum before.

        For two classes the new row's own equation f = f₀ - M (p(f) - t) is solved exactly by
        Newton within its bracket, so that a surprising label does not overshoot.
        """
        psi, a = super().start(base)
        if self.damping is not None:
            return psi, a
        t = self._by_row(self.targets)[0, 0, ...]
        M = self.leverage[:, 0, :] * self._by_row(self.weights)[0, 0, ...]
        f0 = (base.start[:, 0] @ self.Z)[:, None]
        own = namespace(M).reshape(own_logit(f0, M, t), self.targets.shape)
        alpha = self.weights * (base.mean(own) - self.targets)
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
        return replace(
            self,
            Z=xp.take(self.Z, rows, axis=1),
            S=xp.take(self.S, rows, axis=0),
            U=xp.take(self.U, rows, axis=0),
            leverage=xp.take(self.leverage, rows, axis=0),
            damping=None if self.damping is None else xp.take(self.damping, rows, axis=0),
            **self._labels(index),
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
class Window(Added):
    """The same b added rows in all models, under M labelings.

    Z is (b, q), S (b, b), U (qc, bc), the leverage (bc, bc).
    """

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

    def inside(self, psi: Float[Array, "q c m"]) -> Float[Array, "b c m"]:
        """Return z̃Ψ."""
        return times(self.Z, psi)

    def outside(self, a: Float[Array, "b c m"]) -> Float[Array, "b c m"]:
        """Return S a."""
        return times(self.S, a)

    def pull(self, alpha: Float[Array, "b c m"]) -> Float[Array, "q c m"]:
        """Return z̃ᵀα."""
        return times(self.Z.T, alpha)

    def inverse_pull(self, y: Float[Array, "b c m"]) -> Float[Array, "q c m"]:
        """Return 𝓗₀⁻¹ z̃ᵀ y."""
        return self._joint(self.U, y)

    def damped(self, moved: Float[Array, "b c m"], logits: Array) -> Array:
        """Return (D⁻¹ + M)⁻¹ of the added rows' motion, D the bound ½."""
        return self._joint(self.damping, moved)

    def surviving(self, keep: NDArray[Any]) -> NDArray[Any]:
        """Return the models to keep."""
        return np.flatnonzero(keep)

    def only(self, index: NDArray[Any]) -> Window:
        """Return the models at `index`."""
        return replace(self, **self._labels(index))

    def _joint(self, A: Float[Array, "rc bc"], y: Float[Array, "b c m"]) -> Float[Array, "r c m"]:
        xp = namespace(y)
        b, c, m = y.shape
        return xp.reshape(A @ xp.reshape(y, (b * c, m)), (-1, c, m))


def times(A: Float[Array, "r s"], x: Float[Array, "s c m"]) -> Float[Array, "r c m"]:
    """Return A x along the first axis, for every class and model."""
    xp = namespace(x)
    return xp.reshape(A @ xp.reshape(x, (x.shape[0], -1)), (A.shape[0], *x.shape[1:]))

"""The rows that moved models add.

Two shapes of the same thing: `Singles`, one row per model, many rows under every label; and
`Window`, one batch of rows under many labelings. `descent` moves either without knowing which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace
from goalward.models.loss import Loss
from goalward.solvers.inverse import Coordinates, Inverse
from goalward.utility.implicit_slopes import Equations, implicit_slopes

# What all models have in common that differ by a few added rows: labelled rows, inverse, optimum.


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
    answered
        Which outcomes of the labelled rows have a target, where some have none.
    """

    inverse: Inverse
    B: Float[Array, "n q"]
    targets: Float[Array, "n c"]
    weights: Float[Array, " n"]
    rho: float
    start: Float[Array, "q c"]
    Q: Float[Array, "k c"]
    loss: Loss
    answered: Float[Array, "n l 1"] | None = None

    @property
    def coordinates(self) -> Coordinates:
        """How rows are written."""
        return self.inverse.coordinates

    @cached_property
    def columns(self) -> Float[Array, "l c"]:
        """The loss's own columns."""
        return self.loss.columns(self.Q)

    @cached_property
    def law(self) -> Float[Array, "n l 1"]:
        """The labelled rows' law at the optimum before."""
        return self.law_at(times(self.B, self.lifted(self.start[:, :, None])))

    def law_at(self, f: Float[Array, "n l m"]) -> Float[Array, "n l m"]:
        """Return the labelled rows' law at some logits; nothing where there is no target."""
        law = self.loss.law(f)
        return law if self.answered is None else law * self.answered

    @cached_property
    def lifted_targets(self) -> Float[Array, "n l"]:
        """The labelled rows' targets in the loss's columns, up to what it does not see."""
        return self.targets @ self.columns.T

    def lifted(self, x: Float[Array, "s c m"]) -> Float[Array, "s l m"]:
        """Return x in the loss's columns."""
        return x if self.columns.shape[0] == 1 else namespace(x).matmul(self.columns, x)

    def lowered(self, x: Float[Array, "s l m"]) -> Float[Array, "s c m"]:
        """Return x, of the loss's columns, in contrasts."""
        return x if self.columns.shape[0] == 1 else namespace(x).matmul(self.columns.T, x)

    def raised(self, g: Float[Array, "q c m"]) -> Float[Array, "q c m"]:
        """Return 𝓗₀⁻¹ g."""
        xp = namespace(g)
        q, c, m = g.shape
        return xp.reshape(self.inverse.matrix @ xp.reshape(g, (q * c, m)), (q, c, m))

    def mean(self, f: Float[Array, "n c m"]) -> Float[Array, "n c m"]:
        """Return what is predicted at logits f, in contrasts."""
        return self.loss.mean(f, self.Q)


def times(A: Float[Array, "r s"], x: Float[Array, "s c m"]) -> Float[Array, "r c m"]:
    """Return A x along the first axis, for every class and model."""
    xp = namespace(x)
    return xp.reshape(A @ xp.reshape(x, (x.shape[0], -1)), (A.shape[0], *x.shape[1:]))


@dataclass(frozen=True)
class Added(ABC):
    """The added rows of M models; arrays of models have the model axis last.

    Parameters
    ----------
    Z, S
        z̃, the rows' coordinates, and their Gram matrix outside of these.
    U
        𝓗₀⁻¹ z̃ᵀ.
    leverage
        M.
    targets, weights
        (b, c, M) and (b, 1, M).
    """

    Z: Array
    S: Array
    U: Array = field(repr=False)
    leverage: Array
    targets: Float[Array, "b c m"]
    weights: Float[Array, "b 1 m"]

    def logits(self, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]) -> Array:
        """Return z̃Ψ + S a."""
        return self.inside(psi) + self.outside(a)

    @property
    def pulls(self) -> Float[Array, "b c m"]:
        """What the labels pull with: weight and target."""
        return self.weights * self.targets

    def unmoved(self, base: Base) -> tuple[Array, Array]:
        """Return Ψ and a of the optimum before, for every model."""
        xp = namespace(base.start)
        shape = (*base.start.shape, self.targets.shape[2])
        return xp.broadcast_to(base.start[:, :, None], shape) + 0.0, xp.zeros_like(self.targets)

    def implicit(self, base: Base) -> tuple[Array, Array]:
        """Return Ψ and a by the implicit step: the added rows' own equations solved."""
        r = self.slopes(base)
        return base.start[:, :, None] - self.inverse_pull(r), -r / base.rho

    def start(self, base: Base) -> tuple[Array, Array]:
        """Return Ψ and a from which retraining begins."""
        return self.implicit(base)

    @abstractmethod
    def slopes(self, base: Base) -> Float[Array, "b c m"]: ...
    @abstractmethod
    def inside(self, psi: Float[Array, "q c m"]) -> Float[Array, "b c m"]: ...
    @abstractmethod
    def outside(self, a: Float[Array, "b c m"]) -> Float[Array, "b c m"]: ...
    @abstractmethod
    def pull(self, alpha: Float[Array, "b c m"]) -> Float[Array, "q c m"]: ...
    @abstractmethod
    def inverse_pull(self, y: Float[Array, "b c m"]) -> Float[Array, "q c m"]: ...
    @abstractmethod
    def bend(self, base: Base, law: Array) -> Float[Array, "m s s"]: ...
    @abstractmethod
    def surviving(self, keep: NDArray[Any]) -> NDArray[Any]: ...
    @abstractmethod
    def only(self, index: NDArray[Any]) -> Added: ...

    def curved(
        self, bend: Float[Array, "m s s"], moved: Float[Array, "b c m"]
    ) -> Float[Array, "b c m"]:
        """Return each model's `bend` times the motion of its added rows' logits."""
        xp = namespace(moved)
        if bend.shape[1] == 1:
            return bend[:, 0, 0] * moved
        flat = xp.reshape(moved, (-1, moved.shape[2]))
        return xp.reshape(xp.matmul(bend, flat.T[:, :, None])[:, :, 0].T, moved.shape)

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
        U = xp.reshape(xp.permute_dims(y, (0, 2, 3, 1)), (n_rows, -1, c))
        S = base.coordinates.squared_outside(rows, Z)
        return cls(Z.T, S, U, leverage, targets, weights)

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

    def bend(self, base: Base, law: Array) -> Float[Array, "m c c"]:
        """Return (D⁻¹ + M)⁻¹ = (I + DM)⁻¹D of every model, D its row's curvature under `law`."""
        xp = namespace(law)
        D = base.loss.law_blocks(law)[0, ...] * self.weights[0, 0, :][:, None, None]
        m, c, _ = D.shape
        by_row = xp.reshape(D, (self.Z.shape[1], -1, c, c))
        DM = xp.reshape(xp.matmul(by_row, self.leverage[:, None, :, :]), (m, c, c))
        if c == 1:
            return D / (1.0 + DM)
        return xp.linalg.solve(xp.eye(c, dtype=D.dtype, device=D.device) + DM, D)

    def slopes(self, base: Base) -> Float[Array, "1 c m"]:
        """Return the slopes of the rows' losses where each model will be, F kept quadratic."""
        xp = namespace(self.Z)
        f = self.Z.T @ base.start
        some = slice(1) if base.loss.kind == "class" else slice(None)
        targets, weights = (
            xp.permute_dims(self._by_row(x)[0, :, some, :], (1, 0, 2))
            for x in (self.targets, self.weights)
        )
        weights = xp.broadcast_to(weights[:1, :, :], (1, *targets.shape[1:]))
        r = implicit_slopes(Equations(f, self.leverage, targets, weights, base.Q, base.loss))
        return xp.reshape(xp.permute_dims(r, (1, 0, 2)), self.targets.shape)

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
        U = xp.reshape(base.inverse.pulled(Z), (size, -1)).T
        S = base.coordinates.outside(rows, Z, rows, Z)
        S = xp.zeros((b, b), dtype=Z.dtype, device=Z.device) if S is None else S
        return cls(Z, S, U, leverage, targets, weights)

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

    def bend(self, base: Base, law: Array) -> Float[Array, "m s s"]:
        """Return (D⁻¹ + M)⁻¹ = (I + DM)⁻¹D of every model, D its rows' curvatures under `law`."""
        xp = namespace(law)
        weights = xp.permute_dims(self.weights, (0, 2, 1))[..., None]
        D = xp.permute_dims(base.loss.law_blocks(law) * weights, (1, 0, 2, 3))
        m, b, c, _ = D.shape
        eye = xp.eye(b * c, dtype=D.dtype, device=D.device)
        DM = xp.reshape(xp.matmul(D, xp.reshape(self.leverage, (b, c, b * c))), (m, b * c, b * c))
        whole = xp.matmul(D, xp.reshape(eye, (b, c, b * c)))
        return xp.linalg.solve(eye + DM, xp.reshape(whole, DM.shape))

    def start(self, base: Base) -> tuple[Array, Array]:
        """Return the optimum before: the joint equations of a batch cost more than they save."""
        return self.unmoved(base)

    def slopes(self, base: Base) -> Float[Array, "b c m"]:
        """Return the slopes of all rows' losses where each model will be, F kept quadratic."""
        xp = namespace(self.Z)
        joint = (self.leverage.shape[0], self.targets.shape[2])
        weights = xp.broadcast_to(self.weights, self.targets.shape)
        f = xp.reshape(self.Z @ base.start, (1, joint[0]))
        targets, heavy = (xp.reshape(x, (1, *joint)) for x in (self.targets, weights))
        r = implicit_slopes(
            Equations(f, self.leverage[None, :, :], targets, heavy, base.Q, base.loss)
        )
        return xp.reshape(r, self.targets.shape)

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

"""What a label costs: the loss of a row as a function of its logits.

A row has K logits f, one for each outcome, and a target t (K numbers; outcome k alone is the unit
vector e_k). The loss is that of an exponential family in its natural parameters, -log P(t | f):
its slope is p - t with p the expected target, its curvature Λ = ∂p/∂f, and both follow from p.
Directions of f that change no p are not seen. The others are spanned by the columns of `basis`,
Q (K x c), orthonormal: all that must be factored is factored there, which also fixes the gauge of
free intercepts exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, namespace

__all__ = ["Loss"]


class Loss(ABC):
    """The loss of rows, in logit space. Softmax regression has `Softmax`.

    Six methods make a loss; the others follow from them, and are there to be replaced by something
    faster or more exact. `gw.testing.check_loss` checks all of them against differences.
    """

    exclusive: ClassVar[bool] = False
    """Whether exactly one outcome happens, so that p is a distribution over them."""
    fused: ClassVar[bool] = False
    """Whether the kernels that score a pool in one pass are written for this loss."""

    @abstractmethod
    def targets(self, y: object, classes: NDArray[Any], n_rows: int, name: str) -> NDArray[Any]:
        """Return what came as labels of `n_rows` rows as (n, K) targets, or raise `BadInput`."""

    @abstractmethod
    def basis(self, n_outcomes: int, reference: Array) -> Float[Array, "k c"]:
        """Return Q: an orthonormal basis of the directions that the loss sees."""

    @abstractmethod
    def proba(self, logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        """Return p, the law of a label."""

    @abstractmethod
    def rows(self, logits: Float[Array, "n k"], targets: Float[Array, "n k"]) -> Float[Array, " n"]:
        """Return the loss of each row."""

    @abstractmethod
    def curvature(
        self, proba: Float[Array, "*n k"], motion: Float[Array, "*n k"]
    ) -> Float[Array, "*n k"]:
        """Return Λs: how the slope changes when logits move by s."""

    @abstractmethod
    def third(
        self, proba: Float[Array, "n k"], motion: Float[Array, "n k"]
    ) -> Float[Array, "n c c"]:
        """Return QᵀTQ: how QᵀΛQ of each row changes when its logits move by `motion`."""

    def slope(
        self, logits: Float[Array, "n k"], targets: Float[Array, "n k"]
    ) -> Float[Array, "n k"]:
        """Return ∂loss/∂logits = p - t."""
        return self.proba(logits) - targets

    def along(self, proba: Float[Array, "n k"], motion: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return d loss((x, k)) for every outcome k when the logits move by `motion`.

        With s the motion, ⟨p - e_k, s⟩ = Σ_j p_j s_j - s_k, so all K outcomes of a row
        cost one row of logits and no gradient for each.
        """
        xp = namespace(proba, motion)
        return xp.sum(proba * motion, axis=-1, keepdims=True) - motion

    def unseen(self, v: Float[Array, "p k"]) -> Array:
        """Return the part of v outside the basis; it may broadcast over the outcomes."""
        Q = self.basis(v.shape[-1], v)
        return v - (v @ Q) @ Q.T

    def mean(self, f: Float[Array, "n c m"], Q: Float[Array, "k c"]) -> Float[Array, "n c m"]:
        """Return Qᵀp at the logits Q f, of m models side by side."""
        xp, columns = namespace(f), self.columns(Q)
        if columns.shape == (1, 1):
            return self.law(f)
        return xp.matmul(columns.T, self.law(xp.matmul(columns, f)))

    def columns(self, Q: Float[Array, "k c"]) -> Float[Array, "l c"]:
        """Return the map from the basis to the columns that `law` and `bend` take, (K, c) as a rule."""
        return Q

    def law(self, f: Float[Array, "n l m"]) -> Float[Array, "n l m"]:
        """Return p of m models side by side, in `columns`."""
        xp = namespace(f)
        return xp.permute_dims(self.proba(xp.permute_dims(f, (0, 2, 1))), (0, 2, 1))

    def bent(self, law: Float[Array, "n l m"], d: Float[Array, "n l m"]) -> Float[Array, "n l m"]:
        """Return Λd of m models side by side, in `columns`."""
        xp = namespace(d)
        proba, motion = (xp.permute_dims(x, (0, 2, 1)) for x in (law, d))
        return xp.permute_dims(self.curvature(proba, motion), (0, 2, 1))

    def least_ratio(
        self, law: Float[Array, "n l m"], before: Float[Array, "n l 1"]
    ) -> Float[Array, " m"]:
        """Return, of every model, c with Λ(law) ⪰ c Λ(before) for all rows; 0 where none is known."""
        return namespace(law).zeros_like(law[0, 0, :])

    def law_blocks(self, law: Float[Array, "n l m"]) -> Float[Array, "n m c c"]:
        """Return QᵀΛQ of m models side by side, from their law in `columns`."""
        xp = namespace(law)
        n, K, m = law.shape
        blocks = self.blocks(xp.reshape(xp.permute_dims(law, (0, 2, 1)), (n * m, K)))
        return xp.reshape(blocks, (n, m, *blocks.shape[1:]))

    def weighted(
        self, proba: Float[Array, "n k"], weights: Float[Array, " n"]
    ) -> Callable[[Float[Array, "n k"]], Float[Array, "n k"]]:
        """Return the map s -> wΛs, for many products."""
        return lambda motion: weights[:, None] * self.curvature(proba, motion)

    def blocks(self, proba: Float[Array, "n k"]) -> Float[Array, "n c c"]:
        """Return QᵀΛQ of every row."""
        Q = self.basis(proba.shape[-1], proba)
        return namespace(proba).matmul(Q.T, self._columns(proba, Q))

    def factors(self, proba: Float[Array, "n k"]) -> Float[Array, "n c c"]:
        """Return L with LLᵀ = QᵀΛQ for every row, also where Λ is singular."""
        xp = namespace(proba)
        values, vectors = xp.linalg.eigh(self.blocks(proba))
        return vectors * xp.sqrt(xp.maximum(values, xp.zeros_like(values)))[:, None, :]

    def diagonal(self, proba: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return the diagonal of Λ of every row."""
        xp = namespace(proba)
        eye = xp.eye(proba.shape[-1], dtype=proba.dtype, device=proba.device)
        return xp.sum(self._columns(proba, eye) * eye, axis=1)

    def mean_curvature(
        self, proba: Float[Array, "n k"], weights: Float[Array, " n"]
    ) -> Float[Array, "k k"]:
        """Return the mean of Λ over the rows, by their weights."""
        xp = namespace(proba)
        eye = xp.eye(proba.shape[-1], dtype=proba.dtype, device=proba.device)
        share = (weights / xp.sum(weights))[:, None, None]
        return xp.sum(share * self._columns(proba, eye), axis=0)

    def _columns(
        self, proba: Float[Array, "n k"], directions: Float[Array, "k m"]
    ) -> Float[Array, "n k m"]:
        """Return Λ times each column of `directions`, for every row."""
        xp = namespace(proba)
        moved = [
            self.curvature(proba, xp.broadcast_to(directions[:, a], proba.shape))
            for a in range(directions.shape[1])
        ]
        return xp.stack(moved, axis=2)

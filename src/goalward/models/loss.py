"""What a label costs: the loss of a row as a function of its logits.

A row has K logits f, one for each outcome, and a target t (K numbers; outcome k alone is the unit
vector e_k). The loss is that of an exponential family in its natural parameters, -log P(t | f):
its slope is p - t with p the expected target, its curvature Λ = ∂p/∂f, and both follow from p.
Directions of f that change no p are not seen. The others are spanned by the columns of `basis`,
Q (K x c), orthonormal: all that must be factored is factored there, which also fixes the gauge of
free intercepts exactly.

A row asks one question or several, and each has a few possible answers. Under `Softmax` there is
one question, with K answers. Otherwise each outcome is a question by itself, and an answer to it is
a target that differs from what is expected, p, in that outcome alone: the other outcomes do not
move then, so utilities of a row's questions add up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, like, namespace, to_numpy
from goalward.errors import Unsupported


class Loss(ABC):
    """The loss of rows, in logit space. Softmax regression has `Softmax`.

    Six methods make a loss; the others follow from them, and are there to be replaced by something
    faster or more exact. `gw.testing.check_loss` checks all of them against differences.
    """

    kind: ClassVar[str] = "numbers"
    """What a target is: "class", one outcome of K; "labels", a yes or no to each; "numbers"."""
    nodes: ClassVar[tuple[float, ...]] = (-1.0, 1.0)
    """Answers to a question, in deviations from what is expected, and how likely each is. These two
    have the mean and the variance of the law, whatever it is."""
    shares: ClassVar[tuple[float, ...]] = (0.5, 0.5)
    steepest: ClassVar[float] = 0.5
    """The most that Λ may be, as far as damped steps reckon with it."""
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
    def rows(
        self, logits: Float[Array, "*n k"], targets: Float[Array, "n k"]
    ) -> Float[Array, "*n"]:
        """Return the loss of each row; leading axes are other models."""

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
        self, logits: Float[Array, "*n k"], targets: Float[Array, "n k"]
    ) -> Float[Array, "*n k"]:
        """Return ∂loss/∂logits = p - t."""
        return self.proba(logits) - targets

    def answered(self, targets: Float[Array, "n k"]) -> Float[Array, "n k"] | None:
        """Return 1 where an outcome has a target and 0 where it has none; None if all have."""
        return None

    def seen(self, proba: Float[Array, "n k"], targets: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return p of labelled rows as their curvature sees it."""
        return proba

    def questions(self, n_outcomes: int) -> int:
        """Return how many questions a row asks: one for each outcome."""
        return n_outcomes

    def n_answers(self, n_outcomes: int) -> int:
        """Return L: the possible answers to all questions of a row, one question after another."""
        return n_outcomes * len(self.nodes)

    def deviation(self, proba: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return the standard deviation of each outcome's target: the curvature is its variance."""
        return namespace(proba).sqrt(self.diagonal(proba))

    def answers(self, proba: Float[Array, "n k"]) -> Float[Array, "_ l k"]:
        """Return the targets that stand for the answers to the questions of each row."""
        xp, K = namespace(proba), proba.shape[1]
        eye = xp.eye(K, dtype=proba.dtype, device=proba.device)
        moved = self.given(proba) - proba[:, :, None]
        apart = moved[:, :, :, None] * eye[None, :, None, :]
        return proba[:, None, :] + xp.reshape(apart, (proba.shape[0], -1, K))

    def given(self, proba: Float[Array, "n k"]) -> Float[Array, "n k a"]:
        """Return the numbers that may be answered to each question."""
        nodes = like(np.array(self.nodes), proba, dtype=proba.dtype)
        return proba[:, :, None] + self.deviation(proba)[:, :, None] * nodes

    def chances(self, proba: Float[Array, "n k"]) -> Float[Array, "n l"]:
        """Return how likely each answer is; those of a question sum to 1."""
        xp = namespace(proba)
        shares = like(np.tile(self.shares, proba.shape[1]), proba, dtype=proba.dtype)
        return xp.broadcast_to(shares, (proba.shape[0], shares.shape[0]))

    def even(self, proba: Float[Array, "n k"]) -> Float[Array, "n l"]:
        """Return every answer equally likely; of numbers, which cannot be, their own law."""
        return self.chances(proba)

    def softened(self, proba: Float[Array, "n k"], T: float) -> Float[Array, "n l"]:
        """Return the law of the answers at a temperature."""
        if T == 1.0:
            return self.chances(proba)
        raise Unsupported(
            f"A temperature of {T:g} came with a model of numbers ({self!r}); 1 was expected, since the "
            "answers that are tried follow the label's own law. Use Predicted()."
        )

    def standing_for(
        self, targets: Float[Array, "n k"], proba: Float[Array, "n k"]
    ) -> Float[Array, "n l"]:
        """Return weights of the answers that make a target of them.

        Polynomials through the answers: a utility that is one, of their degree, is exact.
        """
        at, given = to_numpy(targets)[:, :, None], to_numpy(self.given(proba))
        weights = np.ones(given.shape)
        for i in range(given.shape[2]):
            for j in range(given.shape[2]):
                if i != j:
                    apart = given[:, :, i] - given[:, :, j]
                    apart = np.where(np.abs(apart) > 1e-12, apart, 1e-12)
                    weights[:, :, i] *= (at[:, :, 0] - given[:, :, j]) / apart
        own = to_numpy(self.chances(proba)).reshape(given.shape)
        weights = np.where(np.isnan(weights), own, weights)
        return like(weights.reshape(len(weights), -1), proba, dtype=proba.dtype)

    def supposed(
        self, belief: Float[Array, "n l"], proba: Float[Array, "n k"]
    ) -> Float[Array, "n k"]:
        """Return the target that a belief about the answers amounts to."""
        xp = namespace(proba)
        given = self.given(proba)
        return xp.sum(xp.reshape(belief, given.shape) * given, axis=2)

    def decided(self, logits: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        """Return what is predicted for rows: p, a column alone where there is one outcome."""
        p = np.asarray(self.proba(logits))
        return p[:, 0] if len(classes) == 1 else p

    def along(self, proba: Float[Array, "n k"], motion: Float[Array, "n k"]) -> Float[Array, "n l"]:
        """Return d loss for every answer when the logits move by `motion`: ⟨p - t, s⟩."""
        xp = namespace(proba, motion)
        away = proba[:, :, None] - self.given(proba)
        return xp.reshape(away * motion[:, :, None], (proba.shape[0], -1))

    def own_slopes(
        self,
        f: Float[Array, "n c"],
        M: Float[Array, "n c c"],
        targets: Float[Array, "_ c l"],
        weights: Float[Array, "_ c l"],
    ) -> Float[Array, "n c l"] | None:
        """Return r = w (p(f - Mr) - t) of single rows, where there is a short way to it."""
        return None

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


# Losses of outcomes that do not bend one another: Λ is diagonal, and so is all that follows.


class Separate(Loss):
    """A loss whose outcomes each have a logit of their own; `diagonal` says how each bends."""

    def basis(self, n_outcomes: int, reference: Array) -> Float[Array, "k k"]:
        """Return the identity: every logit counts by itself."""
        return like(np.eye(n_outcomes), reference, dtype=reference.dtype)

    def unseen(self, v: Float[Array, "p k"]) -> Float[Array, "p 1"]:
        """Return nothing: all is seen."""
        return namespace(v).zeros_like(v[:, :1])

    def curvature(
        self, proba: Float[Array, "*n k"], motion: Float[Array, "*n k"]
    ) -> Float[Array, "*n k"]:
        """Return Λs."""
        return self.diagonal(proba) * motion

    def blocks(self, proba: Float[Array, "n k"]) -> Float[Array, "n k k"]:
        """Return Λ of every row."""
        return on_diagonal(self.diagonal(proba))

    def factors(self, proba: Float[Array, "n k"]) -> Float[Array, "n k k"]:
        """Return √Λ of every row."""
        return on_diagonal(namespace(proba).sqrt(self.diagonal(proba)))

    def law(self, f: Float[Array, "n k m"]) -> Float[Array, "n k m"]:
        """Return p of m models side by side."""
        return self.proba(f)

    def bent(self, law: Float[Array, "n k m"], d: Float[Array, "n k m"]) -> Float[Array, "n k m"]:
        """Return Λd of m models side by side."""
        return self.curvature(law, d)

    def own_slopes(
        self,
        f: Float[Array, "n c"],
        M: Float[Array, "n c c"],
        targets: Float[Array, "_ c l"],
        weights: Float[Array, "_ c l"],
    ) -> Float[Array, "n c l"] | None:
        """Return the slopes outcome by outcome: M is diagonal, since 𝓗 couples no two of them."""
        xp = namespace(f)
        eye = xp.eye(f.shape[1], dtype=f.dtype, device=f.device)
        own = xp.sum(M * eye, axis=2)[:, :, None]
        return self.own_slope(f[:, :, None], own, targets, weights)

    def own_slope(
        self,
        f: Float[Array, "n c 1"],
        M: Float[Array, "n c 1"],
        t: Float[Array, "_ c l"],
        w: Float[Array, "_ c l"],
    ) -> Float[Array, "n c l"] | None:
        """Return r = w (p(f - Mr) - t) of each outcome by itself, where there is a short way to it."""
        return None


def on_diagonal(values: Float[Array, "n c"]) -> Float[Array, "n c c"]:
    """Return a diagonal matrix for every row."""
    xp, c = namespace(values), values.shape[1]
    return values[:, :, None] * xp.eye(c, dtype=values.dtype, device=values.device)


# Where the logit of a row goes once it is labelled, as far as its own label pulls it.


def own_logit(
    f0: Float[Array, "*g 1"], M: Float[Array, "*g l"], t: Float[Array, "#*g l"]
) -> Float[Array, "*g l"]:
    """Return the root of f = f₀ - M (p(f) - t), for two classes in their one contrast.

    Newton's method within a bracket: |p - t| ≤ √2 and f + M p(f) is increasing. A step that
    leaves the bracket, or does not halve the one before, is a bisection instead.
    """
    xp = namespace(f0)
    low, high = f0 - 2.0**0.5 * M, f0 + 2.0**0.5 * M
    f = f0 + 0.0 * t
    last = high - low
    for _ in range(60):
        p = xp.tanh(f * 0.5**0.5)
        miss = f - f0 + M * (p * 0.5**0.5 - t)
        low, high = xp.where(miss < 0.0, f, low), xp.where(miss < 0.0, high, f)
        step = -miss / (1.0 + 0.5 * M * (1.0 - p * p))
        middle = 0.5 * (low + high)
        newton = (f + step > low) & (f + step < high) & (xp.abs(step) <= 0.5 * last)
        moved = xp.where(newton, f + step, middle)
        last, f = xp.abs(moved - f), moved
        if bool(xp.all(last <= 1e-14 + 1e-15 * xp.abs(f))):
            break
    return f

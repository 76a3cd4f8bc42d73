"""Loss of a row as a function of its K logits f and target t, with slope p - t and curvature Λ.

The columns of `basis` span the directions of f that change p; factorisations take place there.
Softmax has one question per row with K answers; other losses have one question per outcome.
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
    """The loss of rows in logit space.

    The defaults are for a diagonal Λ. `gw.testing.check_loss` checks a subclass.
    """

    kind: ClassVar[str] = "numbers"
    """"class": one outcome of K; "labels": a yes or no to each; "numbers"."""
    nodes: ClassVar[tuple[float, ...]] = (-1.0, 1.0)
    """Answers in standard deviations from the mean; two match mean and variance of any law."""
    shares: ClassVar[tuple[float, ...]] = (0.5, 0.5)
    steepest: ClassVar[float] = 0.5
    """Bound of Λ for damped steps."""
    fused: ClassVar[bool] = False
    """Whether the fused kernels for pools support this loss."""

    @abstractmethod
    def targets(self, y: object, classes: NDArray[Any], n_rows: int, name: str) -> NDArray[Any]:
        """Return labels as (n, K) targets, or raise `BadInput`."""

    @abstractmethod
    def proba(self, logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        """Return p, the expected target."""

    @abstractmethod
    def rows(
        self, logits: Float[Array, "*n k"], targets: Float[Array, "n k"]
    ) -> Float[Array, "*n"]:
        """Return the loss of each row; leading axes are models."""

    @abstractmethod
    def diagonal(self, proba: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        """Return the diagonal of Λ of every row."""

    @abstractmethod
    def third(
        self, proba: Float[Array, "n k"], motion: Float[Array, "n k"]
    ) -> Float[Array, "n c c"]:
        """Return QᵀTQ: how QᵀΛQ of each row changes when its logits move by `motion`."""

    def basis(self, n_outcomes: int, reference: Array) -> Float[Array, "k c"]:
        """Return Q, an orthonormal basis of the directions that change p."""
        return like(np.eye(n_outcomes), reference, dtype=reference.dtype)

    def unseen(self, v: Float[Array, "p k"]) -> Float[Array, "p 1"]:
        """Return the part of v outside the basis, to be broadcast over the outcomes."""
        return namespace(v).zeros_like(v[:, :1])

    def curvature(
        self, proba: Float[Array, "*n k"], motion: Float[Array, "*n k"]
    ) -> Float[Array, "*n k"]:
        """Return Λs: how the slope changes when logits move by s."""
        return self.diagonal(proba) * motion

    def slope(
        self, logits: Float[Array, "*n k"], targets: Float[Array, "n k"]
    ) -> Float[Array, "*n k"]:
        """Return ∂loss/∂logits = p - t."""
        return self.proba(logits) - targets

    def answered(self, targets: Float[Array, "n k"]) -> Float[Array, "n k"] | None:
        """Return 1 for given and 0 for missing targets, or None if all are given."""
        return None

    def seen(self, proba: Float[Array, "n k"], targets: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return p of labelled rows for the curvature."""
        return proba

    def n_answers(self, n_outcomes: int) -> int:
        """Return L, the number of possible answers to all questions of a row."""
        return n_outcomes * len(self.nodes)

    def deviation(self, proba: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return the standard deviation of each target, the root of the curvature."""
        return namespace(proba).sqrt(self.diagonal(proba))

    def answers(self, proba: Float[Array, "n k"]) -> Float[Array, "_ l k"]:
        """Return the target of each possible answer."""
        xp, K = namespace(proba), proba.shape[1]
        eye = xp.eye(K, dtype=proba.dtype, device=proba.device)
        moved = self.given(proba) - proba[:, :, None]
        apart = moved[:, :, :, None] * eye[None, :, None, :]
        return proba[:, None, :] + xp.reshape(apart, (proba.shape[0], -1, K))

    def given(self, proba: Float[Array, "n k"]) -> Float[Array, "n k a"]:
        """Return the value of each possible answer."""
        nodes = like(np.array(self.nodes), proba, dtype=proba.dtype)
        return proba[:, :, None] + self.deviation(proba)[:, :, None] * nodes

    def chances(self, proba: Float[Array, "n k"]) -> Float[Array, "n l"]:
        """Return the probability of each answer; they sum to 1 for each question."""
        xp = namespace(proba)
        shares = like(np.tile(self.shares, proba.shape[1]), proba, dtype=proba.dtype)
        return xp.broadcast_to(shares, (proba.shape[0], shares.shape[0]))

    def even(self, proba: Float[Array, "n k"]) -> Float[Array, "n l"]:
        """Return uniform probabilities of the answers; for regression, the predictive ones."""
        return self.chances(proba)

    def softened(self, proba: Float[Array, "n k"], T: float) -> Float[Array, "n l"]:
        """Return the probabilities of the answers at a temperature."""
        if T == 1.0:
            return self.chances(proba)
        raise Unsupported(
            f"A temperature of {T:g} is not supported for models of numbers ({self!r}): the answers "
            "that are tried follow the predictive distribution. Use Predicted()."
        )

    def standing_for(
        self, targets: Float[Array, "n k"], proba: Float[Array, "n k"]
    ) -> Float[Array, "n l"]:
        """Return weights of the answers that represent a target, by polynomial interpolation."""
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
        """Return the mean target under probabilities of the answers."""
        xp = namespace(proba)
        given = self.given(proba)
        return xp.sum(xp.reshape(belief, given.shape) * given, axis=2)

    def decided(self, logits: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        """Return predictions: p, (n,) for a single outcome."""
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
        """Return r = w (p(f - Mr) - t) of single rows, or None if there is no direct solution."""
        return None

    def columns(self, Q: Float[Array, "k c"]) -> Float[Array, "l c"]:
        """Return the map from the basis to the columns of `law` and `bent`, by default (K, c)."""
        return Q

    def law(self, f: Float[Array, "n l m"]) -> Float[Array, "n l m"]:
        """Return p of m models, in `columns`."""
        return self.proba(f)

    def bent(self, law: Float[Array, "n l m"], d: Float[Array, "n l m"]) -> Float[Array, "n l m"]:
        """Return Λd of m models, in `columns`."""
        return self.curvature(law, d)

    def least_ratio(
        self, law: Float[Array, "n l m"], before: Float[Array, "n l 1"]
    ) -> Float[Array, " m"]:
        """Return c with Λ(law) ⪰ c Λ(before) in all rows, for each model; 0 if unknown."""
        return namespace(law).zeros_like(law[0, 0, :])

    def law_blocks(self, law: Float[Array, "n l m"]) -> Float[Array, "n m c c"]:
        """Return QᵀΛQ of m models, from p in `columns`."""
        xp = namespace(law)
        n, K, m = law.shape
        blocks = self.blocks(xp.reshape(xp.permute_dims(law, (0, 2, 1)), (n * m, K)))
        return xp.reshape(blocks, (n, m, *blocks.shape[1:]))

    def weighted(
        self, proba: Float[Array, "n k"], weights: Float[Array, " n"]
    ) -> Callable[[Float[Array, "n k"]], Float[Array, "n k"]]:
        """Return the map s -> wΛs."""
        return lambda motion: weights[:, None] * self.curvature(proba, motion)

    def blocks(self, proba: Float[Array, "n k"]) -> Float[Array, "n c c"]:
        """Return QᵀΛQ of every row."""
        return on_diagonal(self.diagonal(proba))

    def factors(self, proba: Float[Array, "n k"]) -> Float[Array, "n c c"]:
        """Return L with LLᵀ = QᵀΛQ for every row, also where Λ is singular."""
        return on_diagonal(namespace(proba).sqrt(self.diagonal(proba)))

    def mean_curvature(
        self, proba: Float[Array, "n k"], weights: Float[Array, " n"]
    ) -> Float[Array, "k k"]:
        """Return the weighted mean of Λ over rows."""
        mean = (weights @ self.diagonal(proba)) / namespace(proba).sum(weights)
        return on_diagonal(mean[None, :])[0, :, :]


def on_diagonal(values: Float[Array, "n c"]) -> Float[Array, "n c c"]:
    """Return a diagonal matrix for every row."""
    xp, c = namespace(values), values.shape[1]
    return values[:, :, None] * xp.eye(c, dtype=values.dtype, device=values.device)


def diagonal_of(M: Float[Array, "n c c"]) -> Float[Array, "n c 1"]:
    """Return the diagonal for every row, which is all of M if outcomes are independent."""
    xp, c = namespace(M), M.shape[1]
    return xp.sum(M * xp.eye(c, dtype=M.dtype, device=M.device), axis=2)[:, :, None]


def own_logit(
    f0: Float[Array, "*g 1"], M: Float[Array, "*g l"], t: Float[Array, "#*g l"]
) -> Float[Array, "*g l"]:
    """Return the root of f = f₀ - M (p(f) - t) for two classes, by Newton with bisection."""
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

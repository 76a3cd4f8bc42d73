"""Loss of a row as a function of its K logits f and target t, with slope p - t and curvature Λ.

The columns of `basis` span the directions of f that change p; factorisations take place there.
Softmax has one question per row with K answers; other losses have one question per outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, like, log_softmax, namespace, softmax, to_numpy
from goalward.core.labels import encode
from goalward.errors import ShapeMismatch, Unsupported

Table = Float[Array, "n k"]  # of logits, probabilities or targets, row by row
Tables = Float[Array, "*n k"]  # leading axes are models
Answers = Float[Array, "n l"]
Blocks = Float[Array, "n c c"]
Columns = Float[Array, "n l m"]  # of m models, in the columns of `Loss.columns`
Own = Float[Array, "_ c l"]  # of single rows under each answer


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
    def proba(self, logits: Tables) -> Tables:
        """Return p, the expected target."""

    @abstractmethod
    def rows(self, logits: Tables, targets: Table) -> Float[Array, "*n"]:
        """Return the loss of each row; leading axes are models."""

    @abstractmethod
    def diagonal(self, proba: Tables) -> Tables:
        """Return the diagonal of Λ of every row."""

    @abstractmethod
    def third(self, proba: Table, motion: Table) -> Blocks:
        """Return QᵀTQ: how QᵀΛQ of each row changes when its logits move by `motion`."""

    def basis(self, n_outcomes: int, reference: Array) -> Float[Array, "k c"]:
        """Return Q, an orthonormal basis of the directions that change p."""
        return like(np.eye(n_outcomes), reference, dtype=reference.dtype)

    def unseen(self, v: Float[Array, "p k"]) -> Float[Array, "p 1"]:
        """Return the part of v outside the basis, to be broadcast over the outcomes."""
        return namespace(v).zeros_like(v[:, :1])

    def curvature(self, proba: Tables, motion: Tables) -> Tables:
        """Return Λs: how the slope changes when logits move by s."""
        return self.diagonal(proba) * motion

    def slope(self, logits: Tables, targets: Table) -> Tables:
        """Return ∂loss/∂logits = p - t."""
        return self.proba(logits) - targets

    def answered(self, targets: Table) -> Table | None:
        """Return 1 for given and 0 for missing targets, or None if all are given."""
        return None

    def seen(self, proba: Table, targets: Table) -> Table:
        """Return p of labelled rows for the curvature."""
        return proba

    def n_answers(self, n_outcomes: int) -> int:
        """Return L, the number of possible answers to all questions of a row."""
        return n_outcomes * len(self.nodes)

    def deviation(self, proba: Table) -> Table:
        """Return the standard deviation of each target, the root of the curvature."""
        return namespace(proba).sqrt(self.diagonal(proba))

    def answers(self, proba: Table) -> Float[Array, "_ l k"]:
        """Return the target of each possible answer."""
        xp, K = namespace(proba), proba.shape[1]
        eye = xp.eye(K, dtype=proba.dtype, device=proba.device)
        moved = self.given(proba) - proba[:, :, None]
        apart = moved[:, :, :, None] * eye[None, :, None, :]
        return proba[:, None, :] + xp.reshape(apart, (proba.shape[0], -1, K))

    def given(self, proba: Table) -> Float[Array, "n k a"]:
        """Return the value of each possible answer."""
        nodes = like(np.array(self.nodes), proba, dtype=proba.dtype)
        return proba[:, :, None] + self.deviation(proba)[:, :, None] * nodes

    def chances(self, proba: Table) -> Answers:
        """Return the probability of each answer; they sum to 1 for each question."""
        xp = namespace(proba)
        shares = like(np.tile(self.shares, proba.shape[1]), proba, dtype=proba.dtype)
        return xp.broadcast_to(shares, (proba.shape[0], shares.shape[0]))

    def even(self, proba: Table) -> Answers:
        """Return uniform probabilities of the answers; for regression, the predictive ones."""
        return self.chances(proba)

    def softened(self, proba: Table, T: float) -> Answers:
        """Return the probabilities of the answers at a temperature."""
        if T == 1.0:
            return self.chances(proba)
        raise Unsupported(
            f"A temperature of {T:g} is not supported for models of numbers ({self!r}): the answers "
            "that are tried follow the predictive distribution. Use Predicted()."
        )

    def standing_for(self, targets: Table, proba: Table) -> Answers:
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

    def supposed(self, belief: Answers, proba: Table) -> Table:
        """Return the mean target under probabilities of the answers."""
        xp = namespace(proba)
        given = self.given(proba)
        return xp.sum(xp.reshape(belief, given.shape) * given, axis=2)

    def decided(self, logits: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        """Return predictions: p, (n,) for a single outcome."""
        p = np.asarray(self.proba(logits))
        return p[:, 0] if len(classes) == 1 else p

    def along(self, proba: Table, motion: Table) -> Answers:
        """Return d loss for every answer when the logits move by `motion`: ⟨p - t, s⟩."""
        xp = namespace(proba, motion)
        away = proba[:, :, None] - self.given(proba)
        return xp.reshape(away * motion[:, :, None], (proba.shape[0], -1))

    def own_slopes(
        self, f: Float[Array, "n c"], M: Blocks, targets: Own, weights: Own
    ) -> Own | None:
        """Return r = w (p(f - Mr) - t) of single rows, or None if there is no direct solution."""
        return None

    def columns(self, Q: Float[Array, "k c"]) -> Float[Array, "l c"]:
        """Return the map from the basis to the columns of `law` and `bent`, by default (K, c)."""
        return Q

    def law(self, f: Columns) -> Columns:
        """Return p of m models, in `columns`."""
        return self.proba(f)

    def bent(self, law: Columns, d: Columns) -> Columns:
        """Return Λd of m models, in `columns`."""
        return self.curvature(law, d)

    def least_ratio(self, law: Columns, before: Float[Array, "n l 1"]) -> Float[Array, " m"]:
        """Return c with Λ(law) ⪰ c Λ(before) in all rows, for each model; 0 if unknown."""
        return namespace(law).zeros_like(law[0, 0, :])

    def law_blocks(self, law: Columns) -> Float[Array, "n m c c"]:
        """Return QᵀΛQ of m models, from p in `columns`."""
        xp = namespace(law)
        n, K, m = law.shape
        blocks = self.blocks(xp.reshape(xp.permute_dims(law, (0, 2, 1)), (n * m, K)))
        return xp.reshape(blocks, (n, m, *blocks.shape[1:]))

    def weighted(self, proba: Table, weights: Float[Array, " n"]) -> Callable[[Table], Table]:
        """Return the map s -> wΛs."""
        return lambda motion: weights[:, None] * self.curvature(proba, motion)

    def blocks(self, proba: Table) -> Blocks:
        """Return QᵀΛQ of every row."""
        return on_diagonal(self.diagonal(proba))

    def factors(self, proba: Table) -> Blocks:
        """Return L with LLᵀ = QᵀΛQ for every row, also where Λ is singular."""
        return on_diagonal(namespace(proba).sqrt(self.diagonal(proba)))

    def mean_curvature(self, proba: Table, weights: Float[Array, " n"]) -> Float[Array, "k k"]:
        """Return the weighted mean of Λ over rows."""
        mean = (weights @ self.diagonal(proba)) / namespace(proba).sum(weights)
        return on_diagonal(mean[None, :])[0, :, :]


def on_diagonal(values: Float[Array, "n c"]) -> Blocks:
    """Return a diagonal matrix for every row."""
    xp, c = namespace(values), values.shape[1]
    return values[:, :, None] * xp.eye(c, dtype=values.dtype, device=values.device)


def diagonal_of(M: Blocks) -> Float[Array, "n c 1"]:
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


# Cross-entropy of the softmax: slope p - t and curvature Λ = diag(p) - ppᵀ, of rank K - 1.


@cache
def _contrasts(n_classes: int) -> NDArray[Any]:
    return np.ascontiguousarray(scipy.linalg.helmert(n_classes).T)


@dataclass(frozen=True)
class Softmax(Loss):
    """Minus the log-probability of the label: the loss of softmax regression.

    Examples
    --------
    >>> import numpy as np
    >>> Softmax().proba(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """

    kind: ClassVar[str] = "class"
    fused: ClassVar[bool] = True

    def targets(self, y: object, classes: NDArray[Any], n_rows: int, name: str) -> NDArray[Any]:
        targets = encode(y, classes, name, least=min(1, n_rows))
        if targets.shape[0] != n_rows:
            raise ShapeMismatch(
                f"{name} must have {n_rows} labels, one for each row, got {targets.shape[0]}. Pass a "
                "label for every row."
            )
        return targets

    def basis(self, n_outcomes: int, reference: Array) -> Float[Array, "k c"]:
        return like(_contrasts(n_outcomes), reference, dtype=reference.dtype)

    def proba(self, logits: Tables) -> Tables:
        return softmax(logits)

    def rows(self, logits: Tables, targets: Table) -> Float[Array, "*n"]:
        xp = namespace(logits)
        return -xp.sum(targets * log_softmax(logits), axis=-1)

    def n_answers(self, n_outcomes: int) -> int:
        return n_outcomes

    def answers(self, proba: Table) -> Float[Array, "1 l k"]:
        xp = namespace(proba)
        return xp.eye(proba.shape[1], dtype=proba.dtype, device=proba.device)[None, :, :]

    def chances(self, proba: Table) -> Table:
        return proba

    def even(self, proba: Table) -> Table:
        return namespace(proba).full_like(proba, 1.0 / proba.shape[1])

    def softened(self, proba: Table, T: float) -> Table:
        return tempered(proba, T)

    def standing_for(self, targets: Table, proba: Table) -> Table:
        return like(targets, proba, dtype=proba.dtype)

    def supposed(self, belief: Table, proba: Table) -> Table:
        return belief

    def decided(self, logits: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(classes[logits.argmax(axis=1)])

    def along(self, proba: Table, motion: Table) -> Table:
        """Return d loss((x, k)) = Σ_j p_j s_j - s_k for every class k, with s the `motion`."""
        xp = namespace(proba, motion)
        return xp.sum(proba * motion, axis=-1, keepdims=True) - motion

    def own_slopes(
        self, f: Float[Array, "n c"], M: Blocks, targets: Own, weights: Own
    ) -> Own | None:
        if f.shape[1] > 1:
            return None
        t, w = targets[:, 0, :], weights[:, 0, :]
        root = own_logit(f, w * M[:, 0, :], t)
        return (w * (self.law(root[:, None, :])[:, 0, :] - t))[:, None, :]

    def curvature(self, proba: Tables, motion: Tables) -> Tables:
        xp = namespace(proba, motion)
        return proba * (motion - xp.sum(proba * motion, axis=-1, keepdims=True))

    def weighted(self, proba: Table, weights: Float[Array, " n"]) -> Callable[[Table], Table]:
        xp, heavy = namespace(proba), weights[:, None] * proba
        return lambda s: heavy * (s - xp.sum(proba * s, axis=-1, keepdims=True))

    def third(self, proba: Table, motion: Table) -> Blocks:
        xp = namespace(proba)
        Q = self.basis(proba.shape[-1], proba)
        q = self.curvature(proba, motion)
        cross = (q @ Q)[:, :, None] * (proba @ Q)[:, None, :]
        return _spread(q, Q) - cross - xp.permute_dims(cross, (0, 2, 1))

    def unseen(self, v: Float[Array, "p k"]) -> Float[Array, "p 1"]:
        return namespace(v).sum(v, axis=-1, keepdims=True) / v.shape[-1]

    def columns(self, Q: Float[Array, "k c"]) -> Float[Array, "l c"]:
        return Q if Q.shape[0] > 2 else namespace(Q).ones_like(Q[:1, :])

    def law(self, f: Columns) -> Columns:
        xp = namespace(f)
        if f.shape[1] == 1:
            return xp.tanh(f * 0.5**0.5) * 0.5**0.5
        law = xp.exp(f - xp.max(f, axis=1, keepdims=True))
        law /= xp.sum(law, axis=1, keepdims=True)
        return law

    def bent(self, law: Columns, d: Columns) -> Columns:
        if d.shape[1] == 1:
            return (0.5 - law * law) * d
        return law * (d - namespace(d).sum(law * d, axis=1, keepdims=True))

    def least_ratio(self, law: Columns, before: Float[Array, "n l 1"]) -> Float[Array, " m"]:
        xp = namespace(law)
        now, then = (0.5 - x * x if law.shape[1] == 1 else x for x in (law, before))
        return xp.min(now / xp.maximum(then, xp.full_like(then, 1e-300)), axis=(0, 1))

    def law_blocks(self, law: Columns) -> Float[Array, "n m c c"]:
        if law.shape[1] > 1:
            return super().law_blocks(law)
        return (0.5 - law * law)[:, 0, :, None, None]

    def blocks(self, proba: Table) -> Blocks:
        Q = self.basis(proba.shape[-1], proba)
        mean = proba @ Q
        return _spread(proba, Q) - mean[:, :, None] * mean[:, None, :]

    def factors(self, proba: Table) -> Blocks:
        """Return L with LLᵀ = QᵀΛQ for every row, exact also where Λ is singular.

        Λ = D^½(I - ssᵀ)D^½ with s = √p; columns of a reflector that sends s to -e₀ span I - ssᵀ.
        """
        xp = namespace(proba)
        Q = self.basis(proba.shape[-1], proba)
        eye = xp.eye(proba.shape[-1], dtype=proba.dtype, device=proba.device)
        root = xp.sqrt(proba)
        h = root + eye[0, :]
        reflector = eye - h[:, :, None] * (h / (1.0 + root[:, :1]))[:, None, :]
        return xp.matmul(Q.T, root[:, :, None] * reflector[:, :, 1:])

    def diagonal(self, proba: Table) -> Table:
        return proba * (1.0 - proba)

    def mean_curvature(self, proba: Table, weights: Float[Array, " n"]) -> Float[Array, "k k"]:
        xp = namespace(proba)
        total = weights[:, None] * proba / xp.sum(weights)
        eye = xp.eye(total.shape[1], dtype=total.dtype, device=total.device)
        return eye * xp.sum(total, axis=0)[:, None] - proba.T @ total


def _spread(share: Table, Q: Float[Array, "k c"]) -> Blocks:
    """Return Σ_k share_k q_k q_kᵀ for all rows."""
    xp = namespace(share)
    K, c = Q.shape
    pairs = xp.reshape(Q[:, :, None] * Q[:, None, :], (K, c * c))
    return xp.reshape(share @ pairs, (-1, c, c))


def tempered(p: Tables, T: float) -> Tables:
    """Return softmax(log p / T); T = 0 is the argmax, shared among ties."""
    xp = namespace(p)
    if T == 1.0:
        return p
    if T == 0.0:
        best = xp.astype(p == xp.max(p, axis=-1, keepdims=True), p.dtype)
        return best / xp.sum(best, axis=-1, keepdims=True)
    tiny = float(xp.finfo(p.dtype).smallest_normal)
    log_p = xp.log(xp.maximum(p, xp.full_like(p, tiny)))
    return softmax(log_softmax(log_p) / T)

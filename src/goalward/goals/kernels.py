"""Goals in logit space: the value τ, u = ∂τ/∂g and W = ∂²τ/∂g², for one model or a stack of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float

from goalward.core.arrays import Array, log_softmax, namespace, softmax
from goalward.models.loss import Loss

Logits = Float[Array, "m k"]
ManyLogits = Float[Array, "*b m k"]
ManyValues = Float[Array, "*b"]
Weights = Float[Array, " m"]


@runtime_checkable
class Kernel(Protocol):
    """A goal in logit space."""

    def value(self, logits: ManyLogits) -> ManyValues:
        """Return τ, larger is better."""

    def cotangent(self, logits: Logits) -> Logits:
        """Return u = ∂τ/∂logits; its rows sum to zero."""

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        """Return W s, the change of u when the logits move by `motion`."""


class Coupling(NamedTuple):
    """Σ_ij C_ij z_i z_jᵀ, the curvature that couples rows; rows of each z sum to zero."""

    vectors: Float[Array, "r m k"]
    middle: Float[Array, "r r"]


class Coupled(ABC):
    """A kernel τ = Φ(Σ_r a(g_r)): W = W_rows + Σ_ij C_ij z_i z_jᵀ, C = ∂²Φ and z_i the gradients of sums."""

    @abstractmethod
    def own(self, logits: Logits, motion: Logits) -> Logits:
        """Return W_rows s: a row's part depends on that row's motion alone."""

    @abstractmethod
    def coupling(self, logits: Logits) -> Coupling:
        """Return the coupling of the rows."""

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        xp = namespace(logits)
        vectors, middle = self.coupling(logits)
        flat = xp.reshape(vectors, (vectors.shape[0], -1))
        shares = middle @ (flat @ xp.reshape(motion, (-1,)))
        return self.own(logits, motion) + xp.reshape(shares @ flat, logits.shape)


# Sums over rows of a function h of the probabilities p = softmax(g/T) of each row. With a = ∂h/∂p
# and Λ = diag(p) - ppᵀ, u = Λa/T. When the logits move by s, p moves by dp = Λs/T and a by da, so
# W s = [Λda + dp∘(a - ⟨p, a⟩) - p⟨dp, a⟩]/T.


class OfProbabilities(ABC):
    """A kernel that adds up a function of each row's probabilities."""

    temperature: float = 1.0

    @abstractmethod
    def slope(self, logits: ManyLogits) -> tuple[ManyLogits, ManyLogits]:
        """Return p, and a up to a constant for each row."""

    def slope_change(self, p: Logits, away: Logits) -> Logits | float:
        """Return da when p moves by p∘away; 0 for a function that is linear in p."""
        return 0.0

    def cotangent(self, logits: ManyLogits) -> ManyLogits:
        p, a = self.slope(logits)
        return p * _centred(p, a) / self.temperature

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        p, a = self.slope(logits)
        away = _centred(p, motion / self.temperature)
        bent = away * _centred(p, a) + self.slope_change(p, away)
        return p * _centred(p, bent) / self.temperature


def _centred(p: ManyLogits, a: ManyLogits) -> ManyLogits:
    """Return a - ⟨p, a⟩, row by row; times p it is Λa."""
    return a - namespace(p).sum(p * a, axis=-1, keepdims=True)


@dataclass(frozen=True)
class NegativeEntropy(OfProbabilities):
    """Σ p log p: a = log p, so u = p∘(log p + h) as in the paper's §8, h the entropy of the row."""

    def value(self, logits: ManyLogits) -> ManyValues:
        xp = namespace(logits)
        # ⟨p, f⟩ - log Σ exp f: one exponential a class.
        shifted = logits - xp.max(logits, axis=-1, keepdims=True)
        exp = xp.exp(shifted)
        total = xp.sum(exp, axis=-1)
        return xp.sum(xp.sum(exp * shifted, axis=-1) / total - xp.log(total), axis=-1)

    def slope(self, logits: ManyLogits) -> tuple[ManyLogits, ManyLogits]:
        log_p = log_softmax(logits)
        return namespace(logits).exp(log_p), log_p

    def slope_change(self, p: Logits, away: Logits) -> Logits:
        return away

    def bend_bound(self, n_rows: int, n_classes: int, like: Array) -> Weights:
        """Return 2 log K + ¼: d²Σp log p is a variance and Σ p (d - d̄)² (log p + h), |Σ…| ≤ 2h range²."""
        bound = 2.0 * log(n_classes) + 0.25
        return namespace(like).full((n_rows,), bound, dtype=like.dtype, device=like.device)


@dataclass(frozen=True)
class LikeliestClass(OfProbabilities):
    """Σ max p, smooth where one class leads; the first of equal classes does."""

    def value(self, logits: ManyLogits) -> ManyValues:
        xp = namespace(logits)
        return xp.sum(xp.max(softmax(logits), axis=-1), axis=-1)

    def slope(self, logits: ManyLogits) -> tuple[ManyLogits, ManyLogits]:
        xp, p = namespace(logits), softmax(logits)
        codes = xp.arange(p.shape[-1], device=p.device)
        return p, xp.astype(codes == xp.argmax(p, axis=-1, keepdims=True), p.dtype)


@dataclass(frozen=True)
class NegativeTrace(OfProbabilities):
    """-Σ c (1 - ‖p‖²), c = ‖x‖²/m."""

    scale: Weights

    def value(self, logits: ManyLogits) -> ManyValues:
        xp, p = namespace(logits), softmax(logits)
        return xp.sum(self.scale * (xp.sum(p * p, axis=-1) - 1.0), axis=-1)

    def slope(self, logits: ManyLogits) -> tuple[ManyLogits, ManyLogits]:
        p = softmax(logits)
        return p, 2.0 * p

    def slope_change(self, p: Logits, away: Logits) -> Logits:
        return 2.0 * p * away

    def cotangent(self, logits: ManyLogits) -> ManyLogits:
        return self.scale[:, None] * super().cotangent(logits)

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        return self.scale[:, None] * super().curvature(logits, motion)

    def bend_bound(self, n_rows: int, n_classes: int, like: Array) -> Weights:
        """Return 4c: |p'| ≤ p range and |p''| ≤ p range², so |d²Σp²| ≤ 4 range²."""
        return 4.0 * namespace(self.scale).abs(self.scale)


@dataclass(frozen=True)
class SoftPoints(OfProbabilities):
    """Σ c softmax(g/T): c points for each class."""

    points: Logits
    temperature: float

    def value(self, logits: ManyLogits) -> ManyValues:
        P = softmax(logits / self.temperature)
        return namespace(logits).sum(self.points * P, axis=(-2, -1))

    def slope(self, logits: ManyLogits) -> tuple[ManyLogits, ManyLogits]:
        return softmax(logits / self.temperature), self.points


@dataclass(frozen=True)
class LogLikelihood:
    """Σ t log p with u = t - p Σt and W = -(Σt) Λ; t carries the row's weight."""

    targets: Logits

    def value(self, logits: ManyLogits) -> ManyValues:
        return namespace(logits).sum(self.targets * log_softmax(logits), axis=(-2, -1))

    def cotangent(self, logits: ManyLogits) -> ManyLogits:
        return self.targets - self.mass * softmax(logits)

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        p = softmax(logits)
        return -self.mass * p * _centred(p, motion)

    def bend_bound(self, n_rows: int, n_classes: int, like: Array) -> Weights:
        """Return (Σt)/4: a variance is at most a quarter of the squared range."""
        return 0.25 * self.mass[:, 0]

    @cached_property
    def mass(self) -> Float[Array, "m 1"]:
        return namespace(self.targets).sum(self.targets, axis=-1, keepdims=True)


@dataclass(frozen=True)
class MinusLoss:
    """-Σ w loss, with u = w (t - p) and W = -wΛ, under any loss."""

    loss: Loss
    targets: Logits
    weights: Weights

    def rows(self, logits: ManyLogits) -> Float[Array, "*b m"]:
        """Return minus the loss of every row, without its weight."""
        return -self.loss.rows(logits, self.targets)

    def value(self, logits: ManyLogits) -> ManyValues:
        return namespace(logits).sum(self.weights * self.rows(logits), axis=-1)

    def cotangent(self, logits: ManyLogits) -> ManyLogits:
        return -self.weights[:, None] * self.loss.slope(logits, self.targets)

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        proba = self.loss.seen(self.loss.proba(logits), self.targets)
        return -self.weights[:, None] * self.loss.curvature(proba, motion)


# Kernels of classes over several labels. Under `Sigmoid` a label with the logit f is a softmax of two
# classes, no and yes, with the logits -f/2 and f/2: K rows for every row. A label without an answer
# is a row without weight.


def per_label(kernel: Any, loss: Loss, column: int | None = None) -> Any:
    """Return a kernel of classes for models of a loss; of one label alone where `column` names it."""
    if loss.kind != "labels":
        return kernel
    make = CoupledLabels if hasattr(kernel, "coupling") else EachLabel
    return make(kernel, column)


def paired(logits: Float[Array, "*b m k"]) -> Float[Array, "*b mk 2"]:
    """Return the logits of no and yes, label after label of each row."""
    xp = namespace(logits)
    pairs = xp.stack([-0.5 * logits, 0.5 * logits], axis=-1)
    return xp.reshape(pairs, (*logits.shape[:-2], -1, 2))


def in_pairs(
    targets: Float[Array, "m k"], weights: Float[Array, " m"]
) -> tuple[Float[Array, "mk 2"], Float[Array, " mk"]]:
    """Return targets and weights of no and yes; no weight where there is no answer."""
    xp = namespace(targets)
    missing = xp.isnan(targets)
    yes = xp.where(missing, xp.zeros_like(targets), targets)
    heavy = xp.where(missing, xp.zeros_like(targets), weights[:, None] + 0.0 * targets)
    pairs = xp.stack([1.0 - yes, yes], axis=-1)
    return xp.reshape(pairs, (-1, 2)), xp.reshape(heavy, (-1,))


@dataclass(frozen=True)
class EachLabel:
    """A kernel of two classes over every label of every row, or over the label `column` alone."""

    kernel: Any
    column: int | None = None

    def value(self, logits: ManyLogits) -> ManyValues:
        return self.kernel.value(self._pairs(logits))

    def cotangent(self, logits: Logits) -> Logits:
        return self._back(self.kernel.cotangent(self._pairs(logits)), logits)

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        return self._back(self.kernel.curvature(*map(self._pairs, (logits, motion))), logits)

    def _pairs(self, logits: ManyLogits) -> Float[Array, "*b n 2"]:
        k = self.column
        return paired(logits if k is None else logits[..., k : k + 1])

    def _back(self, u: Float[Array, "*r n 2"], logits: Logits) -> Float[Array, "*r m k"]:
        """Return ∂τ/∂f of every label: half the difference between yes and no."""
        xp = namespace(u)
        moved = xp.reshape(0.5 * (u[..., 1] - u[..., 0]), (*u.shape[:-2], logits.shape[0], -1))
        if self.column is None:
            return moved
        at = xp.arange(logits.shape[1], device=u.device) == self.column
        return moved * xp.astype(at, u.dtype)


class CoupledLabels(EachLabel, Coupled):
    """The same of a kernel whose rows depend on one another."""

    curvature = EachLabel.curvature

    def own(self, logits: Logits, motion: Logits) -> Logits:
        return self._back(self.kernel.own(*map(self._pairs, (logits, motion))), logits)

    def coupling(self, logits: Logits) -> Coupling:
        vectors, middle = self.kernel.coupling(self._pairs(logits))
        return Coupling(self._back(vectors, logits), middle)

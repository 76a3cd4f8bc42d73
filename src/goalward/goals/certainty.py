"""Certainty on unlabelled rows: by entropy, by the likeliest class, by Fisher information."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log
from typing import Any, ClassVar

from jaxtyping import Float

from goalward.core.arrays import Array, like, log_softmax, namespace, softmax
from goalward.goals.each_label import per_label
from goalward.goals.goal import Goal, Kernel, Logits, ManyLogits, ManyValues, Term, file_parts
from goalward.models import Fitted

__all__ = [
    "Entropy",
    "ExpectedAccuracy",
    "Fisher",
    "LikeliestClass",
    "NegativeEntropy",
    "NegativeTrace",
]


@dataclass(frozen=True)
class NegativeEntropy:
    """Σ p log p, with u = p∘(log p + h) of the paper's §8, h the entropy of the row.

    W = diag(u + p) - upᵀ - puᵀ - ppᵀ for each row.
    """

    def value(self, logits: ManyLogits) -> ManyValues:
        xp = namespace(logits)
        # ⟨p, f⟩ - log Σ exp f: one exponential a class.
        shifted = logits - xp.max(logits, axis=-1, keepdims=True)
        exp = xp.exp(shifted)
        total = xp.sum(exp, axis=-1)
        return xp.sum(xp.sum(exp * shifted, axis=-1) / total - xp.log(total), axis=-1)

    def cotangent(self, logits: ManyLogits) -> ManyLogits:
        return self._slope(logits)[1]

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        return _bent(*self._slope(logits), 1.0, motion)

    def bend_bound(self, n_rows: int, n_classes: int, like: Array) -> Float[Array, " m"]:
        """Return 2 log K + ¼: d²Σp log p is a variance and Σ p (d - d̄)² (log p + h), |Σ…| ≤ 2h range²."""
        xp = namespace(like)
        bound = 2.0 * log(n_classes) + 0.25
        return xp.full((n_rows,), bound, dtype=like.dtype, device=like.device)

    def _slope(self, logits: ManyLogits) -> tuple[ManyLogits, ManyLogits]:
        xp = namespace(logits)
        log_p = log_softmax(logits)
        p = xp.exp(log_p)
        entropy = -xp.sum(p * log_p, axis=-1, keepdims=True)
        return p, p * (log_p + entropy)


@dataclass(frozen=True)
class LikeliestClass:
    """Σ max p, smooth where one class a leads: u = p_a (e_a - p).

    W s = u ⟨e_a - p, s⟩ - p_a Λs for each row.
    """

    def value(self, logits: ManyLogits) -> ManyValues:
        xp = namespace(logits)
        return xp.sum(xp.max(softmax(logits), axis=-1), axis=-1)

    def cotangent(self, logits: Logits) -> Logits:
        _, best, away = self._slope(logits)
        return best * away

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        xp = namespace(logits)
        p, best, away = self._slope(logits)
        mean = xp.sum(p * motion, axis=-1, keepdims=True)
        along = xp.sum(away * motion, axis=-1, keepdims=True)
        return best * (along * away - p * (motion - mean))

    def _slope(self, logits: Logits) -> tuple[Logits, Float[Array, "m 1"], Logits]:
        """Return p, p_a and e_a - p; the first of equal classes leads."""
        xp = namespace(logits)
        p = softmax(logits)
        codes = xp.arange(p.shape[-1], device=p.device)
        leads = xp.astype(codes == xp.argmax(p, axis=-1, keepdims=True), p.dtype)
        return p, xp.max(p, axis=-1, keepdims=True), leads - p


@dataclass(frozen=True)
class NegativeTrace:
    """-Σ c (1 - ν) with c = ‖x‖²/m and ν = ‖p‖²; u = c ũ with ũ = 2p∘(p - ν).

    W = 2c [diag(ũ + νp) - ũpᵀ - pũᵀ - νppᵀ] for each row.
    """

    scale: Float[Array, " m"]

    def value(self, logits: ManyLogits) -> ManyValues:
        xp = namespace(logits)
        p = softmax(logits)
        return xp.sum(self.scale * (xp.sum(p * p, axis=-1) - 1.0), axis=-1)

    def cotangent(self, logits: ManyLogits) -> ManyLogits:
        return self.scale[:, None] * self._slope(logits)[1]

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        p, slope, nu = self._slope(logits)
        return 2.0 * self.scale[:, None] * _bent(p, slope, nu, motion)

    def bend_bound(self, n_rows: int, n_classes: int, like: Array) -> Float[Array, " m"]:
        """Return 4c: |p'| ≤ p range and |p''| ≤ p range², so |d²Σp²| ≤ 4 range²."""
        return 4.0 * namespace(self.scale).abs(self.scale)

    def _slope(self, logits: ManyLogits) -> tuple[ManyLogits, ManyLogits, Float[Array, "*b m 1"]]:
        p = softmax(logits)
        nu = namespace(logits).sum(p * p, axis=-1, keepdims=True)
        return p, 2.0 * p * (p - nu), nu


def _bent(p: Logits, u: Logits, a: Float[Array, "m 1"] | float, s: Logits) -> Logits:
    """Return [diag(u + ap) - upᵀ - puᵀ - appᵀ] s."""
    xp = namespace(p)
    ps = xp.sum(p * s, axis=-1, keepdims=True)
    us = xp.sum(u * s, axis=-1, keepdims=True)
    return (u + a * p) * s - u * ps - p * (us + a * ps)


@dataclass(frozen=True, eq=False)
class RowSum(Goal):
    """A sum over unlabelled rows, which a kernel measures one by one.

    Parameters
    ----------
    X
        Rows whose predictions should become certain.
    """

    X: Any = field(repr=False)
    kernel: ClassVar[Kernel]
    kinds: ClassVar[tuple[str, ...]] = ("class", "labels")

    def pieces(self) -> list[tuple[float, Goal]]:
        return [(1.0, replace(self, X=X)) for _, X in file_parts(self.X)]

    def terms(self, fitted: Fitted) -> list[Term]:
        X = fitted.features(self.X, f"X of {type(self).__name__}")
        return [Term(1.0, X, per_label(self.kernel, fitted.loss))]


class Entropy(RowSum):
    """τ = Σ Σ_k p_k log p_k: minus the summed entropy of predictions on unlabelled rows.

    Of several labels it is the sum over labels, of no and yes each. The entropy of a number does not
    depend on what is predicted: there is `PredictionVariance` for that.

    The paper finds that raising it can lower accuracy (§6.3): prefer it as a baseline to
    beat, not as a default.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.Entropy([[0.5]]).value(fitted)  # -log 2, at the boundary
    -0.6931471805599453
    """

    kernel = NegativeEntropy()


class ExpectedAccuracy(RowSum):
    """τ = Σ max p: of how many unlabelled rows the model expects to be right.

    Under the prediction, retrained, it is expected error reduction with 0/1 loss (Roy and McCallum
    2001), as `Entropy` is with log loss. Like that one it rewards confidence.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.ExpectedAccuracy([[0.5]]).value(fitted)  # at the boundary
    0.5
    """

    kernel = LikeliestClass()


@dataclass(frozen=True, eq=False)
class Fisher(Goal):
    """τ = -mean (1 - ‖p‖²)‖x‖², minus the trace of the mean Fisher information.

    x has its constant column if the model has an intercept. The paper adds the trace of
    λI and prints it as λK; for d features it is λdK. It is a constant of the model that
    only changes with n (λ = 1/(nC)), so it is left out here: it would make τ rise with
    every label, whichever row is labelled.

    Parameters
    ----------
    X
        Rows over which the information is averaged: the pool, as a rule.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.Fisher([[0.5]]).value(fitted)  # -(1 - 1/2) (0.5² + 1)
    -0.625
    """

    X: Any = field(repr=False)

    def pieces(self) -> list[tuple[float, Goal]]:
        parts = file_parts(self.X)
        if len(parts) == 1:
            return [(1.0, self)]
        return [(len(X) / len(self.X), Fisher(X)) for _, X in parts]

    def terms(self, fitted: Fitted) -> list[Term]:
        X = fitted.features(self.X, "X of Fisher")
        norms = like(fitted.model.squared_norms(X, fitted.params), fitted.params)
        return [Term(1.0, X, NegativeTrace(norms / X.shape[0]))]

"""The dev-set log-likelihood after the best temperature: no reward for mere confidence."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float

from goalward.core.arrays import Array, eps, namespace, softmax
from goalward.errors import WeakGoal
from goalward.goals.dev_loss import DevGoal, LogLikelihood, Weights
from goalward.goals.goal import (
    Coupled,
    Coupling,
    Logits,
    ManyLogits,
    ManyValues,
    Term,
    logits_of,
)
from goalward.models import Fitted

__all__ = ["CalibratedDevLoss", "CalibratedLikelihood"]

COLDEST, HOTTEST = 0.05, 20.0
"""Temperatures between which the best one is sought."""


@dataclass(frozen=True, eq=False)
class CalibratedDevLoss(DevGoal):
    """τ = max_T Σ log softmax(g/T)_y over dev rows, 0.05 ≤ T ≤ 20.

    A label that only makes the model more confident raises the dev loss and leaves this as it
    is: τ does not change when all logits are multiplied by a number. With b = 1/T the sum is
    concave in b, so T is found by a bracketed Newton iteration that cannot miss it. Where every dev row
    is classified right there is no best T: the sum rises to 0 as T falls. T then stays at 0.05, the
    goal is all but flat there, and a `WeakGoal` warning says so.

    Parameters
    ----------
    X, y, weights
        Dev rows with labels, as for `DevLoss`.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.CalibratedDevLoss([[2.0], [-1.0], [0.6]], [1, 0, 0])
    >>> goal.temperature(fitted) > 0.05
    True
    """

    kinds: ClassVar[tuple[str, ...]] = ("class",)

    def temperature(self, fitted: Fitted) -> float:
        """Return the best temperature of the model on the dev rows."""
        X, kernel = self.bound(fitted)
        return 1.0 / float(kernel.sharpness(logits_of(fitted, X)))

    def terms(self, fitted: Fitted) -> list[Term]:
        X, kernel = self.bound(fitted)
        if float(kernel.sharpness(logits_of(fitted, X))) >= kernel.high:
            warnings.warn(
                f"The best temperature of CalibratedDevLoss is its least, {COLDEST}: the {X.shape[0]} "
                "dev rows are all classified right, or nearly so, and tell little about which label "
                "would help; some mistakes were expected. Add dev rows, or use DevLoss.",
                WeakGoal,
                stacklevel=2,
            )
        return [Term(1.0, X, kernel)]

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> CalibratedLikelihood:
        return CalibratedLikelihood(weights[:, None] * targets)


@dataclass(frozen=True)
class CalibratedLikelihood(Coupled):
    """φ(g, b) = Σ t log softmax(b g) at the best b.

    By the envelope theorem ∂τ/∂g = ∂φ/∂g at b. The best b moves with the logits by -φ_bg/φ_bb, so
    W = φ_gg - φ_gb φ_bg / φ_bb, the last of rank one; it is 0 where b stands at a bound. Here
    φ_gb = (t - p Σt) - b (Σt) p∘(g - ⟨p, g⟩), p the calibrated prediction.
    """

    targets: Logits
    low: float = 1.0 / HOTTEST
    high: float = 1.0 / COLDEST

    def sharpness(self, logits: ManyLogits) -> ManyValues:
        """Return the best b = 1/T of each model."""
        xp = namespace(logits)
        centred, linear = self._sums(logits)
        low = xp.full_like(linear, self.low)
        high = xp.full_like(linear, self.high)
        at_high = self._slope(centred, linear, high)[0] >= 0.0
        at_low = self._slope(centred, linear, low)[0] <= 0.0
        b = xp.where(at_high, high, xp.where(at_low, low, xp.ones_like(linear)))
        settled = at_high | at_low
        for _ in range(100):
            slope, bend, noise = self._slope(centred, linear, b)
            low = xp.where(slope > 0.0, b, low)
            high = xp.where(slope > 0.0, high, b)
            # Flat logits bend nothing, and have no slope then either.
            newton = b + slope / xp.where(bend > 0.0, bend, xp.ones_like(bend))
            inside = (newton > low) & (newton < high)
            moved = xp.where(inside, newton, xp.sqrt(low * high))
            near = xp.abs(moved - b) <= 8.0 * eps(b) * b
            settled = settled | near | (xp.abs(slope) <= noise)
            if bool(xp.all(settled)):
                break
            b = xp.where(settled, b, moved)
        return b

    def value(self, logits: ManyLogits) -> ManyValues:
        b = self.sharpness(logits)
        return LogLikelihood(self.targets).value(b[..., None, None] * logits)

    def cotangent(self, logits: Logits) -> Logits:
        b = self.sharpness(logits)
        return b * LogLikelihood(self.targets).cotangent(b * logits)

    def own(self, logits: Logits, motion: Logits) -> Logits:
        b = self.sharpness(logits)
        return b * LogLikelihood(self.targets).curvature(b * logits, b * motion)

    def coupling(self, logits: Logits) -> Coupling:
        xp = namespace(logits)
        b = self.sharpness(logits)
        centred, linear = self._sums(logits)
        _, bend, _ = self._slope(centred, linear, b)
        inner = LogLikelihood(self.targets)
        vector = inner.cotangent(b * logits) + inner.curvature(b * logits, b * centred)
        free = (b > self.low) & (b < self.high) & (bend > 0.0)
        middle = xp.where(free, 1.0 / xp.where(free, bend, 1.0), 0.0)
        return Coupling(vector[None, :, :], xp.reshape(middle, (1, 1)))

    def _sums(self, logits: ManyLogits) -> tuple[Array, Array]:
        """Return logits with row means of zero, and Σ t g of each model."""
        xp = namespace(logits)
        centred = logits - xp.sum(logits, axis=-1, keepdims=True) / logits.shape[-1]
        return centred, xp.sum(self.targets * centred, axis=(-2, -1))

    def _slope(
        self, centred: Float[Array, "*b m k"], linear: Float[Array, "*b"], b: Float[Array, "*b"]
    ) -> tuple[Array, Array, Array]:
        """Return φ_b = Σ t g - Σ (Σt)⟨p, g⟩, -φ_bb, and the rounding of the first."""
        xp = namespace(centred)
        mass = xp.sum(self.targets, axis=-1)
        p = softmax(b[..., None, None] * centred)
        mean = xp.sum(p * centred, axis=-1)
        spread = xp.sum(p * (centred - mean[..., None]) ** 2, axis=-1)
        noise = 2.0 * eps(mean) * (xp.abs(linear) + xp.sum(mass * xp.abs(mean), axis=-1))
        return linear - xp.sum(mass * mean, axis=-1), xp.sum(mass * spread, axis=-1), noise

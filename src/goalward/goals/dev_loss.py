"""Goals of dev rows: what they share, and the log-likelihood, the paper's most useful goal."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, Rows, eps, log_softmax, namespace, softmax, to_numpy
from goalward.errors import BadInput, BadParameter, ShapeMismatch, Unsupported, WeakGoal
from goalward.goals.each_label import in_pairs, per_label
from goalward.goals.goal import (
    Coupled,
    Coupling,
    Goal,
    Kernel,
    Logits,
    ManyLogits,
    ManyValues,
    Term,
    file_parts,
    logits_of,
)
from goalward.models.fitted import Fitted
from goalward.models.loss import Loss

__all__ = [
    "CalibratedDevLoss",
    "CalibratedLikelihood",
    "DevGoal",
    "DevLoss",
    "LogLikelihood",
    "MeanSquaredError",
    "MinusLoss",
    "check_in_memory",
    "check_some_weight",
    "check_temperature",
    "count_labels",
]


Weights = Float[Array, " m"]


@dataclass(frozen=True, eq=False)
class DevGoal(Goal):
    """A goal of labelled rows that the model is not trained on; each kind brings its kernel."""

    coupled: ClassVar[bool] = True
    """Whether rows depend on one another. Then some must count, and a file is not read in parts."""

    paired: ClassVar[bool] = True
    """Whether several labels come to the kernel as rows of two classes, and not as they are."""
    kinds: ClassVar[tuple[str, ...]] = ("class", "labels")

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    weights: Any = field(default=None, repr=False, kw_only=True)

    @abstractmethod
    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> Kernel:
        """Return what is measured on the rows' logits."""

    @property
    def labels_held(self) -> int:
        return count_labels(self.y)

    def bound(self, fitted: Fitted) -> tuple[Rows, Any]:
        """Return the rows as the model sees them, and the kernel of their labels."""
        name = type(self).__name__
        if self.coupled:
            check_in_memory(self.X, name)
        X = fitted.features(self.X, f"X of {name}")
        targets = fitted.targets(self.y, X.shape[0], f"y of {name}")
        weights = fitted.row_weights(self.weights, X.shape[0])
        if self.coupled:
            check_some_weight(float(namespace(weights).sum(weights)), name)
        if self.paired and fitted.loss.kind == "labels":
            return X, per_label(self.kernel(fitted, *in_pairs(targets, weights)), fitted.loss)
        return X, self.kernel(fitted, targets, weights)

    def terms(self, fitted: Fitted) -> list[Term]:
        return [Term(1.0, *self.bound(fitted))]

    def pieces(self) -> list[tuple[float, Goal]]:
        parts = file_parts(self.X)
        if self.coupled or len(parts) == 1:
            return [(1.0, self)]
        w = self.weights
        for column, values in (("y", self.y), ("weights", w)):
            if values is not None and len(values) != len(self.X):
                raise ShapeMismatch(
                    f"{column} of {type(self).__name__} has {len(values)} entries; {len(self.X)} were "
                    "expected, one for each row of the file."
                )
        return [
            (1.0, replace(self, X=X, y=self.y[at], weights=None if w is None else w[at]))
            for at, X in parts
        ]


@dataclass(frozen=True, eq=False)
class DevLoss(DevGoal):
    """τ = Σ log p_y over dev rows: higher is better, so the loss falls.

    Of several labels it is the sum over those that are answered; of numbers -½ Σ (f - y)².

    Parameters
    ----------
    X
        Dev rows.
    y
        Their labels, or (m, K) distributions over the classes; of a model of several labels or of
        numbers what it was fitted to.
    weights
        A weight per row; ones by default.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.DevLoss([[2.0]], [1]).value(fitted) < 0
    True
    """

    coupled: ClassVar[bool] = False
    paired: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ("class", "labels", "numbers")

    @property
    def effective_rows(self) -> float:
        """(Σw)² / Σw²: how many rows of equal weight would say as much."""
        if self.weights is None:
            return float(count_labels(self.y))
        w = to_numpy(self.weights).astype(np.float64)
        return float(w.sum() ** 2 / max(float(np.sum(w * w)), 1e-300))

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> Kernel:
        if fitted.loss.kind == "class":
            return LogLikelihood(weights[:, None] * targets)
        return MinusLoss(fitted.loss, targets, weights)


@dataclass(frozen=True, eq=False)
class MeanSquaredError(DevGoal):
    """τ = -mean (f - y)² over dev rows, and over the numbers of each: its rise is that of R².

    Parameters
    ----------
    X, y, weights
        Dev rows with their numbers, as for `DevLoss`.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Ridge().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> gw.goals.MeanSquaredError([[1.0]], [5.0]).value(fitted)
    -4.0
    """

    paired: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ("numbers",)

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> MinusLoss:
        total = namespace(weights).sum(weights)
        return MinusLoss(fitted.loss, targets, 2.0 * weights / (total * targets.shape[1]))


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


@dataclass(frozen=True)
class LogLikelihood:
    """Σ t log p with u = t - p Σt and W = -(Σt) Λ; t carries the row's weight."""

    targets: Logits

    def value(self, logits: ManyLogits) -> ManyValues:
        return namespace(logits).sum(self.targets * log_softmax(logits), axis=(-2, -1))

    def cotangent(self, logits: ManyLogits) -> ManyLogits:
        return self.targets - self.mass * softmax(logits)

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        xp = namespace(logits)
        p = softmax(logits)
        return -self.mass * p * (motion - xp.sum(p * motion, axis=-1, keepdims=True))

    def bend_bound(self, n_rows: int, n_classes: int, like: Array) -> Float[Array, " m"]:
        """Return (Σt)/4: a variance is at most a quarter of the squared range."""
        return 0.25 * self.mass[:, 0]

    @cached_property
    def mass(self) -> Float[Array, "m 1"]:
        """Σt of every row."""
        return namespace(self.targets).sum(self.targets, axis=-1, keepdims=True)


def check_some_weight(total: float, name: str) -> None:
    """Raise unless the weights of a goal's rows add up to more than 0."""
    if not total > 0.0:
        raise BadInput(
            f"The weights of {name} are all 0; at least 1 above 0 was expected. Leave weights= out "
            "to count every row once."
        )


def check_temperature(temperature: Any, name: str) -> None:
    """Raise unless a temperature is a number above 0."""
    if not (isinstance(temperature, (int, float)) and 0.0 < temperature < float("inf")):
        raise BadParameter(
            f"temperature={temperature!r} of {name}; a number above 0 was expected. Leave it out for "
            "the default, or use 0.1 for less smoothing."
        )


def check_in_memory(X: Any, name: str) -> None:
    """Raise if rows stay on disk in several parts: a goal that couples rows is no sum of parts."""
    parts = len(file_parts(X))
    if parts > 1:
        raise Unsupported(
            f"The rows of {name} are a file that is read in {parts} parts, and this goal is not a sum "
            "over them, since all its rows depend on one another. Pass rows in memory: X[:] for all "
            "of them, or fewer."
        )


def count_labels(y: Any) -> int:
    """Return how many labels `y` holds."""
    return int(y.shape[0]) if hasattr(y, "shape") else len(y)


# The dev-set log-likelihood after the best temperature: no reward for mere confidence.


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

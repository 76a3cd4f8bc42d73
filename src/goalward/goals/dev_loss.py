"""Goals of dev rows: what they share, and the log-likelihood, the paper's most useful goal."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, Rows, log_softmax, namespace, softmax, to_numpy
from goalward.errors import BadInput, BadParameter, ShapeMismatch, Unsupported
from goalward.goals.each_label import in_pairs, per_label
from goalward.goals.goal import Goal, Kernel, Logits, ManyLogits, ManyValues, Term, file_parts
from goalward.models import Fitted, Loss

__all__ = [
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

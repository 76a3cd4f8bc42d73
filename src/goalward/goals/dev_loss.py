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
from goalward.goals.goal import Goal, Kernel, Logits, ManyLogits, ManyValues, Term, file_parts
from goalward.models import Fitted

__all__ = [
    "DevGoal",
    "DevLoss",
    "LogLikelihood",
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

    Parameters
    ----------
    X
        Dev rows.
    y
        Their labels, or (m, K) distributions over the classes.
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

    @property
    def effective_rows(self) -> float:
        """(Σw)² / Σw²: how many rows of equal weight would say as much."""
        if self.weights is None:
            return float(count_labels(self.y))
        w = to_numpy(self.weights).astype(np.float64)
        return float(w.sum() ** 2 / max(float(np.sum(w * w)), 1e-300))

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> LogLikelihood:
        return LogLikelihood(weights[:, None] * targets)


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

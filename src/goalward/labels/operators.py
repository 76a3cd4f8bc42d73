"""The paper's operators ℓ_y: from a utility per label to one number per row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, astype, eps, namespace
from goalward.errors import ShapeMismatch
from goalward.labels.beliefs import Belief, Predicted, Uniform
from goalward.labels.vacuous import warn_if_vacuous

__all__ = ["BestCase", "Expected", "Operator", "Resolve", "Spread", "WorstCase", "mean"]

Resolve = Callable[[Float[Array, "n k"], Any], Float[Array, " n"]]
"""(utilities, candidates) -> one number per row."""


@dataclass(frozen=True)
class _Block:
    """Rows as an operator needs them; learners.Candidates has the same shape."""

    rows: NDArray[Any]
    X: Any
    proba: Float[Array, "n k"]


class Operator(ABC):
    """A way to resolve the unknown label."""

    @property
    def statistic(self) -> str | None:
        """The number this operator takes of utilities that are ⟨p, s⟩ - s_k, if it has a name.

        "mean", "min", "max" or "spread": a scorer may compute these without a table.
        """
        return None

    @abstractmethod
    def prepare(self, fitted: Any, round: int = 0) -> Resolve:
        """Return the operator bound to a model and a round, for blocks of candidates."""

    def __call__(
        self,
        utility: Float[Array, "n k"],
        fitted: Any,
        X_pool: Any,
        rows: Any = None,
        *,
        round: int = 0,
    ) -> Float[Array, " n"]:
        """Return one number per row.

        Parameters
        ----------
        utility
            (N, K) from a utility.
        rows
            Ids of the rows, so that `Truth(labels)` stays aligned in a shrinking pool;
            positions by default.
        round
            For temperature schedules.
        """
        X = fitted.features(X_pool, "X_pool")
        if tuple(utility.shape) != (X.shape[0], fitted.n_classes):
            raise ShapeMismatch(
                f"utility has shape {tuple(utility.shape)}; ({X.shape[0]}, {fitted.n_classes}), "
                "rows by classes, was expected. Score the same pool that is passed here."
            )
        ids = np.arange(X.shape[0]) if rows is None else _ids(rows)
        if len(ids) != X.shape[0]:
            raise ShapeMismatch(
                f"rows has {len(ids)} ids; {X.shape[0]} were expected, one for each row. Pass "
                "the ids of the rows of X_pool."
            )
        block = _Block(ids, X, fitted.loss.proba(fitted.logits_of(X)))
        resolved = self.prepare(fitted, round)(utility, block)
        xp = namespace(resolved)
        if len(ids) > 1:
            scale = float(xp.max(xp.max(utility, axis=0) - xp.min(utility, axis=0)))
            low, high = float(xp.min(resolved)), float(xp.max(resolved))
            warn_if_vacuous(low, high, scale, eps(utility), repr(self))
        return resolved


def _ids(rows: Any) -> NDArray[Any]:
    if isinstance(rows, np.ndarray):
        return rows
    ids = np.empty(len(rows), dtype=object)
    ids[:] = list(rows)
    return ids


def mean(utility: Float[Array, "n k"], belief: Float[Array, "n k"]) -> Float[Array, " n"]:
    """Return Σ_y P(y) u_y."""
    xp = namespace(utility)
    return xp.sum(astype(belief, utility.dtype) * utility, axis=1)


@dataclass(frozen=True)
class Expected(Operator):
    """The mean utility under a belief: the paper's Average, ExPred and Oracle.

    Examples
    --------
    >>> Expected()
    Expected(belief=Uniform())
    """

    belief: Belief = field(default_factory=Uniform)

    @property
    def statistic(self) -> str | None:
        """The mean, under no particular belief."""
        return "mean" if self.belief == Uniform() else None

    def prepare(self, fitted: Any, round: int = 0) -> Resolve:
        """Return Σ_y P(y) u_y."""
        believe = self.belief.prepare(fitted, round)
        return lambda utility, candidates: mean(utility, believe(candidates))


@dataclass(frozen=True)
class WorstCase(Operator):
    """The smallest utility over labels: the paper's Minimum.

    Examples
    --------
    >>> WorstCase()
    WorstCase()
    """

    @property
    def statistic(self) -> str | None:
        """The least."""
        return "min"

    def prepare(self, fitted: Any, round: int = 0) -> Resolve:
        """Return min_y u_y."""
        return lambda utility, candidates: namespace(utility).min(utility, axis=1)


@dataclass(frozen=True)
class BestCase(Operator):
    """The largest utility over labels: the paper's Maximum.

    Examples
    --------
    >>> BestCase()
    BestCase()
    """

    @property
    def statistic(self) -> str | None:
        """The largest."""
        return "max"

    def prepare(self, fitted: Any, round: int = 0) -> Resolve:
        """Return max_y u_y."""
        return lambda utility, candidates: namespace(utility).max(utility, axis=1)


@dataclass(frozen=True)
class Spread(Operator):
    """The standard deviation of the utility over the believed label.

    To first order under the model's own prediction it is √(sᵀΛs), never vacuous: the Fisher
    information of the row in the goal's direction. It does not add up over a batch.

    Examples
    --------
    >>> Spread()
    Spread(belief=Predicted(temperature=1.0))
    """

    belief: Belief = field(default_factory=Predicted)

    @property
    def statistic(self) -> str | None:
        """The standard deviation under the prediction itself."""
        return "spread" if self.belief == Predicted() else None

    def prepare(self, fitted: Any, round: int = 0) -> Resolve:
        """Return √(Σ_y P(y) (u_y - mean)²)."""
        believe = self.belief.prepare(fitted, round)

        def resolve(utility: Float[Array, "n k"], candidates: Any) -> Float[Array, " n"]:
            return deviation(utility, believe(candidates))

        return resolve


def deviation(utility: Float[Array, "n k"], belief: Float[Array, "n k"]) -> Float[Array, " n"]:
    """Return the standard deviation of the utility under a belief."""
    xp = namespace(utility)
    centred = utility - mean(utility, belief)[:, None]
    return xp.sqrt(mean(centred * centred, belief))

"""Small random problems that the checks are run on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.goals import DevLoss
from goalward.models import Fitted
from goalward.models.logistic import Logistic

__all__ = ["Problem", "problem"]


@dataclass(frozen=True)
class Problem:
    """Labelled, pool and dev rows of one random classification task, and a fitted model."""

    X: NDArray[Any] = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    X_pool: NDArray[Any] = field(repr=False)
    y_pool: NDArray[Any] = field(repr=False)
    X_dev: NDArray[Any] = field(repr=False)
    y_dev: NDArray[Any] = field(repr=False)
    learner: Logistic
    fitted: Fitted = field(repr=False)

    @property
    def goal(self) -> DevLoss:
        """The dev loss."""
        return DevLoss(self.X_dev, self.y_dev)


def problem(
    *,
    seed: int = 0,
    n_classes: int = 3,
    n_features: int = 4,
    n_labelled: int = 30,
    n_pool: int = 40,
    n_dev: int = 25,
    **options: Any,
) -> Problem:
    """Return a task whose labels follow a random softmax model; `options` go to Logistic.

    Every class has at least one labelled row.

    Examples
    --------
    >>> problem(n_classes=2).fitted.n_classes
    2
    """
    rng = np.random.default_rng(seed)
    total = n_labelled + n_pool + n_dev
    X = rng.normal(size=(total, n_features))
    noise = rng.gumbel(size=(total, n_classes))
    y = np.argmax(X @ rng.normal(scale=1.5, size=(n_features, n_classes)) + noise, axis=1)
    y[:n_classes] = np.arange(n_classes)
    cuts = [n_labelled, n_labelled + n_pool]
    (X_l, X_p, X_d), (y_l, y_p, y_d) = np.split(X, cuts), np.split(y, cuts)
    learner = Logistic(**{"tol": 1e-11, **options})
    return Problem(X_l, y_l, X_p, y_p, X_d, y_d, learner, learner.fit(X_l, y_l))

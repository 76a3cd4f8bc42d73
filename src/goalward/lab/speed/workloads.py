"""Problems of the sizes that the paper's data have, made up so that anyone can run them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Workload", "letter", "rt"]


class Workload(NamedTuple):
    """Labelled rows, dev rows, a pool, and scikit-learn's C."""

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    X_dev: NDArray[Any]
    y_dev: NDArray[Any]
    pool: NDArray[Any]
    C: float

    @property
    def our_C(self) -> float:
        """Our C: scikit-learn's binary model has one vector for our two."""
        return self.C / 2 if self.y.max() == 1 else self.C


def rt(n: int, n_pool: int = 9_586, seed: int = 0) -> Workload:
    """Return sentence vectors as of rt-polarity: 768 features, decaying spectrum, norm 14, K = 2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 500 + n_pool, 768)) / np.sqrt(1.0 + np.arange(768))
    X *= 14.0 / np.linalg.norm(X, axis=1).mean()
    y = (X @ rng.normal(size=768) + rng.logistic(size=len(X)) > 0).astype(int)
    return _cut(f"rt, {n} labels", X, y, n, 0.1)


def letter(n: int, n_pool: int = 14_948, seed: int = 0, n_classes: int = 26) -> Workload:
    """Return rows as of letter: 16 features in [-1, 1], 26 classes."""
    rng = np.random.default_rng(seed)
    centres = 0.5 * rng.normal(size=(n_classes, 16))
    y = np.arange(n + 500 + n_pool) % n_classes
    X = np.clip(centres[y] + 0.4 * rng.normal(size=(len(y), 16)), -1.0, 1.0)
    return _cut(f"letter, {n} labels", X, y, n, 1.0)


def _cut(name: str, X: NDArray[Any], y: NDArray[Any], n: int, C: float) -> Workload:
    return Workload(name, X[:n], y[:n], X[n : n + 500], y[n : n + 500], X[n + 500 :], C)

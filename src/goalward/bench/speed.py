"""Speed against peers and limits, as ratios measured in one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from goalward.goals import DevLoss, Entropy
from goalward.learners import Logistic
from goalward.utility import FirstOrder, Retrain

__all__ = ["Ratio", "retraining", "scoring"]


@dataclass(frozen=True)
class Ratio:
    """Ours against another way to get the same numbers, timed side by side.

    Parameters
    ----------
    ours, theirs
        Seconds per item, the best of several alternating runs with one BLAS thread.
    error
        The largest difference of the results, relative to their scale.
    """

    what: str
    peer: str
    ours: float
    theirs: float
    error: float

    @property
    def ratio(self) -> float:
        """How many times faster ours is."""
        return self.theirs / self.ours


def retraining(*, n_pool: int = 500, repeats: int = 3, seed: int = 0) -> list[Ratio]:
    """Return exact retraining against every suitable solver of scikit-learn.

    The paper's setting: 50 labelled rows, 768 features, 2 classes, C = 0.1, the entropy goal
    on 500 rows; 1,000 retrainings here, 20 by each solver there, at tolerances that give
    equal accuracy.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50 + n_pool, 768)) / np.sqrt(1.0 + np.arange(768))
    X *= 14.0 / np.linalg.norm(X, axis=1).mean()
    y = (X @ rng.normal(size=768) + rng.logistic(size=len(X)) > 0).astype(int)
    X_train, y_train, X_pool = X[:50], y[:50], X[50:]
    fitted = Logistic(C=0.05, tol=1e-12).fit(X_train, y_train)
    goal = Entropy(X_pool)
    peers = {
        "lbfgs": {"solver": "lbfgs", "tol": 1e-8, "max_iter": 10000},
        "newton-cg": {"solver": "newton-cg", "tol": 1e-8, "max_iter": 1000},
        "newton-cholesky": {"solver": "newton-cholesky", "tol": 1e-8},
    }
    results = []
    with threadpool_limits(limits=1):
        for name, options in peers.items():
            picks = rng.permutation(n_pool)[:10]

            def theirs(options: dict[str, Any] = options, picks: NDArray[Any] = picks) -> Any:
                return _refits(X_train, y_train, X_pool, picks, options)

            ours, exact, other, got = _race(
                lambda: Retrain()(fitted, goal, X_pool), theirs, repeats
            )
            difference = np.abs(exact[picks] - got).max() / np.abs(exact).max()
            results.append(
                Ratio(
                    "retraining with one more label, goal included",
                    f"scikit-learn {name}",
                    ours / (2 * n_pool),
                    other / (2 * len(picks)),
                    float(difference),
                )
            )
    return results


def scoring(*, n_pool: int = 200_000, repeats: int = 3, seed: int = 0) -> list[Ratio]:
    """Return first-order utilities of a pool against predicting that pool in scikit-learn.

    16 features and 26 classes, as in letter: utilities for all 26 labels of every row
    against `predict_proba` and the margin, what uncertainty sampling costs.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n_pool, 16))
    X_train = rng.uniform(-1, 1, size=(500, 16))
    y_train = np.arange(500) % 26
    fitted = Logistic().fit(X_train, y_train)
    goal = DevLoss(X[:500], y_train)
    peer = LogisticRegression(max_iter=1000).fit(X_train, y_train)

    def margin() -> Any:
        p = np.partition(peer.predict_proba(X), -2, axis=1)
        return p[:, -1] - p[:, -2]

    with threadpool_limits(limits=1):
        ours, _, theirs, _ = _race(lambda: FirstOrder()(fitted, goal, X), margin, repeats)
    return [
        Ratio(
            "26 utilities of a row against its margin",
            "scikit-learn predict_proba",
            ours / n_pool,
            theirs / n_pool,
            float("nan"),
        )
    ]


def _refits(
    X: NDArray[Any],
    y: NDArray[Any],
    X_pool: NDArray[Any],
    picks: NDArray[Any],
    options: dict[str, Any],
) -> NDArray[Any]:
    def value(model: LogisticRegression) -> float:
        p = model.predict_proba(X_pool)
        return float(np.sum(p * np.log(np.maximum(p, 1e-300))))

    before = value(LogisticRegression(C=0.1, **options).fit(X, y))
    out = np.empty((len(picks), 2))
    for i, row in enumerate(picks):
        for k in (0, 1):
            model = LogisticRegression(C=0.1, **options)
            model.fit(np.vstack([X, X_pool[row]]), np.append(y, k))
            out[i, k] = value(model) - before
    return out


def _race(
    ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int
) -> tuple[float, Any, float, Any]:
    """Return the best time and the result of each, run in turns so that noise hits both."""
    best = [float("inf"), float("inf")]
    results: list[Any] = [None, None]
    for _ in range(repeats):
        for i, call in enumerate((ours, theirs)):
            began = perf_counter()
            results[i] = call()
            best[i] = min(best[i], perf_counter() - began)
    return best[0], results[0], best[1], results[1]

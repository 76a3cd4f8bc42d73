"""Exact retraining against solvers of scikit-learn, and what staying true costs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from goalward.goals import DevLoss, Entropy
from goalward.lab.speed.race import Ratio, race
from goalward.lab.speed.workloads import Workload, rt
from goalward.learners import Logistic
from goalward.utility import FirstOrder, ImplicitStep, Retrain

__all__ = ["implicit", "retraining"]

PEERS: dict[str, dict[str, Any]] = {
    "lbfgs": {"solver": "lbfgs", "tol": 1e-8, "max_iter": 10000},
    "newton-cg": {"solver": "newton-cg", "tol": 1e-8, "max_iter": 1000},
    "newton-cholesky": {"solver": "newton-cholesky", "tol": 1e-8},
}
"""Solvers of scikit-learn at tolerances that bring their error below 1e-5."""
Batches = list[tuple[NDArray[Any], Any]]
"""Rows and labels that a model is retrained with."""


def retraining(quick: bool) -> list[Ratio]:
    """Return exact retraining, with one more label and with ten, in the paper's setting.

    50 labelled rows, 768 features, 2 classes, C = 0.1, the entropy goal on 500 rows.
    """
    return [*_one_more(quick), *_ten_more(quick)]


def _one_more(quick: bool) -> list[Ratio]:
    """Return 1,000 retrainings here against 20 by each solver there, multiplied."""
    work = rt(50, n_pool=100 if quick else 500)
    fitted = Logistic(C=work.our_C, tol=1e-12).fit(work.X, work.y)
    picks = np.random.default_rng(0).permutation(len(work.pool))[:10]
    batches = [(work.pool[row : row + 1], [k]) for row in picks for k in (0, 1)]
    ours_call = partial(Retrain(), fitted, Entropy(work.pool), work.pool)
    results = []
    for name, options in PEERS.items():
        with threadpool_limits(limits=1):
            ours, exact, theirs, got = race(
                ours_call, partial(_refits, work, batches, options), 1 if quick else 3
            )
        results.append(
            Ratio(
                "retraining with one more label, goal included",
                f"scikit-learn {name}",
                ours,
                # As many as ours, from the few that were run.
                tuple(t * exact.size / len(batches) for t in theirs),
                ">= 1",
                _off(got, exact[picks].ravel(), exact),
            )
        )
    return results


def _ten_more(quick: bool) -> list[Ratio]:
    """Return all 1,024 labelings of sliding windows of ten rows.

    The paper's batch check has 491 windows: 502,784 retrainings, each with the goal on 500 rows.
    scikit-learn runs 8 of them with its default solver and tolerance, multiplied.
    """
    work = rt(50, n_pool=500)
    fitted = Logistic(C=work.our_C, tol=1e-12).fit(work.X, work.y)
    stacked = np.stack([work.pool[i : i + 10] for i in range(2 if quick else 491)])
    labelings = np.random.default_rng(0).integers(2, size=(8, 10))
    batches = [(work.pool[:10], labels) for labels in labelings]
    with threadpool_limits(limits=1):
        ours, exact, theirs, got = race(
            partial(Retrain().batch, fitted, Entropy(work.pool), stacked),
            partial(_refits, work, batches, {"solver": "lbfgs"}),
            1,
            warm=False,
        )
    tight = _refits(work, batches, PEERS["newton-cg"])
    same = exact[0, labelings @ (2 ** np.arange(9, -1, -1))]
    return [
        Ratio(
            f"{exact.size:,} exact retrainings with ten more labels, goal included",
            "scikit-learn lbfgs, default tolerance",
            ours,
            tuple(t * exact.size / len(batches) for t in theirs),
            ">= 150",
            _off(tight, same, exact),
            note=f"difference to newton-cg at 1e-8; lbfgs itself is off by {_off(got, same, exact):.0e}",
        ),
        Ratio(f"{exact.size:,} exact retrainings, seconds", "one thread", ours, (), "<= 15 s"),
    ]


def implicit(quick: bool) -> list[Ratio]:
    """Return the implicit step of a pool against first order: what staying true costs.

    Letter's shape (14,948 rows, 16 features, 26 classes, 500 labelled) and rt-polarity's (9,586
    rows, 768 features, 2 classes, 50 labelled), on random rows.
    """
    rng = np.random.default_rng(0)
    results = []
    for rows, d, K, n, C in ((14_948, 16, 26, 500, 1.0), (9_586, 768, 2, 50, 0.05)):
        n_pool = rows // 10 if quick else rows
        X = rng.uniform(-1, 1, size=(n_pool + n + 1000, d))
        y = np.arange(len(X)) % K
        fitted = Logistic(C=C).fit(X[:n], y[:n])
        goal, pool = DevLoss(X[n : n + 1000], y[n : n + 1000]), X[n + 1000 :]
        data = (fitted, goal, pool)
        calls = partial(ImplicitStep(), *data), partial(FirstOrder(), *data)
        what = f"implicit step, {n_pool:,} rows, {K} labels"
        results.append(Ratio.of(what, "our first order", calls, 1 if quick else 3))
    return results


def _off(got: NDArray[Any], same: NDArray[Any], exact: NDArray[Any]) -> float:
    return float(np.abs(same - got).max() / np.abs(exact).max())


def _refits(work: Workload, batches: Batches, options: dict[str, Any]) -> NDArray[Any]:
    """Return the change of the entropy goal by a loop of refits, as a user would write it."""

    def value(X: NDArray[Any], y: NDArray[Any]) -> float:
        p = LogisticRegression(C=work.C, **options).fit(X, y).predict_proba(work.pool)
        return float(np.sum(p * np.log(np.maximum(p, 1e-300))))

    before = value(work.X, work.y)
    added = [(np.vstack([work.X, rows]), np.append(work.y, labels)) for rows, labels in batches]
    return np.array([value(X, y) - before for X, y in added])

"""Exact retraining against solvers of scikit-learn, and implicit and corrected steps of pools."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from goalward.goals import DevLoss, Entropy
from goalward.lab.speed.race import Ratio, race
from goalward.lab.speed.workloads import Workload, letter, rt
from goalward.models.logistic import Logistic
from goalward.utility import ImplicitStep, Retrain

__all__ = ["retraining", "stepping"]

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

    50 labelled rows (200 and 500 too), 768 features, 2 classes, C = 0.1, the entropy goal on 500 rows.
    scikit-learn runs a few of the refits; its time is multiplied.
    """
    results = [_one_more(50, name, quick) for name in PEERS]
    results += [_one_more(n, "lbfgs", quick) for n in (200, 500)]
    return [*results, *_ten_more(quick), _weak_penalty(quick)]


def _one_more(labelled: int, peer: str, quick: bool) -> Ratio:
    work = rt(labelled, n_pool=100 if quick else 500)
    picks = np.random.default_rng(0).permutation(len(work.pool))[:10]
    batches = [(work.pool[row : row + 1], [k]) for row in picks for k in (0, 1)]
    (ours, theirs), (exact, got) = race(
        partial(Retrain(), *_model(work), work.pool),
        partial(_refits, work, batches, PEERS[peer]),
        1 if quick else 3,
    )
    return Ratio(
        f"retraining with one more label beside {labelled}, goal included",
        f"scikit-learn {peer}",
        ours,
        tuple(t * exact.size / len(batches) for t in theirs),
        ">= 1",
        _off(got, exact[picks].ravel(), exact),
    )


def _ten_more(quick: bool) -> list[Ratio]:
    """Return all 1,024 labelings of sliding windows of ten rows, 491 in the paper's batch check."""
    work = rt(50, n_pool=500)
    windows = np.stack([work.pool[i : i + 10] for i in range(2 if quick else 491)])
    labelings = np.random.default_rng(0).integers(2, size=(8, 10))
    batches = [(work.pool[:10], labels) for labels in labelings]
    (ours, theirs), (exact, got) = race(
        partial(Retrain().batch, *_model(work), windows),
        partial(_refits, work, batches, {"solver": "lbfgs"}),
        1,
        warm=False,
    )
    tight = _refits(work, batches, PEERS["newton-cg"])
    same = exact[0, labelings @ (2 ** np.arange(9, -1, -1))]
    what = f"{exact.size:,} exact retrainings with ten more labels, goal included"
    peer = "scikit-learn lbfgs, default tolerance"
    scaled = tuple(t * exact.size / len(batches) for t in theirs)
    note = f"difference to newton-cg at 1e-8; lbfgs itself is off by {_off(got, same, exact):.0e}"
    return [
        Ratio(what, peer, ours, scaled, ">= 150", _off(tight, same, exact), note),
        Ratio(what, "one thread", ours, (), "<= 15 s"),
    ]


def _weak_penalty(quick: bool) -> Ratio:
    """Return retraining with ten classes, 100 labels and C = 100, where Newton steps are dear."""
    work = letter(100, n_pool=100, n_classes=10)._replace(C=100.0)
    count = 2 if quick else 20
    rows = work.pool[:count]
    batches = [(rows[i : i + 1], [k]) for i in range(2) for k in (0, 5)]
    (ours, theirs), (exact, got) = race(
        partial(Retrain(), *_model(work), rows),
        partial(_refits, work, batches, PEERS["newton-cg"]),
        1 if quick else 3,
    )
    return Ratio(
        f"retraining with one more label, {work.name}, C = 100, goal included",
        "scikit-learn newton-cg",
        ours,
        tuple(t * exact.size / len(batches) for t in theirs),
        ">= 3",
        _off(got, exact[:2][:, [0, 5]].ravel(), exact),
    )


def stepping(quick: bool) -> list[Ratio]:
    """Return the implicit step of a pool and one correction, the dev goal on 500 rows, one thread."""
    shrink = 100 if quick else 1
    work = rt(50, n_pool=9_586 // shrink)
    data = _with_dev(work)
    square = np.random.default_rng(0).normal(size=(work.pool.shape[1],) * 2)
    corrected, repeats = ImplicitStep(corrections=1), 1 if quick else 3
    times, _ = race(partial(corrected, *data), lambda: work.pool @ square, repeats)
    what = f"one correction, {len(work.pool):,} rows, 2 labels"
    results = [Ratio(what, "the pool times a d x d matrix", *times, "<= 12")]
    work = letter(500, n_pool=14_948 // shrink)
    fitted, goal, pool = _with_dev(work)
    for utility, rows, name in (
        (ImplicitStep(), pool, "implicit step"),
        (corrected, pool[: 1_000 // shrink], "one correction"),
    ):
        (ours, _), _ = race(partial(utility, fitted, goal, rows), lambda: None, repeats)
        what = f"{name}, {len(rows):,} rows, 26 labels, 500 labelled"
        results.append(Ratio(what, "one thread", ours, (), "<= 2.5 s"))
    return results


def _with_dev(work: Workload) -> tuple[Any, DevLoss, NDArray[Any]]:
    fitted = Logistic(C=work.our_C).fit(work.X, work.y)
    return fitted, DevLoss(work.X_dev, work.y_dev), work.pool


def _model(work: Workload) -> tuple[Any, Entropy]:
    return Logistic(C=work.our_C, tol=1e-12).fit(work.X, work.y), Entropy(work.pool)


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

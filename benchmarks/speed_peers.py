"""Whole queries, retraining and first uses against what a user would run instead."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from goalward.core.kernels.compiled import accelerate
from goalward.goals import DevLoss, Entropy
from goalward.labels import Expected, Spread
from goalward.models.logistic import Logistic
from goalward.strategies import GoalOriented
from goalward.utility import ImplicitStep, Retrain
from race import Ratio, Workload, letter, race, rt

STARTS = {
    "first use: gw.Logistic, gw.GoalOriented": (
        ("-c", "import goalward as gw; gw.Logistic, gw.GoalOriented"),
        "<= 1.6",
    ),
    "goalward --help": (("-m", "goalward", "--help"), "<= 0.5"),
}
"""First uses: the arguments of Python, and the target."""


def against_margin(quick: bool) -> list[Ratio]:
    """Return fit + goal + solve + score against fit + predict_proba + margin in scikit-learn.

    Each at its default accuracy (ours 1e-8, theirs 1e-4), then ours to 1e-4 too. With compiled
    loops, if Numba is installed: a program with many rounds would have them.
    """
    shrink, peer = 10 if quick else 1, "scikit-learn fit + predict_proba + margin"
    accelerate()
    works = [rt(n, n_pool=9_586 // shrink) for n in (50, 500)]
    works += [letter(n, n_pool=14_948 // shrink) for n in (52, 500)]
    results = []
    for work in works:
        for tol, how in ((1e-8, ""), (1e-4, ", to 1e-4")):
            calls = partial(_query, Logistic(C=work.our_C, tol=tol), work), partial(_margin, work)
            times, _ = race(*calls, 1 if quick else 9)
            note = "" if how else "ours stops at a gradient of 1e-8, scikit-learn at its 1e-4"
            what = f"whole query, {work.name}{how}"
            results.append(Ratio(what, peer, *times, "<= 0.7", note=note))
    accelerate(False)
    return results


def _query(learner: Logistic, work: Workload) -> Any:
    strategy = GoalOriented(DevLoss(work.X_dev, work.y_dev), operator=Spread())
    return strategy.suggest(learner.fit(work.X, work.y), work.pool).rows


def _margin(work: Workload) -> Any:
    model = LogisticRegression(C=work.C, max_iter=1000).fit(work.X, work.y)
    proba = np.partition(model.predict_proba(work.pool), -2, axis=1)
    return np.argpartition(proba[:, -1] - proba[:, -2], 10)[:10]


def against_error_reduction(quick: bool) -> list[Ratio]:
    """Return a whole query against scikit-activeml's expected error reduction.

    It retrains for every candidate and class, and predicts all rows with each model. Its time for a
    candidate is the difference between three and one; that is multiplied by the pool.
    """
    peer = "scikit-activeml MonteCarloEER"
    try:
        from skactiveml.classifier import SklearnClassifier
        from skactiveml.pool import MonteCarloEER
    except ImportError:
        missing = "scikit-activeml is not installed: pip install goalward[bench]"
        return [Ratio("whole query", peer, (math.nan,), note=missing)]
    repeats = 1 if quick else 3
    results = []
    for work, target in (
        (rt(50, n_pool=100 if quick else 9_586), ">= 20,000"),
        (letter(200, n_pool=100 if quick else 14_948), ">= 500,000"),
    ):
        n, rows = len(work.y), len(work.pool)
        X = np.concatenate([work.X, work.pool])
        y = np.concatenate([work.y.astype(float), np.full(rows, np.nan)])
        classes = list(range(int(work.y.max()) + 1))
        model = SklearnClassifier(LogisticRegression(C=work.C), classes=classes)
        strategy = MonteCarloEER(method="log_loss", random_state=0)
        one, three = (
            partial(strategy.query, X, y, model, fit_clf=True, candidates=np.arange(n, n + count))
            for count in (1, 3)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (ours, some), _ = race(partial(_expected, work), one, repeats)
            (_, more), _ = race(partial(_expected, work), three, repeats)
        whole = tuple(max(b - a, 0.0) / 2 * rows for a, b in zip(some, more, strict=True))
        note = f"theirs: the slope between 1 and 3 candidates, times {rows:,}"
        results.append(Ratio(f"whole query, {work.name}", peer, ours, whole, target, note=note))
    return results


def _expected(work: Workload) -> Any:
    strategy = GoalOriented(Entropy(work.pool), operator=Expected())
    return strategy.suggest(Logistic(C=work.our_C).fit(work.X, work.y), work.pool).rows


def imports(quick: bool) -> list[Ratio]:
    """Return the seconds from Python's start to a first use, over those of scikit-learn's models."""
    peer = "import sklearn.linear_model"
    results = []
    for what, (arguments, target) in STARTS.items():
        calls = partial(_python, *arguments), partial(_python, "-c", peer)
        times, _ = race(*calls, 1 if quick else 9)
        results.append(Ratio(what, f"python -c '{peer}'", *times, target))
    return results


def _python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


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
    work = rt(labelled, n_pool=50 if quick else 500)
    picks = np.random.default_rng(0).permutation(len(work.pool))[: 2 if quick else 10]
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
    """Return retraining with ten classes, 100 labels and C = 100, where Newton steps are slow."""
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

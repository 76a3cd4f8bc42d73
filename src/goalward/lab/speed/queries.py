"""A whole query, and a first one, against what a user would run instead."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from goalward.core.kernels.compiled import accelerate
from goalward.goals import DevLoss, Entropy
from goalward.lab.speed.race import Ratio, race
from goalward.lab.speed.workloads import Workload, letter, rt
from goalward.labels import Expected, Spread
from goalward.models.logistic import Logistic
from goalward.strategies import GoalOriented

__all__ = ["against_error_reduction", "against_margin", "imports"]

STARTS = {
    "first use: gw.Logistic, gw.GoalOriented": (
        ("-c", "import goalward as gw; gw.Logistic, gw.GoalOriented"),
        "<= 1.6",
    ),
    "goalward --help": (("-m", "goalward", "--help"), "<= 0.5"),
}
"""What is begun, the arguments of Python that do it, and what is asked."""


def against_margin(quick: bool) -> list[Ratio]:
    """Return fit + goal + solve + score against fit + predict_proba + margin in scikit-learn.

    Each at its default accuracy (ours 1e-8, theirs 1e-4), then ours to 1e-4 too. With compiled
    loops, if Numba is installed: a program with many rounds would have them.
    """
    shrink = 10 if quick else 1
    accelerate()
    works = [rt(n, n_pool=9_586 // shrink) for n in (50, 500)]
    works += [letter(n, n_pool=14_948 // shrink) for n in (52, 500)]
    results = []
    for work in works:
        for tol, how in ((1e-8, ""), (1e-4, ", to 1e-4")):
            calls = partial(_query, Logistic(C=work.our_C, tol=tol), work), partial(_margin, work)
            times, _ = race(*calls, 1 if quick else 9)
            results.append(
                Ratio(
                    f"whole query, {work.name}{how}",
                    "scikit-learn fit + predict_proba + margin",
                    *times,
                    "<= 0.7",
                    note=""
                    if how
                    else "ours stops at a gradient of 1e-8, scikit-learn at its 1e-4",
                )
            )
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
        (rt(50, n_pool=500 if quick else 9_586), ">= 20,000"),
        (letter(200, n_pool=500 if quick else 14_948), ">= 500,000"),
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

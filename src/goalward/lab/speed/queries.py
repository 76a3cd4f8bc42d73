"""A whole query against what a user would run instead."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from goalward.core.kernels.compiled import accelerate
from goalward.goals import DevLoss, Entropy
from goalward.lab.speed.race import Ratio, race
from goalward.lab.speed.workloads import Workload, letter, rt
from goalward.labels import Expected, Spread
from goalward.learners import Logistic
from goalward.models import Fitted
from goalward.strategies import GoalOriented

__all__ = ["against_error_reduction", "against_margin"]


def against_margin(quick: bool) -> list[Ratio]:
    """Return fit + goal + solve + score against fit + predict_proba + margin in scikit-learn.

    Each at its default accuracy (ours 1e-8, theirs 1e-4) and from zero; then ours to 1e-4 too; then
    both from the model of the round before, with ten labels fewer. With compiled loops, if Numba is
    installed: a program with many rounds would have them.
    """
    shrink = 10 if quick else 1
    accelerate()
    works = [rt(n, n_pool=9_586 // shrink) for n in (50, 500)]
    works += [letter(n, n_pool=14_948 // shrink) for n in (52, 200, 500)]
    results = []
    for work in works:
        before = len(work.y) - 10
        # scikit-learn goes on from wherever the estimator is: it is put back to the round before.
        model = LogisticRegression(C=work.C, max_iter=1000).fit(work.X[:before], work.y[:before])
        for how, tol, warm in (("", 1e-8, False), ("to 1e-4", 1e-4, False), ("warm", 1e-8, True)):
            learner = Logistic(C=work.our_C, tol=tol, classes=range(int(work.y.max()) + 1))
            start = _earlier(learner, work, before) if warm else None
            peer = LogisticRegression(C=work.C, max_iter=1000, warm_start=warm)
            calls = (
                partial(_query, learner, work, start),
                partial(_margin, peer, work, model if warm else None),
            )
            results.append(
                Ratio.of(
                    f"whole query, {work.name}{', ' + how if how else ''}",
                    "scikit-learn fit + predict_proba + margin",
                    calls,
                    1 if quick else 9,
                    "<= 0.5",
                    "ours stops at a gradient of 1e-8, scikit-learn at its 1e-4" * (not how),
                )
            )
    accelerate(False)
    return results


def _earlier(learner: Logistic, work: Workload, n: int) -> Fitted:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return learner.fit(work.X[:n], work.y[:n])


def _query(learner: Logistic, work: Workload, start: Fitted | None) -> Any:
    fitted = learner.fit(work.X, work.y, start=start)
    goal = DevLoss(work.X_dev, work.y_dev)
    return GoalOriented(goal, operator=Spread()).suggest(fitted, work.pool).rows


def _margin(peer: LogisticRegression, work: Workload, start: LogisticRegression | None) -> Any:
    if start is not None:
        peer.coef_, peer.intercept_ = start.coef_.copy(), start.intercept_.copy()
    proba = np.partition(peer.fit(work.X, work.y).predict_proba(work.pool), -2, axis=1)
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
        return [Ratio.missing("whole query", peer, missing)]
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
        tried = [
            partial(strategy.query, X, y, model, fit_clf=True, candidates=np.arange(n, n + count))
            for count in (1, 3)
        ]
        ours = partial(_expected, Logistic(C=work.our_C), work)
        with threadpool_limits(limits=1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mine, _, one, _ = race(ours, partial(tried[0], return_utilities=True), repeats)
            _, _, three, _ = race(ours, partial(tried[1], return_utilities=True), repeats)
        whole = tuple(max(b - a, 0.0) / 2 * rows for a, b in zip(one, three, strict=True))
        note = f"theirs: the slope between 1 and 3 candidates, times {rows:,}"
        results.append(Ratio(f"whole query, {work.name}", peer, mine, whole, target, note=note))
    return results


def _expected(learner: Logistic, work: Workload) -> Any:
    strategy = GoalOriented(Entropy(work.pool), operator=Expected())
    return strategy.suggest(learner.fit(work.X, work.y), work.pool).rows

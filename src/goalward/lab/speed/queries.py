"""A whole query against what a user would run instead."""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from goalward.core.kernels.compiled import accelerate
from goalward.goals import DevLoss, Entropy
from goalward.lab.speed.race import Ratio, race
from goalward.lab.speed.settings import Setting, letter, rt
from goalward.labels import Expected, Spread
from goalward.learners import Logistic
from goalward.models import Fitted
from goalward.strategies import GoalOriented

__all__ = ["against_error_reduction", "against_margin"]


def against_margin(*, quick: bool = False, repeats: int = 7) -> list[Ratio]:
    """Return fit + goal + solve + score against fit + predict_proba + margin in scikit-learn.

    Each at its default accuracy (ours 1e-8, theirs 1e-4) and from zero; then ours to 1e-4 too; then
    both from the model of the round before, with ten labels fewer. With compiled loops, if Numba is
    installed: a program with many rounds would have them.
    """
    shrink = 10 if quick else 1
    accelerate()
    cases = [partial(rt, 50), partial(rt, 500), *(partial(letter, n) for n in (52, 200, 500))]
    results = []
    for case in cases:
        setting = case(n_pool=(9_586 if case.func is rt else 14_948) // shrink)
        before = len(setting.y) - 10
        for how, tol, warm in (("", 1e-8, False), ("to 1e-4", 1e-4, False), ("warm", 1e-8, True)):
            learner = Logistic(C=setting.our_C, tol=tol, classes=range(int(setting.y.max()) + 1))
            start = _earlier(learner, setting, before) if warm else None
            peer = LogisticRegression(C=setting.C, max_iter=1000, warm_start=warm)
            with threadpool_limits(limits=1):
                ours, _, theirs, _ = race(
                    partial(_query, learner, setting, start),
                    partial(_margin, peer, setting, before if warm else None),
                    repeats,
                )
            results.append(
                Ratio(
                    f"whole query, {setting.name}{', ' + how if how else ''}",
                    "scikit-learn fit + predict_proba + margin",
                    ours,
                    theirs,
                    "<= 0.5",
                    note="ours stops at a gradient of 1e-8, scikit-learn at its 1e-4" * (not how),
                )
            )
    accelerate(False)
    return results


def _earlier(learner: Logistic, setting: Setting, n: int) -> Fitted:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return learner.fit(setting.X[:n], setting.y[:n])


def _query(learner: Logistic, setting: Setting, start: Fitted | None) -> Any:
    fitted = learner.fit(setting.X, setting.y, start=start)
    goal = DevLoss(setting.X_dev, setting.y_dev)
    return GoalOriented(goal, operator=Spread()).suggest(fitted, setting.pool).rows


def _margin(peer: LogisticRegression, setting: Setting, before: int | None) -> Any:
    if before is not None:
        # scikit-learn goes on from wherever the estimator is: put it back to the round before.
        peer.coef_, peer.intercept_ = _started(setting, before)
    proba = np.partition(peer.fit(setting.X, setting.y).predict_proba(setting.pool), -2, axis=1)
    return np.argpartition(proba[:, -1] - proba[:, -2], 10)[:10]


_STARTS: dict[tuple[str, int], tuple[Any, Any]] = {}


def _started(setting: Setting, n: int) -> tuple[Any, Any]:
    key = (setting.name, n)
    if key not in _STARTS:
        model = LogisticRegression(C=setting.C, max_iter=1000).fit(setting.X[:n], setting.y[:n])
        _STARTS[key] = (model.coef_, model.intercept_)
    coef, intercept = _STARTS[key]
    return coef.copy(), intercept.copy()


def against_error_reduction(*, quick: bool = False, repeats: int = 3) -> list[Ratio]:
    """Return a whole query against scikit-activeml's expected error reduction.

    It retrains for every candidate and class, and predicts all rows with each model. Its time for a
    candidate is the difference between three and one; that is multiplied by the pool.
    """
    try:
        from skactiveml.classifier import SklearnClassifier
        from skactiveml.pool import MonteCarloEER
    except ImportError:
        missing = "scikit-activeml is not installed: pip install goalward[bench]"
        return [Ratio("whole query", "scikit-activeml MonteCarloEER", (math.nan,), note=missing)]
    results = []
    for case, n, target in ((rt, 50, ">= 20,000"), (letter, 200, ">= 500,000")):
        setting = case(n, n_pool=500 if quick else (9_586 if case is rt else 14_948))
        X = np.concatenate([setting.X, setting.pool])
        y = np.concatenate([setting.y.astype(float), np.full(len(setting.pool), np.nan)])
        classes = list(range(int(setting.y.max()) + 1))
        model = SklearnClassifier(LogisticRegression(C=setting.C), classes=classes)
        strategy = MonteCarloEER(method="log_loss", random_state=0)
        learner = Logistic(C=setting.our_C)

        def theirs(
            tried: int, s: Any = strategy, X: Any = X, y: Any = y, m: Any = model, n: int = n
        ) -> Any:
            rows = np.arange(n, n + tried)
            return s.query(X, y, m, fit_clf=True, candidates=rows, return_utilities=True)

        def ours(s: Setting = setting, learner: Logistic = learner) -> Any:
            fitted = learner.fit(s.X, s.y)
            goal = Entropy(s.pool)
            return GoalOriented(goal, operator=Expected()).suggest(fitted, s.pool).rows

        with threadpool_limits(limits=1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mine, _, one, _ = race(ours, partial(theirs, 1), repeats)
            _, _, three, _ = race(ours, partial(theirs, 3), repeats)
        each = [max(b - a, 0.0) / 2 for a, b in zip(one, three, strict=True)]
        whole = tuple(t * len(setting.pool) for t in each)
        results.append(
            Ratio(
                f"whole query, {setting.name}",
                "scikit-activeml MonteCarloEER",
                mine,
                whole,
                target,
                note=f"theirs: the slope between 1 and 3 candidates, times {len(setting.pool):,}",
            )
        )
    return results

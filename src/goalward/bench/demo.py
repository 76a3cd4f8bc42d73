"""A first look: how good the cheap scores are, and what they buy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from goalward.bench.datasets import digits
from goalward.bench.loop import rounds
from goalward.goals import DevLoss
from goalward.labels import Expected, WorstCase
from goalward.plots import approximation_panel, curve_panel, figure, save
from goalward.strategies import recipe
from goalward.utility import FirstOrder, Retrain

__all__ = ["Demo", "demo"]


@dataclass(frozen=True)
class Demo:
    """What the demo measured.

    Parameters
    ----------
    seconds
        Name of a utility -> time for all candidates and labels.
    correlation
        Operator -> rank correlation of first-order with retrained utilities.
    curves
        Strategy -> (labels bought, (seeds, rounds) test accuracy).
    """

    n_candidates: int
    seconds: dict[str, float]
    correlation: dict[str, float]
    curves: dict[str, tuple[NDArray[Any], NDArray[Any]]]
    paths: list[Path]


def demo(
    out: Path,
    *,
    n_candidates: int = 200,
    seeds: int = 3,
    budget: int = 100,
    tick: Callable[[str], None] = lambda message: None,
) -> Demo:
    """Run the demo on scikit-learn's digits and save its figure under `out`."""
    dataset = digits()
    split = dataset.split(0)
    X, y = dataset.X, dataset.y
    start = np.concatenate([split.init, split.pool[-80:]])
    candidates = split.pool[len(split.dev) : len(split.dev) + n_candidates]
    fitted = dataset.learner.fit(X[start], y[start])
    goal = DevLoss(X[split.dev], y[split.dev])
    tick("scoring and retraining")
    cheap, fast = _timed(lambda: FirstOrder()(fitted, goal, X[candidates]))
    exact, slow = _timed(lambda: Retrain()(fitted, goal, X[candidates]))
    operators = {"average": Expected(), "min": WorstCase()}
    resolved = {
        name: tuple(op(u, fitted, X[candidates]) for u in (exact, cheap))
        for name, op in operators.items()
    }
    correlation = {"every label": float(spearmanr(exact.ravel(), cheap.ravel()).statistic)} | {
        name: float(spearmanr(*pair).statistic) for name, pair in resolved.items()
    }
    curves = {}
    for name in ("random", "margin", "dev/average"):
        sessions = []
        for seed in range(seeds):
            tick(f"simulating {name}, seed {seed}")
            sessions.append(list(rounds(dataset, recipe(name), budget=budget, seed=seed)))
        labels = np.array([r.queries for r in sessions[0]])
        curves[name] = (labels, np.array([[r.accuracy for r in s] for s in sessions]))
    tick("drawing")
    fig = figure(10.5, 4.4)
    left, right = fig.subplots(1, 2)
    title = f"{n_candidates} candidates, average over labels"
    approximation_panel(left, *resolved["average"], title=title)
    curve_panel(right, curves, title="digits, batches of 10")
    paths = save(fig, out / "demo")
    seconds = {"first order": fast, "retraining": slow}
    return Demo(n_candidates, seconds, correlation, curves, paths)


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    began = perf_counter()
    return call(), perf_counter() - began

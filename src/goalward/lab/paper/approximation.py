"""First-order against retrained utilities: the data of the paper's first figures."""

from dataclasses import dataclass, field
from itertools import combinations
from time import perf_counter
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.stats import spearmanr

from goalward.goals import DevLoss, Entropy, Fisher, Goal, Term
from goalward.goals.kernels import NegativeTrace
from goalward.lab.datasets import Dataset
from goalward.lab.paper.protocol import OPERATORS, Size, Tick, stated_C
from goalward.models import Fitted
from goalward.utility import FirstOrder, Retrain

Resolved = dict[str, NDArray[Any]]  # operator -> a utility for each window


@dataclass(frozen=True, eq=False)
class EqualNorms(Fisher):
    """The Fisher goal with every ‖x‖² replaced by their mean: what is left without the norms."""

    def terms(self, fitted: Any) -> list[Term]:
        (term,) = super().terms(fitted)
        scale = np.asarray(cast(NegativeTrace, term.kernel).scale)
        return [term._replace(kernel=NegativeTrace(np.full_like(scale, scale.mean())))]


@dataclass(frozen=True)
class Trial:
    """A fitted model, its pool with the true labels, and the goals measured on it."""

    fitted: Fitted = field(repr=False)
    X: NDArray[Any] = field(repr=False)
    codes: NDArray[Any] = field(repr=False)
    goals: dict[str, Goal] = field(repr=False)


def trial(
    dataset: Dataset, *, seed: int = 0, n_labelled: int = 50, n_pool: int = 500, n_dev: int = 100
) -> Trial:
    """Return the paper's setting on a random part of `dataset`."""
    order = np.random.default_rng([seed, 4]).permutation(len(dataset.y))
    n_pool = min(n_pool, len(order) - n_labelled - n_dev)
    train, pool, dev, _ = np.split(order, np.cumsum([n_labelled, n_pool, n_dev]))
    fitted = dataset.learner.fit(dataset.X[train], dataset.y[train])
    X = dataset.X[pool]
    goals: dict[str, Goal] = {
        "entropy": Entropy(X),
        "fisher": Fisher(X),
        "fisher, equal norms": EqualNorms(X),
        "dev": DevLoss(dataset.X[dev], dataset.y[dev]),
    }
    return Trial(fitted, X, np.searchsorted(fitted.classes, dataset.y[pool]), goals)


class Utilities(NamedTuple):
    """Retrained and first-order utilities (windows, K**b), the true labelings' indices, the times."""

    exact: NDArray[Any]
    cheap: NDArray[Any]
    true: NDArray[Any]
    retrain_seconds: float
    first_order_seconds: float


Results = dict[tuple[int, int, str], Utilities]  # (seed, rows of a window, goal) -> utilities


def utilities(
    task: Trial, b: int, goal: str = "entropy", *, n_jobs: int | None = None
) -> Utilities:
    """Return the utilities of all windows of b rows."""
    windows = np.ascontiguousarray(np.moveaxis(sliding_window_view(task.X, b, axis=0), -1, 1))
    began = perf_counter()
    exact = Retrain(n_jobs=n_jobs).batch(task.fitted, task.goals[goal], windows)
    retrained = perf_counter()
    cheap = FirstOrder().batch(task.fitted, task.goals[goal], windows)
    times = retrained - began, perf_counter() - retrained
    place = task.fitted.n_classes ** np.arange(b - 1, -1, -1)
    return Utilities(exact, cheap, sliding_window_view(task.codes, b) @ place, *times)


def chances(task: Trial, b: int) -> NDArray[Any]:
    """Return P(Y) = ∏ P(y) of every labeling of every window, (windows, K**b)."""
    p = np.asarray(task.fitted.predict_proba(task.X))
    total = np.ones((len(p) - b + 1, 1))
    for row in np.moveaxis(sliding_window_view(p, b, axis=0), -1, 0):
        total = (total[:, :, None] * row[:, None, :]).reshape(len(total), -1)
    return total


def resolve(utility: NDArray[Any], true: NDArray[Any]) -> Resolved:
    """Return utilities (windows, labelings) resolved by the paper's four operators."""
    return {
        "oracle": utility[np.arange(len(utility)), true],
        "average": utility.mean(axis=1),
        "min": utility.min(axis=1),
        "max": utility.max(axis=1),
    }


def agreement(exact: NDArray[Any], cheap: NDArray[Any]) -> dict[str, float]:
    """Return correlations, ratio of spreads and relative error of approximate utilities."""
    if np.ptp(exact) == 0 or np.ptp(cheap) == 0:
        return dict.fromkeys(("pearson", "spearman", "scale", "error"), float("nan"))
    return {
        "pearson": float(np.corrcoef(exact, cheap)[0, 1]),
        "spearman": float(spearmanr(exact, cheap).statistic),
        "scale": float(cheap.std() / exact.std()),
        "error": float(np.median(np.abs(cheap - exact)) / np.median(np.abs(exact))),
    }


@dataclass(frozen=True)
class Scatter:
    """Retrained and approximate utilities of one seed, and agreement and cost over all seeds."""

    title: str
    exact: Resolved = field(repr=False)
    cheap: Resolved = field(repr=False)
    table: pl.DataFrame
    results: Results = field(default_factory=dict, repr=False)

    @property
    def vectors(self) -> str:
        return self.title.rpartition(": ")[2]


def scatter(
    dataset: Dataset, size: Size, tick: Tick, b: int = 1, *, every_goal: bool = True
) -> Scatter:
    """Return windows of b rows: the entropy goal of seed 0 to draw, and the agreement of all goals."""
    what = "One more label" if b == 1 else f"Windows of {b} rows, all labelings,"
    lines, drawn = [], []
    results: Results = {}
    for seed in range(size.seeds if b == 1 else size.batch_seeds):
        tick(f"approximation, windows of {b}, seed {seed}")
        task = trial(dataset, seed=seed, n_pool=size.pool)
        for goal in task.goals if b == 1 and every_goal else ["entropy"]:
            result = results[seed, b, goal] = utilities(task, b, goal, n_jobs=size.n_jobs)
            exact, cheap = (resolve(utility, result.true) for utility in result[:2])
            drawn.append((exact, cheap))
            cost = {
                "retrainings": result.exact.size,
                "gradients": len(task.X) * task.fitted.n_classes,
                "retrain_seconds": result.retrain_seconds,
                "first_order_seconds": result.first_order_seconds,
            }
            for name in OPERATORS:
                line = {"goal": goal, "seed": seed, "operator": name}
                lines.append(line | agreement(exact[name], cheap[name]) | cost)
    title = f"{what} on {dataset.name}: {dataset.source}, C = {stated_C(dataset):g}"
    return Scatter(title, *drawn[0], pl.DataFrame(lines), results)


@dataclass(frozen=True)
class ExPred:
    """Retrained utilities under the model's own prediction and other operators; their spread and overlap."""

    panels: dict[str, Resolved] = field(repr=False)
    spread: pl.DataFrame
    overlap: pl.DataFrame


def expected_prediction(
    dataset: Dataset,
    size: Size,
    tick: Tick,
    sizes: tuple[int, ...] = (1, 5, 10),
    known: Results | None = None,
) -> ExPred:
    """Return the distributions for b = 1, 5, 10 (entropy) and the largest b (Fisher), as far as `known`."""
    panels: dict[str, Resolved] = {}
    spread, overlap = [], []
    for seed in range(size.batch_seeds):
        task = trial(dataset, seed=seed, n_pool=size.pool)
        for goal, b in [*(("entropy", b) for b in sizes), ("fisher", sizes[-1])]:
            tick(f"ExPred, {goal}, b = {b}, seed {seed}")
            result = (known or {}).get((seed, b, goal))
            result = result or utilities(task, b, goal, n_jobs=size.n_jobs)
            chance = chances(task, b)
            operators = resolve(result.exact, result.true)
            predicted = np.sum(chance * result.exact, axis=1)
            title = f"{goal}, b = {b}"
            panels.setdefault(title, {"predicted": predicted} | operators)
            # Other windows' predictions: what any such weights would give.
            others = np.sum(np.roll(chance, len(chance) // 2, axis=0) * result.exact, axis=1)
            median = np.median([values.std() for values in operators.values()])
            flat = np.ptp(np.sum(chance * result.cheap, axis=1))
            spread.append(
                {
                    "panel": title,
                    "seed": seed,
                    "flatness": _over(flat, np.abs(result.cheap).max()),
                    "of_median": _over(predicted.std(), median),
                    "of_others": _over(predicted.std(), others.std()),
                }
            )
            if b == 1:
                single = resolve(result.cheap, result.true)
        for one, other in combinations(OPERATORS, 2):
            rank = agreement(single[one], single[other])["spearman"]
            overlap.append({"a": one, "b": other, "seed": seed, "spearman": rank})
    return ExPred(panels, pl.DataFrame(spread), pl.DataFrame(overlap))


def _over(spread: float, scale: float) -> float:
    return float(spread / scale) if scale > 0 else float("nan")

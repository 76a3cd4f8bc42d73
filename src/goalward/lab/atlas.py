"""Utilities against retraining everywhere: goals x operators x utilities x C x n, as one table.

A cell is a dataset, a penalty, a number of labels, a goal and an operator; what stands in it is
Spearman's rank correlation of the scores that a utility gives candidates with those that retraining
gives them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.whole_file import whole_file
from goalward.errors import VacuousUtility
from goalward.lab.benchmark.task_sets import SETS, task_rows
from goalward.lab.datasets import load
from goalward.lab.parallel import Records, Tell, finished, telling
from goalward.models.logistic import Logistic
from goalward.models.multi_label import MultiLabel
from goalward.models.ridge import Ridge
from goalward.strategies.recipes import GOALS, OPERATORS
from goalward.utility import FirstOrder, ImplicitStep, Ladder, Retrain
from goalward.utility.fidelity import rank_correlation, resolved

__all__ = ["Place", "atlas", "summary"]

DATASETS = (
    *("synth2", "breast-cancer", "wine", "digits", "digits-3v8"),
    *("letter", "letter-10", "rt-polarity"),
)
PENALTIES = (0.005, 0.1, 1.0, 10.0)
OF_GOALS = (
    *("dev", "entropy", "fisher", "calibrated", "accuracy", "f1"),
    *("soft-pool", "expected-accuracy", "leave-one-out"),
)
OF_OPERATORS = (
    *("average", "predicted", "predicted:2", "oracle", "min", "max"),
    *("spread", "spread:2", "ucb", "ei", "pi"),
)
UTILITIES = {
    "first-order": FirstOrder(),
    "implicit": ImplicitStep(),
    "implicit-exact": ImplicitStep(exact_goal=True),
    "corrected": ImplicitStep(corrections=1),
    "corrected-3": ImplicitStep(corrections=3),
    "auto": Ladder(),
}
CERTIFIED = ("dev", "entropy", "fisher")
GOAL_ROWS, PAIRS = 300, 1_500
"""Rows of a goal, and pairs of candidate and label in one place."""


@dataclass(frozen=True)
class Place:
    """A dataset, a penalty, numbers of labels and of candidates, and a draw of the rows."""

    dataset: str
    C: float
    n: int = 50
    seed: int = 0
    rows: int | None = None


def atlas(
    datasets: Sequence[str] = DATASETS,
    *,
    penalties: Sequence[float] = PENALTIES,
    sizes: Sequence[int] = (50,),
    seeds: int = 1,
    rows: int | None = None,
    out: Path = Path("out/fidelity"),
    n_jobs: int | None = None,
    tell: Tell = True,
) -> pl.DataFrame:
    """Return a line for every cell and utility; a run that was killed goes on where it was.

    Parameters
    ----------
    sizes
        Numbers of labels.
    rows
        Candidates in each place; 50 to 150 by default, the fewer the more classes there are.
    out
        Folder of `places.jsonl`, the record, and `cells.csv`, the table.
    """
    wanted = [
        Place(name, C, n, seed, rows)
        for seed in range(seeds)
        for n in sizes
        for name in datasets
        for C in penalties
    ]
    store = Records(out / "places.jsonl")
    known = {Place(**record["place"]): record["cells"] for record in store}
    missing = [place for place in wanted if place not in known]
    with (
        telling(tell, len(wanted), "fidelity", "places", len(wanted) - len(missing)) as told,
        store.appending() as keep,
    ):
        for record in finished(_record, missing, n_jobs):
            keep(record)
            known[Place(**record["place"])] = record["cells"]
            told(sum(place in known for place in wanted))
    lines = [{**vars(place), **cell} for place in wanted for cell in known[place]]
    table = pl.DataFrame(lines, infer_schema_length=None)
    with whole_file(out / "cells.csv", force=True) as path:
        table.write_csv(path, float_precision=4)
    return table


def summary(table: pl.DataFrame) -> pl.DataFrame:
    """Return, by utility, the share of cells at .95 or more, the worst cell, and the time it took.

    Time is that of the utility over retraining's, summed over all places; what is certified is
    counted in pairs of row and label.
    """
    times = table.unique(["dataset", "C", "n", "seed", "goal", "utility"])
    by_utility = times.group_by("utility", maintain_order=True).agg(
        (pl.col("seconds").sum() / pl.col("retraining").sum()).alias("time"),
        pl.col("pairs").sum(),
        pl.col("certified").sum(),
        pl.col("violations").sum(),
        pl.col("looseness").median(),
    )
    cells = table.group_by("utility", maintain_order=True).agg(
        pl.len().alias("cells"),
        (pl.col("rank") >= 0.95).mean().alias("at .95"),
        pl.col("rank").min().alias("worst"),
    )
    order = pl.DataFrame({"utility": list(UTILITIES)})
    parts = (cells, by_utility)
    for part in parts:
        order = order.join(part, on="utility", maintain_order="left")
    return order


def _record(place: Place) -> dict[str, Any]:
    return {"place": vars(place), "cells": list(_cells(place))}


def _cells(place: Place) -> Iterator[dict[str, Any]]:
    X, y = _rows(place.dataset)
    labelled, goal_rows, candidates = _drawn(y, place)
    fitted = _learner(place).fit(X[labelled], y[labelled])
    pool = X[candidates]
    block = fitted.candidates(pool, np.arange(len(pool)))
    kind = fitted.loss.kind
    # At another temperature than 1 a number's law has other answers.
    words = [word for word in OF_OPERATORS if kind != "numbers" or ":" not in word]
    views = {word: _view(word, fitted, block, y[candidates]) for word in words}
    given = {"dev": (X[goal_rows], y[goal_rows]), "pool": X[goal_rows]}
    for word in OF_GOALS:
        needs, make = GOALS[word]
        goal = make(given.get(needs))
        if not all(kind in part.kinds for _, part in goal.parts):
            continue
        goal = goal.settled(fitted, 0)
        truth, retraining = _timed(Retrain(), fitted, goal, pool)
        scores = {op: view(truth) for op, view in views.items()}
        for name, utility in UTILITIES.items():
            got, seconds = _timed(utility, fitted, goal, pool)
            known = {"seconds": seconds, "retraining": retraining}
            known |= _certificate(utility, fitted, goal, pool, truth, word)
            for op, view in views.items():
                if np.ptp(scores[op]) > 1e-9 * np.abs(truth).max():
                    rank = rank_correlation(view(got), scores[op], 1e-9 * np.abs(got).max())
                    yield {"goal": word, "operator": op, "utility": name, "rank": rank, **known}


def _certificate(
    utility: Any, fitted: Any, goal: Any, pool: Any, truth: NDArray[Any], word: str
) -> dict[str, Any]:
    """Return how many pairs are certified, how many of these wrongly, and how loose bounds are."""
    if word not in CERTIFIED or not getattr(utility, "corrections", 0):
        return {"pairs": 0, "certified": 0, "violations": 0, "looseness": None}
    got = utility.certified(fitted, goal, pool)
    error, finite = np.abs(got.utility - truth), np.isfinite(got.bound)
    # What Retrain's own tolerance leaves open counts for neither.
    noise = 1e-7 * np.abs(truth).max()
    ratio = got.bound[finite & (error > noise)] / error[finite & (error > noise)]
    return {
        "pairs": int(error.size),
        "certified": int(finite.sum()),
        "violations": int(np.sum(error[finite] > got.bound[finite] + noise)),
        "looseness": float(np.median(ratio)) if len(ratio) else None,
    }


def _timed(utility: Any, fitted: Any, goal: Any, pool: Any) -> tuple[NDArray[Any], float]:
    began = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousUtility)
        got = np.asarray(utility(fitted, goal, pool))
    return got, process_time() - began


def _view(word: str, fitted: Any, block: Any, truth: NDArray[Any]) -> Any:
    name, _, number = word.partition(":")
    operator = OPERATORS[name](float(number) if number else None, truth)
    return resolved(operator.prepare(fitted), block)


def _learner(place: Place) -> Any:
    """Return the learner of a dataset's labels, at the penalty 1/C."""
    task = place.dataset.partition(":")[0]
    makers: dict[str, Any] = {"labels": MultiLabel, "numbers": lambda C: Ridge(1.0 / C)}
    return makers.get(task, lambda C: Logistic(C=C))(place.C)


def _rows(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows of a dataset and their labels; letter-10 is letter's first ten classes.

    labels:NAME and numbers:NAME are those of `goalward benchmark --task`.
    """
    task, _, inner = name.partition(":")
    if task in SETS:
        return task_rows(task, inner)
    data = load(name.removesuffix("-10"))
    X, y = np.asarray(data.X, dtype=np.float64), np.asarray(data.y)
    kept = np.isin(y, np.unique(y)[:10]) if name == "letter-10" else np.full(len(y), True)
    return X[kept], y[kept]


def _drawn(y: NDArray[Any], place: Place) -> tuple[Any, Any, Any]:
    """Return n labelled rows with one of each class at least, rows of the goal, and candidates."""
    order = np.random.default_rng(place.seed).permutation(len(y))
    classes = np.unique(y) if y.ndim == 1 else np.empty(0)
    first = np.array([order[y[order] == label][0] for label in classes], dtype=np.int64)
    rest = order[~np.isin(order, first)]
    more, rest = np.split(rest, [max(0, place.n - len(first))])
    goal_rows, rest = np.split(rest, [min(GOAL_ROWS, len(rest) // 2)])
    count = place.rows or int(np.clip(PAIRS // max(len(classes), 1), 50, 150))
    return np.concatenate([first, more]), goal_rows, rest[:count]

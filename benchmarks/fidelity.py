"""Utilities against retraining: `python benchmarks/fidelity.py --quick`.

Goals x operators x utilities x C x n, as one table. A cell is a dataset, a penalty, a number of
labels, a goal and an operator; it holds Spearman's rank correlation of the scores that a utility gives
to candidates with those that retraining gives them.
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
import typer
from matplotlib.figure import Figure
from numpy.typing import NDArray
from typer import Argument, Option

from goalward.cli.console import console, in_json, show
from goalward.errors import VacuousUtility
from goalward.lab.datasets import load
from goalward.lab.parallel import Tell, resumed
from goalward.lab.plots import figure, save
from goalward.models.logistic import Logistic
from goalward.models.multi_label import MultiLabel
from goalward.models.ridge import Ridge
from goalward.strategies.recipes import GOALS, OPERATORS
from goalward.utility import FirstOrder, ImplicitStep, Ladder, Retrain
from goalward.utility.fidelity import rank_correlation, resolved
from tasks import SETS, task_rows

DATASETS = (
    *("synth2", "breast-cancer", "wine", "digits", "digits-3v8"),
    *("letter", "letter-10", "rt-polarity"),
)
PENALTIES = (0.005, 0.1, 1.0, 10.0)
GOAL_WORDS = (
    *("dev", "entropy", "fisher", "calibrated", "accuracy", "f1"),
    *("soft-pool", "expected-accuracy", "leave-one-out"),
)
OPERATOR_WORDS = (
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
CERTIFIED = {
    (goal, utility)
    for goal in ("dev", "entropy", "fisher")
    for utility in ("corrected", "corrected-3")
}
GOAL_ROWS, PAIRS = 300, 1_500
"""Rows of a goal, and pairs of candidate and label in one place."""


@dataclass(frozen=True)
class Place:
    """A dataset, a penalty, numbers of labels and of candidates, a draw of the rows, and features."""

    dataset: str
    C: float
    n: int = 50
    seed: int = 0
    rows: int | None = None
    features: str = "linear"


def atlas(
    datasets: Sequence[str] = DATASETS,
    *,
    penalties: Sequence[float] = PENALTIES,
    sizes: Sequence[int] = (50,),
    seeds: int = 1,
    rows: int | None = None,
    features: str = "linear",
    out: Path,
    n_jobs: int | None = None,
    progress: Tell = True,
) -> pl.DataFrame:
    """Return a line for every cell and utility; a killed run resumes where it was.

    Parameters
    ----------
    sizes
        Numbers of labels.
    rows
        Candidates in each place; 50 to 150 by default, the fewer the more classes there are.
    features
        The model's: "linear", "landmarks", or "auto", chosen by leave-one-out.
    out
        Folder of `places.jsonl`, the record, and `cells.csv`, the table.
    """
    places = {
        str(place): place
        for seed in range(seeds)
        for n in sizes
        for name in datasets
        for C in penalties
        for place in [Place(name, C, n, seed, rows, features)]
    }
    path = out / "places.jsonl"
    work = lambda place: {"cells": list(cells(place))}
    done = resumed(work, places, path, n_jobs=n_jobs, progress=progress, name="fidelity")
    lines = [
        {**vars(place), **cell} for key, place in places.items() for cell in done[key]["cells"]
    ]
    table = pl.DataFrame(lines, infer_schema_length=None)
    table.write_csv(out / "cells.csv", float_precision=4)
    return table


def summary(table: pl.DataFrame) -> pl.DataFrame:
    """Return, by utility, the share of cells at .95 or more, the worst cell, and the time it took.

    Time is that of the utility over retraining's, summed over all places; certificates are counted in
    pairs of row and label.
    """
    times = table.unique(["dataset", "C", "n", "seed", "goal", "utility"])
    by_utility = times.group_by("utility").agg(
        (pl.col("seconds").sum() / pl.col("retraining").sum()).alias("time"),
        pl.col("pairs", "certified", "violations").sum(),
        pl.col("looseness").median(),
    )
    by_cell = table.group_by("utility").agg(
        pl.len().alias("cells"),
        (pl.col("rank") >= 0.95).mean().alias("at .95"),
        pl.col("rank").min().alias("worst"),
    )
    order = pl.DataFrame({"utility": list(UTILITIES)})
    both = order.join(by_cell, on="utility", maintain_order="left")
    return both.join(by_utility, on="utility", maintain_order="left")


def cells(place: Place) -> Iterator[dict[str, Any]]:
    """Yield a line for every goal, operator and utility."""
    X, y = _rows(place.dataset)
    labelled, goal_rows, candidates = _drawn(y, place)
    fitted = _learner(place).fit(X[labelled], y[labelled], pool=X)
    pool, kind = X[candidates], fitted.loss.kind
    block = fitted.candidates(pool, np.arange(len(pool)))
    # At another temperature than 1 the predictive distribution of a number has other nodes.
    words = [word for word in OPERATOR_WORDS if kind != "numbers" or ":" not in word]
    views = {word: _view(word, fitted, block, y[candidates]) for word in words}
    data = {"dev": (X[goal_rows], y[goal_rows]), "pool": X[goal_rows]}
    for word in GOAL_WORDS:
        needs, make = GOALS[word][:2]
        goal = make(data.get(needs))
        if not all(kind in part.kinds for _, part in goal.parts):
            continue
        goal = goal.for_round(fitted, 0)
        truth, retraining = _timed(Retrain(), fitted, goal, pool)
        scores = {op: view(truth) for op, view in views.items()}
        for name, utility in UTILITIES.items():
            got, seconds = _timed(utility, fitted, goal, pool)
            line = {"goal": word, "utility": name, "seconds": seconds, "retraining": retraining}
            line |= {"pairs": 0, "certified": 0, "violations": 0, "looseness": None}
            if (word, name) in CERTIFIED:
                line |= _certificate(utility.certified(fitted, goal, pool), truth)
            for op, view in views.items():
                if np.ptp(scores[op]) > 1e-9 * np.abs(truth).max():
                    rank = rank_correlation(view(got), scores[op], 1e-9 * np.abs(got).max())
                    yield {"operator": op, "rank": rank, **line}


def _certificate(got: Any, truth: NDArray[Any]) -> dict[str, Any]:
    """Return how many pairs are certified, how many of these wrongly, and how loose bounds are."""
    error, finite = np.abs(got.utility - truth), np.isfinite(got.bound)
    # Errors within Retrain's own tolerance count for neither.
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
    if task == "numbers":
        return Ridge(1.0 / place.C, features=place.features)
    learner = MultiLabel if task == "labels" else Logistic
    return learner(C=place.C, features=place.features)


def _rows(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows of a dataset and their labels; labels:NAME and numbers:NAME are those of tasks.py.

    letter-10 is letter's first ten classes.
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


def fidelity_figure(table: pl.DataFrame) -> Figure:
    """Draw the share of cells at .95 or more, by place and utility: a heat map with its numbers."""
    place = pl.format("{}, C = {}", "dataset", "C")
    if table["n"].n_unique() > 1:
        place = pl.format("{}, n = {}", place, "n")
    grid = (
        table.with_columns(place.alias("place"))
        .group_by("place", "utility", maintain_order=True)
        .agg((pl.col("rank") >= 0.95).mean().alias("true"))
        .pivot("utility", index="place", values="true")
    )
    names, values = grid.columns[1:], grid.drop("place").to_numpy()
    fig = figure(1.8 + 1.05 * len(names), 0.9 + 0.27 * len(grid))
    axes = fig.subplots()
    axes.imshow(values, cmap="RdYlGn", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set_yticks(range(len(grid)), grid["place"].to_list())
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    for (i, j), value in np.ndenumerate(values):
        ink = "white" if not 0.08 < value < 0.92 else "black"
        axes.text(j, i, f"{value:.0%}", ha="center", va="center", fontsize=7, color=ink)
    axes.set_title("Cells with a rank correlation of .95 or more with retraining", fontsize=9)
    return fig


def main(
    datasets: list[str] = Argument(None, help="Names or files; eight datasets by default."),
    penalty: list[float] = Option(None, "-C", "--penalty", help="C; repeat for several."),
    labels: list[int] = Option(None, "-n", "--labels", min=2, help="Labelled rows; repeatable."),
    rows: int = Option(None, min=3, help="Candidates; 50 to 150 by default."),
    seeds: int = Option(1, min=1, help="Draws of the rows."),
    features: str = Option("linear", help="Of the model: linear, landmarks or auto."),
    quick: bool = Option(False, "--quick", help="Two small datasets: a minute."),
    out: Path = Option(Path("out/fidelity"), help="Folder; a killed run resumes from it."),
    jobs: int = Option(None, help="Processes; all cores by default."),
    as_json: bool = Option(False, "--json", help="Print JSON for a program to read."),
) -> None:
    """Compare every utility with retraining: goals x operators x penalties x datasets."""
    table = atlas(
        datasets or (["breast-cancer", "wine"] if quick else DATASETS),
        penalties=penalty or ([0.1, 10.0] if quick else PENALTIES),
        sizes=labels or (50,),
        seeds=seeds,
        rows=rows,
        features=features,
        out=out,
        n_jobs=jobs,
        progress=not as_json,
    )
    lines = summary(table)
    drawn = save(fidelity_figure(table), out / "fidelity")[0]
    if as_json:
        print(in_json({"summary": lines.to_dicts(), "figure": str(drawn)}))
        return
    columns = ("utility", "cells", "at .95", "worst", "time")
    show("utilities against retraining", lines.select(columns))
    columns = ("utility", "pairs", "certified", "violations", "looseness")
    show("certificates: pairs of row and label", lines.filter(pl.col("pairs") > 0).select(columns))
    console.print(f"Figure: {drawn}   Table: {out / 'cells.csv'}", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)

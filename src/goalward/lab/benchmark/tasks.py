"""Rows with several labels, and rows with numbers: who needs the fewest of them, on real tables.

Every strategy spends the same budget on the same splits, from no label on. What is compared is the
area under the curve of macro-F1, or of R² (what is worse than the mean counts as 0).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.metrics import f1_score, r2_score

from goalward.core.whole_file import whole_file
from goalward.lab.benchmark.task_sets import SETS, task_rows
from goalward.lab.parallel import Records, Tell, finished, telling
from goalward.lab.statistics import bootstrap, height
from goalward.models.multi_label import MultiLabel
from goalward.models.ridge import Ridge
from goalward.strategies import recipe
from goalward.strategies.recipes import RECOMMENDED_FOR

__all__ = ["STRATEGIES", "TaskSession", "ahead", "play_task", "play_tasks"]

MADE_BY = f"2 {version('goalward')}"
LARGEST = 1000
"""Rows of a pool, and of a test set."""


STRATEGIES = {
    "labels": (
        *("random", "label-margin", "margin", "entropy"),
        *(RECOMMENDED_FOR["labels"], "decision-risk", "epig", "fisher-ratio", "hedged"),
    ),
    "numbers": (
        *("random", "greedy", "committee", "model-change", "core-set"),
        *("fisher-ratio", "epig", "coverage"),
    ),
}


class TaskSession(NamedTuple):
    """One session."""

    task: str
    dataset: str
    strategy: str
    seed: int
    batch: int = 5
    budget: int = 60


def play_task(job: TaskSession) -> dict[str, Any]:
    """Return the curve of one session, and its mean height."""
    X, y = task_rows(job.task, job.dataset)
    order = np.random.default_rng([11, job.seed]).permutation(len(X))
    cut = min(LARGEST, len(X) // 4)
    test, pool = order[:cut], order[cut : cut + LARGEST]
    chooser = recipe(job.strategy).build(pool=X[pool], seed=job.seed)
    names = range(y.shape[1])
    learner = MultiLabel(labels=names) if job.task == "labels" else Ridge(outputs=names)
    taken: list[int] = []
    curve = []
    with warnings.catch_warnings():
        # A comparison may hold strategies that say nothing on some data: they score as they do.
        warnings.simplefilter("ignore")
        while True:
            fitted = learner.fit(X[pool[taken]], y[pool[taken]])
            curve.append(_measured(job.task, y[test], fitted.predict(X[test])))
            left = min(job.batch, job.budget - len(taken), len(pool) - len(taken))
            if left <= 0:
                break
            given = (fitted, X[pool], left, taken)
            taken += chooser.suggest(*given, round=len(curve) - 1).rows.tolist()
    area = float(height(np.array(curve)))
    return {**job._asdict(), "made_by": MADE_BY, "area": round(area, 4), "final": curve[-1]}


def _measured(task: str, truth: NDArray[Any], said: NDArray[Any]) -> float:
    if task == "labels":
        return round(float(f1_score(truth, said, average="macro", zero_division=0.0)), 4)
    return round(max(float(r2_score(truth, said)), 0.0), 4)


def play_tasks(
    task: str,
    *,
    datasets: Sequence[str] | None = None,
    strategies: Sequence[str] | None = None,
    seeds: int = 5,
    budget: int = 60,
    out: Path | str,
    n_jobs: int | None = None,
    progress: Tell = True,
) -> pl.DataFrame:
    """Return a line for every session; what `out` holds of them already is not played again."""
    jobs = [
        TaskSession(task, dataset, strategy, seed, budget=budget)
        for dataset in datasets or SETS[task]
        for strategy in strategies or STRATEGIES[task]
        for seed in range(seeds)
    ]
    store = Records(Path(out) / f"{task}.jsonl")
    done = {
        TaskSession(*(line[name] for name in TaskSession._fields)): line
        for line in store
        if line.get("made_by") == MADE_BY
    }
    missing = [job for job in jobs if job not in done]
    before = len(jobs) - len(missing)
    with (
        store.appending() as keep,
        telling(progress, len(jobs), "benchmark", "sessions", before) as tell,
    ):
        for count, line in enumerate(finished(play_task, missing, n_jobs), before + 1):
            keep(line)
            done[TaskSession(*(line[name] for name in TaskSession._fields))] = line
            tell(count)
    frame = pl.DataFrame([done[job] for job in jobs])
    with whole_file(Path(out) / f"{task}.csv", force=True) as path:
        frame.drop("made_by").write_csv(path)
    return frame


def ahead(lines: pl.DataFrame) -> pl.DataFrame:
    """Return each strategy's mean area, and how far ours is ahead of it: by set, 95 % over sets."""
    task = lines["task"][0]
    means = lines.group_by("dataset", "strategy", maintain_order=True).agg(pl.col("area").mean())
    wide = means.pivot("strategy", index="dataset", values="area")
    ours = RECOMMENDED_FOR[task] if RECOMMENDED_FOR[task] in wide.columns else wide.columns[1]
    found = []
    for strategy in wide.columns[1:]:
        gap = (wide[ours] - wide[strategy]).to_numpy()
        mean, low, high = bootstrap(gap)
        found.append(
            {
                "strategy": strategy,
                "area": round(float(wide[strategy].mean()), 4),  # type: ignore[arg-type]
                "ours ahead": round(mean, 4),
                "from": round(low, 4),
                "to": round(high, 4),
                "on sets": f"{int((gap > 0).sum())} of {len(gap)}",
            }
        )
    return pl.DataFrame(found)

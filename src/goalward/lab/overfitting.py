"""Whether a goal that is pushed for long overfits its dev rows, and whether guards help.

Paired sessions with the dev goal and its guards, once as in the paper (dev rows may be asked for
like any other) and once with the dev rows kept out of the pool, as in a study.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from goalward.lab.audit import audited, fall
from goalward.lab.curves import LOWER_IS_BETTER, Curves, bootstrap
from goalward.lab.datasets import Apart, Dataset, Thinned, load
from goalward.lab.simulate import simulate
from goalward.plots import save
from goalward.plots.audit import Watched, audit_figure

__all__ = ["overfitting"]

ORACLE = {
    "random": "random",
    "dev": "dev/oracle/first-order/top",
    "rotated": "dev-rotated/oracle/first-order/top",
    "split": "dev-split/oracle/first-order/top",
    "cautious": "dev/oracle/cautious/top",
}
PRACTICAL = {
    "random": "random",
    "dev": "dev/spread/first-order/sequential-curvature",
    "rotated": "dev-rotated/spread/first-order/sequential-curvature",
    "split": "dev-split/spread/first-order/sequential-curvature",
}
GROUPS = {
    "oracle, dev rows in the pool": (ORACLE, False),
    "oracle, dev rows kept apart": (ORACLE, True),
    "spread, dev rows kept apart": (PRACTICAL, True),
}
"""Title -> (strategies, whether dev rows are kept apart). "dev" is the one without a guard."""


def overfitting(
    out: Path | str,
    *,
    dataset: Dataset | str = "rt-polarity",
    seeds: int | None = None,
    budget: int | None = None,
    quick: bool = False,
    n_jobs: int | None = None,
    progress: bool | Callable[[int, int], None] = True,
) -> tuple[pl.DataFrame, Path]:
    """Return what each guard loses late and saves, and the path of the figure.

    Parameters
    ----------
    out
        Folder for rounds, table and figure; a killed run goes on from there.
    seeds, budget
        5 paired splits and 1,000 labels, or 2 and 100 in a quick run.
    quick
        A quarter of the rows, too.
    progress
        Whether to draw a bar for each group; or a function that is told (rounds done, of all).
    """
    out = Path(out)
    data = load(dataset) if isinstance(dataset, str) else dataset
    seeds, budget = seeds or (2 if quick else 5), budget or (100 if quick else 1000)
    if quick:
        data = replace(data, split=Thinned(data.split, 0.25))
    lines: list[dict[str, Any]] = []
    panels = {}
    sizes = [len(strategies) for strategies, _ in GROUPS.values()]
    for place, (title, (strategies, apart)) in enumerate(GROUPS.items()):
        task = replace(data, split=Apart(data.split)) if apart else data
        curves = simulate(
            task,
            strategies,
            budget=budget,
            seeds=seeds,
            out=out / title.split(",")[0] / ("apart" if apart else "in"),
            n_jobs=n_jobs,
            progress=_part(progress, sizes, place) if callable(progress) else progress,
        )
        lines += [{"group": title} | line for line in _measured(curves, task)]
        panels[title] = {name: _watched(curves, name, task) for name in curves.strategies}
    table = pl.DataFrame(lines, infer_schema_length=None)
    table.write_csv(out / "overfitting.csv", float_precision=5)
    return table, save(audit_figure(panels), out / "overfitting")[0]


def _part(
    tell: Callable[[int, int], None], sizes: list[int], place: int
) -> Callable[[int, int], None]:
    """Return a function for the rounds of one group that tells of those of all, by sessions."""

    def told(done: int, total: int) -> None:
        rounds = total // sizes[place]
        tell(rounds * sum(sizes[:place]) + done, rounds * sum(sizes))

    return told


def _watched(curves: Curves, name: str, dataset: Dataset) -> Watched:
    x, goal = curves.curve(name, "goal_dev")
    _, measure = curves.curve(name, "log_loss")
    alarm = audited(curves, name, measure="log_loss").round
    rows = np.array([[len(dataset.split(seed).dev)] for seed in range(len(goal))])
    return Watched(x, goal / rows, measure, None if alarm is None else float(x[alarm]))


def _measured(curves: Curves, dataset: Dataset) -> list[dict[str, Any]]:
    """Return one line per strategy: best, end and loss of both measures, and what a guard saves."""
    lines = []
    seeds = curves.table["seed"].n_unique()
    for name in curves.strategies:
        line: dict[str, Any] = {"strategy": name, "seeds": seeds}
        for measure in ("log_loss", "accuracy"):
            sign = -1.0 if measure in LOWER_IS_BETTER else 1.0
            x, values = curves.curve(name, measure)
            _, plain = curves.curve("dev", measure)
            alarm = audited(curves, name, measure=measure)
            lost, unguarded = fall(sign * values), fall(sign * plain)
            short = measure.replace("_", "-")
            line |= {
                f"{short} best": float(values.mean(axis=0)[alarm.best]),
                f"{short} best at": int(x[alarm.best]),
                f"{short} end": float(values[:, -1].mean()),
                **_interval(f"{short} lost", lost),
                **_interval(f"{short} loss removed", unguarded - lost),
                **_interval(f"{short} end better by", sign * (values - plain)[:, -1]),
                f"{short} alarm at": None if alarm.round is None else int(x[alarm.round]),
            }
        line |= {
            "dev goal end": float(curves.curve(name, "goal_dev")[1][:, -1].mean()),
            "dev rows asked": _dev_asked(curves, name, dataset),
            "seconds": float(curves.curve(name, "seconds")[1].sum(axis=1).mean()),
        }
        lines.append(line)
    return lines


def _interval(name: str, values: Any) -> dict[str, float]:
    mean, low, high = bootstrap(values)
    return {name: mean, f"{name}, low": low, f"{name}, high": high}


def _dev_asked(curves: Curves, name: str, dataset: Dataset) -> float:
    """Return how many dev rows a session asked for, the mean over seeds."""
    mine = curves.table.filter(pl.col("strategy") == name)
    counts = []
    for (seed,), part in mine.group_by(["seed"], maintain_order=True):
        asked = part["rows"].explode().drop_nulls().to_numpy()
        counts.append(np.isin(asked, dataset.split(int(str(seed))).dev).sum())
    return float(np.mean(counts))

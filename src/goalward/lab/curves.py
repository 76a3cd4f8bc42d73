"""Learning curves as a table, and what can be said of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import norm, rankdata, t

from goalward.errors import BadParameter

__all__ = ["Curves", "bootstrap"]

LOWER_IS_BETTER = {"log_loss"}


@dataclass(frozen=True)
class Curves:
    """Results of a simulation: one line per strategy, seed and round.

    Parameters
    ----------
    table
        Columns: dataset, strategy, seed, round, queries, labels, labels_with_dev, accuracy,
        log_loss, goal, goal_dev, goal_entropy, goal_fisher, rows, utility, seconds.
    """

    table: pl.DataFrame = field(repr=False)

    @property
    def strategies(self) -> list[str]:
        """Names, in the order of the run."""
        return self.table["strategy"].unique(maintain_order=True).to_list()

    def curve(self, strategy: str, metric: str = "accuracy") -> tuple[NDArray[Any], NDArray[Any]]:
        """Return queries (rounds,) and the metric (seeds, rounds) of a strategy."""
        if strategy not in self.strategies:
            raise BadParameter(
                f"There is no strategy {strategy!r}; one of {', '.join(self.strategies)} was "
                "expected. Check the name."
            )
        mine = self.table.filter(pl.col("strategy") == strategy).sort("seed", "round")
        seeds = mine["seed"].n_unique()
        queries = mine["queries"].to_numpy().reshape(seeds, -1)
        return queries[0], mine[metric].to_numpy().reshape(seeds, -1)

    def area(self, metric: str = "accuracy") -> dict[str, NDArray[Any]]:
        """Return the mean height of each strategy's curves, (seeds,): the area by trapezes."""
        areas = {}
        for name in self.strategies:
            x, values = self.curve(name, metric)
            width = x[-1] - x[0] if len(x) > 1 else 1
            areas[name] = np.trapezoid(values, x, axis=1) / width if len(x) > 1 else values[:, 0]
        return areas

    def reach(self, level: float, *, with_dev: bool = False) -> dict[str, NDArray[Any]]:
        """Return the labels bought when accuracy first reaches `level`, (seeds,); inf if never.

        Parameters
        ----------
        with_dev
            Charge dev labels to the strategies that use them.
        """
        reached = {}
        for name in self.strategies:
            _, accuracy = self.curve(name)
            column = "labels_with_dev" if with_dev else "queries"
            _, cost = self.curve(name, column)
            if with_dev:
                cost = cost - self.curve(name, "labels")[1][:, :1]
            hit = accuracy >= level - 1e-12
            first = hit.argmax(axis=1)
            spent = cost[np.arange(len(cost)), first].astype(float)
            reached[name] = np.where(hit.any(axis=1), spent, np.inf)
        return reached

    def differences(self, reference: str, metric: str = "accuracy") -> pl.DataFrame:
        """Return the area of each strategy less the reference's, paired, with 95 % intervals."""
        areas = self.area(metric)
        sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
        lines = []
        for name, area in areas.items():
            mean, low, high = bootstrap(sign * (area - areas[reference]))
            lines.append(
                {
                    "strategy": name,
                    "area": float(area.mean()),
                    "better_by": mean,
                    "low": low,
                    "high": high,
                    "wins": int(np.sum(sign * (area - areas[reference]) > 0)),
                    "seeds": len(area),
                }
            )
        return pl.DataFrame(lines)

    def ranks(self, metric: str = "accuracy") -> pl.DataFrame:
        """Return the mean rank of each strategy over the seeds, 1 the best."""
        areas = self.area(metric)
        sign = 1.0 if metric in LOWER_IS_BETTER else -1.0
        table = rankdata(sign * np.stack(list(areas.values())), axis=0)
        return pl.DataFrame(
            {
                "strategy": list(areas),
                "mean_rank": table.mean(axis=1),
                "best_in": (table == table.min(axis=0)).sum(axis=1),
            }
        ).sort("mean_rank")

    def summary(self, levels: tuple[float, ...] = ()) -> pl.DataFrame:
        """Return one line per strategy: areas, final accuracy, rank, labels to reach levels."""
        ranks = dict(self.ranks().select("strategy", "mean_rank").iter_rows())
        lines = []
        for name in self.strategies:
            _, accuracy = self.curve(name)
            line: dict[str, Any] = {
                "strategy": name,
                "area_accuracy": float(self.area()[name].mean()),
                "area_log_loss": float(self.area("log_loss")[name].mean()),
                "final_accuracy": float(accuracy[:, -1].mean()),
                "mean_rank": float(ranks[name]),
                "seconds": float(self.curve(name, "seconds")[1].sum(axis=1).mean()),
            }
            for level in levels:
                for with_dev in (False, True):
                    found = self.reach(level, with_dev=with_dev)[name]
                    key = f"labels_to_{level:g}{'_with_dev' if with_dev else ''}"
                    middle = float(np.median(found))
                    line[key] = middle if np.isfinite(middle) else None
            lines.append(line)
        return pl.DataFrame(lines, infer_schema_length=None)

    def save(self, folder: Path) -> None:
        """Write the table as Parquet and CSV, and the summary as CSV; each file whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        _replaced(folder / "curves.parquet", self.table.write_parquet)
        flat = self.table.with_columns(
            pl.col("rows").list.eval(pl.element().cast(pl.String)).list.join(" "),
            pl.col("utility").list.eval(pl.element().cast(pl.String)).list.join(" "),
        )
        _replaced(folder / "curves.csv", flat.write_csv)
        _replaced(folder / "summary.csv", self.summary().write_csv)


def _replaced(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file under another name, then give it its own: a kill leaves the old one."""
    partial = path.with_name(f"{path.name}.partial")
    write(partial)
    partial.replace(path)


def bootstrap(
    values: NDArray[Any], *, draws: int = 10_000, seed: int = 0
) -> tuple[float, float, float]:
    """Return the mean and its 95 % bootstrap interval over seeds; NaN ends for a single one.

    Percentiles are expanded for few values (Hesterberg 2015), since plain ones are too narrow;
    below ten values resamples are too alike even for that, and Student's interval is returned.
    """
    n = len(values)
    if n < 2:
        return float(values.mean()), float("nan"), float("nan")
    if n < 10:
        half = float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))
        return float(values.mean()), float(values.mean() - half), float(values.mean() + half)
    rng = np.random.default_rng(seed)
    means = values[rng.integers(n, size=(draws, n))].mean(axis=1)
    tail = float(norm.cdf(-np.sqrt(n / (n - 1)) * t.ppf(0.975, n - 1)))
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return float(values.mean()), float(low), float(high)

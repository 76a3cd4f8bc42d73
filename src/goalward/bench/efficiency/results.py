"""What came out: areas under curves, ranks, paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from goalward.bench.curves import LOWER_IS_BETTER, bootstrap
from goalward.errors import BadParameter

__all__ = ["Results", "critical_difference"]


@dataclass(frozen=True)
class Results:
    """One line per dataset, strategy and seed.

    Parameters
    ----------
    table
        Columns: dataset, strategy, seed; accuracy, log_loss (areas over labels bought, all charged,
        as mean heights); final (accuracy after the budget); free_accuracy, free_log_loss (areas
        over queries with dev labels free: the model does not train on them); labels (bought in
        all), dev (of which dev labels); seconds (to choose).
    """

    table: pl.DataFrame = field(repr=False)

    @classmethod
    def of(cls, sessions: Sequence[dict[str, Any]]) -> Results:
        """Return the areas of played sessions."""
        return cls(pl.DataFrame([_line(session) for session in sessions]))

    @classmethod
    def read(cls, path: Path | str) -> Results:
        """Return results that were saved as CSV."""
        return cls(pl.read_csv(path))

    def save(self, folder: Path) -> None:
        """Write `benchmark.csv`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.table.write_csv(folder / "benchmark.csv")

    @property
    def datasets(self) -> list[str]:
        """Names, in the order of the run."""
        return self.table["dataset"].unique(maintain_order=True).to_list()

    @property
    def strategies(self) -> list[str]:
        """Names, in the order of the run."""
        return self.table["strategy"].unique(maintain_order=True).to_list()

    def only(
        self, strategies: Sequence[str] | None = None, datasets: Sequence[str] | None = None
    ) -> Results:
        """Return the part of the results with these strategies and datasets."""
        chosen = self.table
        for column, names in (("strategy", strategies), ("dataset", datasets)):
            if names is None:
                continue
            unknown = sorted(set(names) - set(chosen[column].to_list()))
            if unknown:
                raise BadParameter(
                    f"The results have no {column} {unknown[0]!r}; one of "
                    f"{', '.join(chosen[column].unique(maintain_order=True))} was expected."
                )
            chosen = chosen.filter(pl.col(column).is_in(list(names)))
        return Results(chosen)

    def seeds(self, metric: str = "accuracy") -> NDArray[Any]:
        """Return (strategies, datasets, seeds) areas."""
        shape = (len(self.strategies), len(self.datasets), -1)
        order = {name: i for i, name in enumerate(self.strategies)}
        place = {name: i for i, name in enumerate(self.datasets)}
        lines = self.table.with_columns(
            pl.col("strategy").replace_strict(order).alias("s"),
            pl.col("dataset").replace_strict(place).alias("d"),
        ).sort("s", "d", "seed")
        return lines[metric].to_numpy().reshape(shape)

    def means(self, metric: str = "accuracy") -> pl.DataFrame:
        """Return the mean area by dataset (lines) and strategy (columns)."""
        means = self.seeds(metric).mean(axis=2)
        columns = {name: means[i] for i, name in enumerate(self.strategies)}
        return pl.DataFrame({"dataset": self.datasets, **columns})

    def ranks(self, metric: str = "accuracy") -> pl.DataFrame:
        """Return the mean rank over datasets, 1 the best, with a 95 % bootstrap interval.

        Seeds are drawn anew within each dataset, then datasets: what other splits and other data of
        this kind could have given.
        """
        values = self.seeds(metric) * (1.0 if metric in LOWER_IS_BETTER else -1.0)
        mean = rankdata(values.mean(axis=2), axis=0)
        n_datasets, n_seeds = values.shape[1:]
        rng = np.random.default_rng(0)
        draws = np.empty((2000, len(values)))
        for i in range(len(draws)):
            data = np.asarray(rng.integers(n_datasets, size=(n_datasets, 1)))
            picks = np.asarray(rng.integers(n_seeds, size=(n_datasets, n_seeds)))
            drawn = values[:, data, picks].mean(axis=2)
            draws[i] = rankdata(drawn, axis=0).mean(axis=1)
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        seconds = self.seeds("seconds").mean(axis=(1, 2))
        return pl.DataFrame(
            {
                "strategy": self.strategies,
                "mean_rank": mean.mean(axis=1),
                "low": low,
                "high": high,
                "best_on": (mean == mean.min(axis=0)).sum(axis=1),
                "mean_area": self.seeds(metric).mean(axis=(1, 2)),
                "seconds": seconds,
            }
        ).sort("mean_rank")

    def against(self, strategy: str, metric: str = "accuracy") -> pl.DataFrame:
        """Return a strategy less each other one, paired by seed, by dataset and over all.

        `better` and `worse` count the datasets whose 95 % interval over seeds leaves out zero.
        The mean over datasets has a bootstrap interval over datasets.
        """
        values = self.seeds(metric) * (-1.0 if metric in LOWER_IS_BETTER else 1.0)
        mine = values[self.strategies.index(strategy)]
        lines = []
        for i, other in enumerate(self.strategies):
            if other == strategy:
                continue
            gaps = mine - values[i]
            ends = [bootstrap(gap, draws=2000) for gap in gaps]
            mean, low, high = bootstrap(gaps.mean(axis=1), draws=2000)
            lines.append(
                {
                    "against": other,
                    "better_by": mean,
                    "low": low,
                    "high": high,
                    "wins": int(np.sum(gaps.mean(axis=1) > 0)),
                    "better": sum(low > 0 for _, low, _ in ends),
                    "worse": sum(high < 0 for _, _, high in ends),
                    "datasets": len(ends),
                }
            )
        return pl.DataFrame(lines)

    def friedman(self, metric: str = "accuracy") -> float:
        """Return the p-value of Friedman's test that all strategies do equally well."""
        if len(self.strategies) < 3 or len(self.datasets) < 2:
            return float("nan")
        return float(friedmanchisquare(*self.seeds(metric).mean(axis=2)).pvalue)


def critical_difference(n_strategies: int, n_datasets: int, alpha: float = 0.05) -> float:
    """Return Nemenyi's critical difference of mean ranks (Demšar 2006, eq. 4)."""
    q = float(studentized_range.ppf(1.0 - alpha, n_strategies, np.inf)) / np.sqrt(2.0)
    return float(q * np.sqrt(n_strategies * (n_strategies + 1) / (6.0 * n_datasets)))


def _line(session: dict[str, Any]) -> dict[str, Any]:
    batch, dev = session["batch"], session["dev"]
    bought = (len(session["accuracy"]) - 1) * batch
    steered = bool(session["apart_accuracy"])
    rounds = (bought - dev) // batch + 1
    line = {name: session[name] for name in ("dataset", "strategy", "seed")}
    for metric in ("accuracy", "log_loss"):
        free = session[f"apart_{metric}"] if steered else session[metric][:rounds]
        line[metric] = _height(session[metric])
        # Who trains on dev labels has no curve without them.
        known = steered or not session["dev_paid"]
        line[f"free_{metric}"] = _height(free) if known else None
    return line | {
        "final": round(session["accuracy"][-1], 4),
        "labels": bought,
        "dev": session["dev_paid"],
        "seconds": round(session["seconds"], 2),
    }


def _height(curve: list[float]) -> float:
    """Return the area under a curve as its mean height, by trapezes."""
    if len(curve) == 1:
        return round(curve[0], 5)
    return round(float(np.trapezoid(curve)) / (len(curve) - 1), 5)

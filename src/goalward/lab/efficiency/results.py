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

from goalward.errors import BadInput, BadParameter, DataMissing
from goalward.lab.curves import LOWER_IS_BETTER, bootstrap

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
        try:
            table = pl.read_csv(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataMissing(
                f"{path} could not be read ({error}); the benchmark.csv of a run was expected."
            ) from error
        missing = sorted(
            {"dataset", "strategy", "seed", "accuracy", "log_loss"} - set(table.columns)
        )
        if missing:
            raise BadInput(
                f"{path} has no column {missing[0]!r}; the benchmark.csv of a run was expected."
            )
        return cls(table)

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
        table = self.table.sort("seed")
        cells = table.group_by("strategy", "dataset", maintain_order=True).agg("seed", metric)
        found = {(s, d): (seeds, values) for s, d, seeds, values in cells.iter_rows()}
        whole = next(iter(found.values()))[0]
        if len(set(whole)) < len(whole) or any(seeds != whole for seeds, _ in found.values()):
            raise BadInput(
                "Some strategies have other seeds than others, or the same one twice; the same seeds of "
                "every strategy on every dataset were expected. Let the benchmark run to its end."
            )
        try:
            lines = [[found[s, d][1] for d in self.datasets] for s in self.strategies]
        except KeyError as error:
            raise BadInput(
                f"There is no result of {error.args[0]}; every strategy on every dataset was expected. "
                "Let the benchmark run to its end."
            ) from error
        return np.array(lines, dtype=np.float64)

    def means(self, metric: str = "accuracy") -> pl.DataFrame:
        """Return the mean area by dataset (lines) and strategy (columns)."""
        means = self.seeds(metric).mean(axis=2)
        columns = {name: means[i] for i, name in enumerate(self.strategies)}
        return pl.DataFrame({"dataset": self.datasets, **columns})

    def ranks(self, metric: str = "accuracy") -> pl.DataFrame:
        """Return the mean rank over datasets, 1 the best, with a 95 % bootstrap interval.

        The interval is over datasets: what others of this kind, with as many seeds, could have
        given; none for a single one. Ranks of fewer seeds are nearer to the middle, so it is not
        one for "true" ranks.
        """
        values = self.seeds(metric) * (1.0 if metric in LOWER_IS_BETTER else -1.0)
        ranks = rankdata(values.mean(axis=2), axis=0)
        # Student's interval for few datasets knows nothing of the first and the last place.
        ends = [np.clip(bootstrap(line, draws=2000), 1.0, len(ranks)) for line in ranks]
        return pl.DataFrame(
            {
                "strategy": self.strategies,
                "mean_rank": ranks.mean(axis=1),
                "low": pl.Series([low for _, low, _ in ends]).fill_nan(None),
                "high": pl.Series([high for _, _, high in ends]).fill_nan(None),
                "best_on": (ranks == ranks.min(axis=0)).sum(axis=1),
                "mean_area": self.seeds(metric).mean(axis=(1, 2)),
                # The median: other work on the machine makes some sessions slow.
                "seconds": np.median(self.seeds("seconds"), axis=(1, 2)),
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

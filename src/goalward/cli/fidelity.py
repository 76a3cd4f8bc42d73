"""The command that says how true utilities are: fidelity."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer
from typer import Argument, Option

from goalward.cli.app import AsJson, Jobs, Out, command
from goalward.cli.console import console, in_json, show

__all__ = ["fidelity"]


@dataclass(frozen=True)
class FidelityOptions:
    """What `goalward fidelity` takes."""

    datasets: list[str] | None = Argument(
        None, metavar="[DATASET]...", help="Names or files; eight datasets by default."
    )
    penalty: list[float] | None = Option(
        None, "-C", "--penalty", help="C; repeat for several. 0.005, 0.1, 1 and 10 by default."
    )
    labels: list[int] | None = Option(
        None, "-n", "--labels", min=2, help="Labelled rows; repeat for several. 50 by default."
    )
    rows: int | None = Option(None, min=3, help="Candidates; 50 to 150 by default.")
    seeds: int = Option(1, min=1, help="Draws of the rows.")
    quick: bool = Option(False, "--quick", help="Two small datasets: a minute.")
    out: Out = Path("out/fidelity")
    jobs: Jobs = None
    as_json: AsJson = False


@command(FidelityOptions)
def fidelity(options: FidelityOptions) -> None:
    """Compare every utility with retraining: goals x operators x penalties x datasets.

    The table counts the cells in which the rank correlation with retraining is .95 or more, names
    the worst, and gives the time as a share of retraining's; of corrected utilities it counts the
    certificates and those that did not hold.

    Examples: `goalward fidelity --quick`, `goalward fidelity wine -C 1 -C 10 -n 50 -n 200`
    """
    from goalward.lab.atlas import DATASETS, PENALTIES, atlas, summary
    from goalward.lab.plots import fidelity_figure, save

    names = options.datasets or (["breast-cancer", "wine"] if options.quick else DATASETS)
    penalties = options.penalty or ([0.1, 10.0] if options.quick else PENALTIES)
    table = atlas(
        names,
        penalties=penalties,
        sizes=options.labels or (50,),
        seeds=options.seeds,
        rows=options.rows,
        out=options.out,
        n_jobs=options.jobs,
        tell=not options.as_json,
    )
    lines = summary(table)
    drawn = save(fidelity_figure(table), options.out / "fidelity")[0]
    if options.as_json:
        typer.echo(in_json({"summary": lines.to_dicts(), "figure": str(drawn)}))
        return
    show(
        "utilities against retraining", lines.select("utility", "cells", "at .95", "worst", "time")
    )
    proven = lines.filter(lines["pairs"] > 0)
    columns = ("utility", "pairs", "certified", "violations", "looseness")
    show("certificates: pairs of row and label", proven.select(columns))
    console.print(f"Figure: {drawn}   Table: {options.out / 'cells.csv'}", soft_wrap=True)

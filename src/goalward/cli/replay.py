"""The command that plays stored labels again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from goalward.cli.app import AsJson, Jobs, app
from goalward.cli.console import Spinner, console, show
from goalward.cli.experiments import draw

__all__ = ["replay"]

BIASED = (
    "The pool of this replay is the rows that the study's own strategy asked for, a biased one: it "
    "lacks what another strategy would have preferred."
)


@app.command()
def replay(
    stored: Annotated[
        str,
        typer.Argument(
            metavar="STUDY", help="labels.db or another study; or the folder of a simulation."
        ),
    ],
    strategy: Annotated[
        list[str] | None, typer.Option("--strategy", "-s", help="A recipe; repeat for several.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Of a study: random starts; 10 by default.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Of a study: labels per round; its refit by default.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Of a study: labels bought; all by default.")
    ] = None,
    table: Annotated[
        Path | None, typer.Option("--table", help="Where the study's table is, if it was moved.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="Of a simulation of a file: where the file is.")
    ] = None,
    label: Annotated[str, typer.Option(help="Label column of --data.")] = "label",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results; out/replay, or the simulation's own folder."),
    ] = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Ask what another strategy would have asked, and how good the model would be then.

    The labelled rows of a study are played again, its own order beside the strategies named. A
    simulation gets more strategies, on the same splits and seeds.

    Examples: `goalward replay labels.db -s random -s margin`,
    `goalward replay out/simulation -s dev/spread`
    """
    from goalward.errors import BadParameter
    from goalward.lab import replay as play
    from goalward.lab import replay_simulation
    from goalward.lab.datasets import load
    from goalward.study import Study

    recipes = strategy or ["random", "margin"]
    simulated = Path(stored).is_dir()
    mine: dict[str, Any] = {"--seeds": seeds, "--batch": batch, "--budget": budget}
    mine |= {"--table": table, "--out": out}
    refused = [name for name, value in (mine if simulated else {"--data": data}).items() if value]
    if refused:
        kind = "a simulation, which has its own" if simulated else "a study, which has its own"
        raise BadParameter(
            f"{', '.join(refused)} came with {stored}, {kind}; none was expected. Leave it out."
        )
    if simulated:
        folder = Path(stored)
        dataset = load(data, label=label) if data is not None else None
        curves = replay_simulation(folder, recipes, dataset=dataset, n_jobs=jobs)
        title, reference = str(curves.table["dataset"][0]), curves.strategies[0]
    else:
        folder = out or Path("out/replay")
        with Spinner() as tick:
            tick("opening the study")
            study = Study.open(stored, pool=table, tick=tick)
        with study:
            options: dict[str, Any] = {"seeds": seeds or 10, "batch": batch, "budget": budget}
            curves = play(study, recipes, **options, out=folder, n_jobs=jobs)
        title, reference = str(curves.table["dataset"][0]), "as labelled"
    figure = draw(curves, title, folder)
    summary = curves.summary()
    if as_json:
        found = {"summary": summary.to_dicts(), "figure": str(figure), "biased": not simulated}
        typer.echo(json.dumps(found))
        return
    show(f"{title}: mean of {curves.table['seed'].n_unique()} seeds", summary)
    show(f"area under the accuracy curve, against {reference}", curves.differences(reference))
    if not simulated:
        console.print(BIASED)
    console.print(
        f"Figure: {figure}   Table: {folder / 'curves.parquet'} (and .csv)", soft_wrap=True
    )

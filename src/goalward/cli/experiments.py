"""Commands that run experiments: reproduce, simulate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from goalward.cli.app import AsJson, Spinner, app, console, show

__all__ = ["reproduce", "simulate"]

Out = Annotated[Path, typer.Option(help="Folder for results; a killed run goes on from there.")]
Jobs = Annotated[int | None, typer.Option(help="Processes; all cores by default.")]


@app.command()
def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            help="approx-serial, approx-batch, expred, synth2, letter, rt-polarity; all by default."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer seeds, rounds and rows: minutes, not an hour.")
    ] = False,
    out: Out = Path("out/reproduction"),
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds; 10 in a full run, 2 in a quick one.")
    ] = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Run the paper: every figure and table, and its claims with verdicts, in one HTML report.

    Data: synth2 is generated; letter and rt-polarity are looked for in the folder named by
    GOALWARD_DATA, in the per-user cache, and fetched otherwise.

    Examples: `goalward reproduce --quick`, `goalward reproduce approx-serial expred --out out/a`
    """
    from goalward.bench.paper import Size
    from goalward.bench.paper import reproduce as run

    size = Size.quick(jobs, seeds or 2) if quick else Size.full(seeds or 10, jobs)
    with Spinner() as tick:
        claims, path = run(out, figures or (), size=size, tick=tick)
    if as_json:
        typer.echo((out / "claims.json").read_text())
        return
    lines = [{"claim": c.name, "measured": c.measured, "verdict": c.verdict} for c in claims]
    show("Claims of the paper", pl.DataFrame(lines))
    console.print(f"Report: {path}   (figures/, tables/ and claims.json beside it)", soft_wrap=True)


@app.command()
def simulate(
    dataset: Annotated[
        str,
        typer.Argument(
            help="synth2, letter, rt-polarity, digits, digits-3v8, breast-cancer, wine, or a .csv, "
            ".parquet or .npz file."
        ),
    ],
    strategy: Annotated[
        list[str] | None, typer.Option("--strategy", "-s", help="A recipe; repeat for several.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Paired splits.")] = 5,
    budget: Annotated[int, typer.Option(min=1, help="Labels bought.")] = 200,
    batch: Annotated[int, typer.Option(min=1, help="Labels per round.")] = 10,
    label: Annotated[str, typer.Option(help="Label column of a file.")] = "label",
    reach: Annotated[
        list[float] | None, typer.Option(help="Accuracies to count the labels for.")
    ] = None,
    out: Out = Path("out/simulation"),
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Compare strategies by learning curves on the same splits, with confidence bands.

    A recipe is a baseline (random, margin, entropy, least-confident) or
    goal/operator/utility/selection: dev/average, entropy/min/retrain, fisher/spread.

    Example: `goalward simulate digits -s random -s margin -s dev/spread --seeds 5 --budget 100`
    """
    from goalward.bench import simulate as run
    from goalward.bench.datasets import load
    from goalward.plots import curve_panel, figure, save

    recipes = strategy or ["random", "margin", "dev/average"]
    data = load(dataset, label=label)
    curves = run(data, recipes, batch=batch, budget=budget, seeds=seeds, out=out, n_jobs=jobs)
    fig = figure(11, 4.4)
    left, right = fig.subplots(1, 2)
    curve_panel(left, {n: curves.curve(n) for n in curves.strategies}, title=data.name)
    losses = {n: curves.curve(n, "log_loss") for n in curves.strategies}
    curve_panel(right, losses, ylabel="test log-loss")
    paths = save(fig, out / "curves")
    summary = curves.summary(tuple(reach or ()))
    if as_json:
        typer.echo(json.dumps({"summary": summary.to_dicts(), "figure": str(paths[0])}))
        return
    show(f"{data.name}: mean of {seeds} seeds", summary)
    show(f"area under the accuracy curve, against {recipes[0]}", curves.differences(recipes[0]))
    console.print(
        f"Figure: {paths[0]}   Table: {out / 'curves.parquet'} (and .csv)", soft_wrap=True
    )

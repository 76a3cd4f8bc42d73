"""Commands that run experiments: reproduce, simulate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalward.cli.app import AsJson, Jobs, Out, app
from goalward.cli.console import Spinner, console, show

if TYPE_CHECKING:
    from goalward.lab import Curves

__all__ = ["draw", "reproduce", "simulate"]


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
    from goalward.lab.paper import Size
    from goalward.lab.paper import reproduce as run

    size = Size.quick(jobs, seeds or 2) if quick else Size.full(seeds or 10, jobs)
    with Spinner() as tick:
        claims, path = run(out, figures or (), size=size, tick=tick)
    if as_json:
        typer.echo((out / "claims.json").read_text())
        return
    lines = [{"claim": c.name, "measured": c.measured, "verdict": c.verdict} for c in claims]
    show("Claims of the paper", lines)
    console.print(f"Report: {path}   (figures/, tables/ and claims.json beside it)", soft_wrap=True)


@app.command()
def simulate(
    dataset: Annotated[
        str,
        typer.Argument(
            help="synth2, letter, rt-polarity, digits, digits-3v8, breast-cancer, wine, one of KEEL's "
            "(magic, segment, vowel, ...), or a .csv, .parquet or .npz file."
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
    stopping: Annotated[
        bool, typer.Option("--stopping", help="Say where each stopping rule would have ended.")
    ] = False,
    price: Annotated[
        float, typer.Option(help="Of --stopping: what a label costs, in nats per row of the goal.")
    ] = 0.001,
    out: Out = Path("out/simulation"),
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Compare strategies by learning curves on the same splits, with confidence bands.

    A recipe is a baseline (random, margin, entropy, least-confident), a goal without labels
    (decision-risk, epig), or goal/operator/utility/selection: dev/average, entropy/min/retrain.
    "decision-risk until 100 then margin" changes at 100 labels. Features of a file are taken as
    they are: scale them before. Without -s: random, margin and decision-risk.

    Examples: `goalward simulate digits -s random -s margin -s dev/spread --seeds 5 --budget 100`,
    `goalward simulate wine -s margin --stopping --price 0.001`
    """
    from goalward.lab import simulate as run
    from goalward.lab import stops, stops_summary
    from goalward.lab.datasets import load
    from goalward.strategies.recipe_names import RECOMMENDED

    recipes = strategy or ["random", "margin", RECOMMENDED]
    data = load(dataset, label=label)
    curves = run(data, recipes, batch=batch, budget=budget, seeds=seeds, out=out, n_jobs=jobs)
    figure = draw(curves, data.name, out)
    summary = curves.summary(tuple(reach or ()))
    ended = None
    if stopping:
        with Spinner() as tick:
            tick("fitting every round again, for the stopping rules")
            ended = stops_summary(stops(curves, data, price=price)).drop("dataset")
        ended.write_csv(out / "stopping.csv")
    if as_json:
        found = {"summary": summary.to_dicts(), "figure": str(figure)}
        typer.echo(json.dumps(found | ({} if ended is None else {"stopping": ended.to_dicts()})))
        return
    show(f"{data.name}: mean of {seeds} seeds", summary)
    show(f"area under the accuracy curve, against {recipes[0]}", curves.differences(recipes[0]))
    if ended is not None:
        show(f"where each rule said stop, at {price:g} a label; means of {seeds} seeds", ended)
    console.print(f"Figure: {figure}   Table: {out / 'curves.parquet'} (and .csv)", soft_wrap=True)


def draw(curves: Curves, title: str, out: Path) -> Path:
    """Draw accuracy and log-loss over labels into a folder and return the picture's path."""
    from goalward.lab.plots import curve_figure
    from goalward.plots import save

    return save(curve_figure(curves, title), out / "curves")[0]

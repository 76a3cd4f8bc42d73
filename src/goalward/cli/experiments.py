"""Commands that run experiments: reproduce, simulate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from goalward.cli.app import AsJson, Jobs, Out, command
from goalward.cli.console import Spinner, console, in_json, show

if TYPE_CHECKING:
    from goalward.lab import Curves


Strategies = Annotated[
    list[str] | None, Option("--strategy", "-s", help="A recipe; repeat for several.")
]


@dataclass(frozen=True)
class ReproduceOptions:
    """What `goalward reproduce` takes."""

    figures: list[str] | None = Argument(
        None,
        help="approx-serial, approx-batch, expred, synth2, letter, rt-polarity, penalties, softened; "
        "all by default.",
    )
    quick: bool = Option(
        False,
        "--quick",
        help="Fewer seeds, rounds and rows: minutes. Too few to test most claims, which is said.",
    )
    out: Out = Path("out/reproduction")
    seeds: int | None = Option(None, min=1, help="Seeds; 10 in a full run, 2 in a quick one.")
    jobs: Jobs = None
    as_json: AsJson = False


@command(ReproduceOptions)
def reproduce(options: ReproduceOptions) -> None:
    """Run the paper: every figure and table, and its claims with verdicts, in one HTML report.

    Data: synth2 is generated; letter and rt-polarity are looked for in the folder named by
    GOALWARD_DATA, in the per-user cache, and fetched otherwise.

    Examples: `goalward reproduce --quick`, `goalward reproduce approx-serial expred --out out/a`
    """
    from goalward.lab.paper import Size
    from goalward.lab.paper import reproduce as run

    seeds, jobs = options.seeds, options.jobs
    size = Size.quick(jobs, seeds or 2) if options.quick else Size.full(seeds or 10, jobs)
    with Spinner() as tick:
        claims, path = run(options.out, options.figures or (), size=size, tick=tick)
    if options.as_json:
        typer.echo((options.out / "claims.json").read_text())
        return
    lines = [{"claim": c.name, "measured": c.measured, "verdict": c.verdict} for c in claims]
    show("Claims of the paper", lines)
    console.print(f"Report: {path}   (figures/, tables/ and claims.json beside it)", soft_wrap=True)


@dataclass(frozen=True)
class SimulateOptions:
    """What `goalward simulate` takes."""

    dataset: str = Argument(
        ...,
        help="synth2, letter, rt-polarity, digits, digits-3v8, breast-cancer, wine, one of KEEL's "
        "(magic, segment, vowel, ...), or a .csv, .parquet or .npz file.",
    )
    strategy: Strategies = None
    seeds: int = Option(5, min=1, help="Paired splits.")
    budget: int = Option(200, min=1, help="Labels bought.")
    batch: int = Option(10, min=1, help="Labels per round.")
    label: str = Option("label", help="Label column of a file.")
    reach: list[float] | None = Option(None, help="Accuracies to count the labels for.")
    out: Out = Path("out/simulation")
    jobs: Jobs = None
    as_json: AsJson = False


@command(SimulateOptions)
def simulate(options: SimulateOptions) -> None:
    """Compare strategies by learning curves on the same splits, with confidence bands.

    A recipe is a baseline (random, margin, entropy, least-confident), a goal without labels
    (decision-risk, epig), or goal/operator/utility/selection: dev/average, entropy/min/retrain.
    "decision-risk until 100 then margin" changes at 100 labels. Features of a file are taken as
    they are: scale them before. Without -s: random, margin and hedged.

    Examples: `goalward simulate digits -s random -s margin -s dev/spread --seeds 5 --budget 100`
    """
    from goalward.lab import simulate as run
    from goalward.lab.datasets import load
    from goalward.strategies.recipes import RECOMMENDED

    recipes = options.strategy or ["random", "margin", RECOMMENDED]
    data = load(options.dataset, label=options.label)
    sizes: Any = {"batch": options.batch, "budget": options.budget, "seeds": options.seeds}
    curves = run(data, recipes, **sizes, out=options.out, n_jobs=options.jobs)
    found = _drawn(curves, options.out, tuple(options.reach or ()))
    if options.as_json:
        typer.echo(in_json(found))
        return
    _show(curves, found, recipes[0], options.out)


def _drawn(curves: Curves, folder: Path, levels: tuple[float, ...] = ()) -> dict[str, Any]:
    """Return the summary, and the picture of accuracy and log-loss over labels, drawn into a folder."""
    from goalward.lab.plots import curve_figure, save

    figure = save(curve_figure(curves, str(curves.table["dataset"][0])), folder / "curves")[0]
    return {"summary": curves.summary(levels).to_dicts(), "figure": str(figure)}


def _show(curves: Curves, found: dict[str, Any], reference: str, folder: Path) -> None:
    title, seeds = curves.table["dataset"][0], curves.table["seed"].n_unique()
    show(f"{title}: mean of {seeds} seeds", found["summary"])
    show(f"area under the accuracy curve, against {reference}", curves.differences(reference))
    where = f"Figure: {found['figure']}   Table: {folder / 'curves.parquet'} (and .csv)"
    console.print(where, soft_wrap=True)

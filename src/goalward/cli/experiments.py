"""Commands that run experiments: reproduce, simulate, replay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from goalward.cli.app import AsJson, Jobs, Out, command
from goalward.cli.console import Spinner, console, in_json, show
from goalward.errors import BadParameter

if TYPE_CHECKING:
    from goalward.lab import Curves

__all__ = ["replay", "reproduce", "simulate"]

Strategies = Annotated[
    list[str] | None, Option("--strategy", "-s", help="A recipe; repeat for several.")
]
BIASED = (
    "The pool of this replay is the rows that the study's own strategy asked for, a biased one: it "
    "lacks what another strategy would have preferred."
)


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

    dataset: str | None = Argument(
        None,
        help="synth2, letter, rt-polarity, digits, digits-3v8, breast-cancer, wine, one of KEEL's "
        "(magic, segment, vowel, ...), or a .csv, .parquet or .npz file.",
    )
    strategy: Strategies = None
    seeds: int = Option(5, min=1, help="Paired splits.")
    budget: int = Option(200, min=1, help="Labels bought.")
    batch: int = Option(10, min=1, help="Labels per round.")
    label: str = Option("label", help="Label column of a file.")
    reach: list[float] | None = Option(None, help="Accuracies to count the labels for.")
    stopping: bool = Option(False, "--stopping", help="Say where stopping rules would have ended.")
    price: float = Option(
        0.0002, help="Of --stopping: what a label must bring, as a share of rows."
    )
    advice: bool = Option(
        False, "--advice", help="Say how true a study's accuracy and its word to stop would be."
    )
    task: str = Option("class", help="Of --advice: class, labels or numbers.")
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

    Examples: `goalward simulate digits -s random -s margin -s dev/spread --seeds 5 --budget 100`,
    `goalward simulate wine -s margin --stopping --price 0.0002`,
    `goalward simulate --advice --seeds 3 --budget 400`,
    `goalward simulate --advice --task numbers --seeds 3 --budget 300`
    """
    if options.advice:
        _advise(options)
        return
    if options.dataset is None:
        raise BadParameter("No dataset came; one was expected: goalward simulate digits, say.")
    from goalward.lab import simulate as run
    from goalward.lab import stops, stops_summary
    from goalward.lab.datasets import load
    from goalward.strategies.recipes import RECOMMENDED

    recipes = options.strategy or ["random", "margin", RECOMMENDED]
    data = load(options.dataset, label=options.label)
    sizes: Any = {"batch": options.batch, "budget": options.budget, "seeds": options.seeds}
    curves = run(data, recipes, **sizes, out=options.out, n_jobs=options.jobs)
    found = _drawn(curves, options.out, tuple(options.reach or ()))
    if options.stopping:
        with Spinner() as tick:
            tick("fitting every round again, for the stopping rules")
            ended = stops_summary(stops(curves, data, price=options.price)).drop("dataset")
        ended.write_csv(options.out / "stopping.csv")
        found["stopping"] = ended.to_dicts()
    if options.as_json:
        typer.echo(in_json(found))
        return
    _show(curves, found, recipes[0], options.out)
    if options.stopping:
        title = f"where each rule said stop, at {options.price:g} a label; means of {options.seeds}"
        show(f"{title} seeds", ended)


def _advise(options: SimulateOptions) -> None:
    """Write trust.csv and trust.md: what studies say beside what is true, with and without dev rows."""
    from goalward.core.whole_file import whole_file
    from goalward.lab.advice import advice, advice_summary, in_markdown

    names = None if options.dataset is None else (options.dataset,)
    sizes: Any = {"seeds": options.seeds, "budget": options.budget, "n_jobs": options.jobs}
    found = advice_summary(advice(names, task=options.task, **sizes, out=options.out))
    with whole_file(options.out / "trust.csv", force=True) as path:
        found.write_csv(path)
    tables = [in_markdown(found, kept=kept) for kept in (True, False)]
    with whole_file(options.out / "trust.md", force=True) as path:
        path.write_text("\n\n".join(tables) + "\n")
    if options.as_json:
        typer.echo(in_json(found.to_dicts()))
        return
    for kept, words in ((True, "a tenth of the answers measures"), (False, "no answer measures")):
        show(f"what studies say, beside the truth: {words}", found.filter(kept=kept).drop("kept"))
    console.print(f"Tables: {options.out / 'trust.csv'} and trust.md beside it", soft_wrap=True)


@dataclass(frozen=True)
class ReplayOptions:
    """What `goalward replay` takes."""

    stored: str = Argument(
        ..., metavar="STUDY", help="labels.db or another study; or the folder of a simulation."
    )
    strategy: Strategies = None
    seeds: int | None = Option(None, min=1, help="Of a study: random starts; 10 by default.")
    batch: int | None = Option(
        None, min=1, help="Of a study: labels per round; its refit by default."
    )
    budget: int | None = Option(None, min=1, help="Of a study: labels bought; all by default.")
    table: Path | None = Option(None, help="Where the study's table is, if it was moved.")
    data: str | None = Option(None, help="Of a simulation of a file: where the file is.")
    label: str = Option("label", help="Label column of --data.")
    out: Path | None = Option(None, help="Folder for results; out/replay, or the simulation's own.")
    jobs: Jobs = None
    as_json: AsJson = False

    def refuse(self, kind: str, *names: str) -> None:
        """Raise where options came that something stored decides."""
        given = [f"--{name}" for name in names if getattr(self, name)]
        if given:
            raise BadParameter(
                f"{', '.join(given)} came with {self.stored}, {kind}, which has its own; none was "
                "expected. Leave it out."
            )


@command(ReplayOptions)
def replay(options: ReplayOptions) -> None:
    """Ask what another strategy would have asked, and how good the model would be then.

    The labelled rows of a study are played again, its own order beside the strategies named. A
    simulation gets more strategies, on the same splits and seeds.

    Examples: `goalward replay labels.db -s random -s margin`,
    `goalward replay out/simulation -s dev/spread`
    """
    from goalward.lab import replay as play
    from goalward.lab import replay_simulation
    from goalward.lab.datasets import load
    from goalward.studio.study import Study

    recipes = options.strategy or ["random", "margin"]
    simulated = Path(options.stored).is_dir()
    if simulated:
        options.refuse("a simulation", "seeds", "batch", "budget", "table", "out")
        folder = Path(options.stored)
        dataset = load(options.data, label=options.label) if options.data is not None else None
        curves = replay_simulation(folder, recipes, dataset=dataset, n_jobs=options.jobs)
    else:
        options.refuse("a study", "data")
        folder = options.out or Path("out/replay")
        with Spinner() as tick:
            tick("opening the study")
            study = Study.open(options.stored, pool=options.table, tick=tick)
        with study:
            sizes: Any = {"batch": options.batch, "budget": options.budget}
            sizes["seeds"] = options.seeds or 10
            curves = play(study, recipes, **sizes, out=folder, n_jobs=options.jobs)
    found = _drawn(curves, folder) | {"biased": not simulated}
    if options.as_json:
        typer.echo(in_json(found))
        return
    _show(curves, found, curves.strategies[0], folder)
    if not simulated:
        console.print(BIASED)


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

"""`goalward rank`: which rows of a file to label next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from goalward.cli.app import AsJson, Force, app, show
from goalward.cli.console import Terminal, console, in_json
from goalward.cli.labelled import labelled
from goalward.errors import BadParameter
from goalward.tables.write import check_target, write_table

__all__ = ["rank"]


@app.command()
def rank(
    pool: Annotated[
        Path, typer.Argument(help="Features: .npy, .parquet, .arrow, .h5, .zarr, or sparse .npz.")
    ],
    labels: Annotated[
        Path, typer.Option(help="A table (.csv, .parquet) with a row and a label for each.")
    ],
    dev: Annotated[
        Path | None, typer.Option(help="The same for dev rows: the goal is then their likelihood.")
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option(
            help="dev, calibrated, accuracy, f1, entropy, fisher, soft-pool, decision-risk, epig or "
            "fisher-ratio; dev if --dev is given, else decision-risk."
        ),
    ] = None,
    operator: Annotated[
        str | None, typer.Option(help="spread (the default), average, min, max, or predicted:T.")
    ] = None,
    utility: Annotated[
        str | None, typer.Option(help="first-order (the default), implicit or retrain.")
    ] = None,
    selection: Annotated[
        str | None,
        typer.Option(
            help="top, sequential, sequential-curvature or stochastic; sequential for "
            "decision-risk, epig and fisher-ratio, else top."
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows to suggest.")] = 10,
    C: Annotated[str, typer.Option("--C", help="Inverse penalty: a number, or cv.")] = "1.0",
    columns: Annotated[
        str | None, typer.Option(help="Feature columns of a table, by commas.")
    ] = None,
    ids: Annotated[str | None, typer.Option(help="Column of ids of a table.")] = None,
    goal_rows: Annotated[
        int,
        typer.Option(
            help="Rows drawn for goals without labels; 0 takes all. decision-risk, epig and "
            "fisher-ratio look at 1,000 of them at most.",
            min=0,
        ),
    ] = 10_000,
    jobs: Annotated[int, typer.Option(min=1, help="Threads.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, tcp://host:8786.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="A GPU: cuda.")] = None,
    seed: Annotated[int, typer.Option(help="Draws goal rows and breaks ties.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write the rows as .csv, .tsv, .jsonl or .parquet.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Say which rows of a file deserve a label next, by one pass over it in bounded memory.

    LABELS and DEV name rows by position, counted from 0, or by --ids: two columns, `row` and
    `label`. Neither is suggested again. Features are taken as they are: scale them before.

    Examples: `goalward rank pool.npy --labels labels.csv --dev dev.csv`,
    `goalward rank pool.parquet --ids id --labels labels.csv --batch 100 --selection sequential`
    """
    from goalward.learners import Logistic
    from goalward.pool import open_pool, take_rows
    from goalward.scale import rank as run
    from goalward.strategies import GoalOriented, recipe
    from goalward.strategies.recipe_names import POSTERIOR, POSTERIOR_PARTS

    if out is not None:
        read = [one for one in (pool, labels, dev) if one is not None]
        check_target(out, force=force, inputs=read)
    source = open_pool(pool, columns=columns.split(",") if columns else None, ids=ids)
    names = source.ids() if hasattr(source, "ids") else None
    at, y = labelled(labels, names, source.shape[0])
    fitted = Logistic(C=_number(C)).fit(take_rows(source, at), y)
    goal = goal or ("dev" if dev is not None else "decision-risk")
    held: tuple[Any, Any] | None = None
    used = at
    if dev is not None:
        dev_at, dev_y = labelled(dev, names, source.shape[0])
        both = np.intersect1d(at, dev_at)
        if len(both):
            raise BadParameter(
                f"{len(both)} rows are in {labels.name} and in {dev.name}, the first at position "
                f"{both[0]}; dev rows that the model was not trained on were expected. Take them out "
                "of one of the two."
            )
        held, used = (take_rows(source, dev_at), dev_y), np.union1d(at, dev_at)
    usual = POSTERIOR_PARTS if goal in POSTERIOR else ("spread", "first-order", "top")
    given = (operator, utility, selection)
    parts = [one or other for one, other in zip(given, usual, strict=True)]
    recipes = recipe("/".join([goal, *parts]))
    if "dev" in recipes.needs and dev is None:
        raise BadParameter(f"--goal {goal} came without --dev FILE, whose rows it is about.")
    subject = _subject(source, goal_rows, seed) if "pool" in recipes.needs else None
    strategy = recipes.build(dev=held, pool=subject, seed=seed)
    assert isinstance(strategy, GoalOriented)
    client = _client(scheduler)
    with _bar() as (bar, task):
        ranking = run(
            source,
            fitted,
            strategy.goal,
            operator=strategy.operator,
            utility=strategy.utility,  # type: ignore[arg-type]
            selection=strategy.selection,
            batch=batch,
            exclude=used if names is None else names[used],
            seed=seed,
            n_jobs=jobs,
            client=client,
            device=device,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    rows = take_rows(source, ranking.positions)
    proba = np.asarray(fitted.predict_proba(rows))
    table = pl.DataFrame(
        {
            "row": ranking.rows.tolist(),
            "utility": ranking.utility.tolist(),
            "predicted": [str(fitted.classes[k]) for k in proba.argmax(axis=1)],
            "probability": proba.max(axis=1).tolist(),
        }
    )
    if out is not None:
        write_table(table, out, force=force)
    speed = {
        "rows": ranking.n_rows,
        "seconds": ranking.seconds,
        "rows_per_second": ranking.n_rows / ranking.seconds,
        "gigabytes_per_second": (ranking.bytes or 0) / ranking.seconds / 1e9,
    }
    if as_json:
        typer.echo(in_json({"rows": table.to_dicts(), "read": speed}))
        return
    show(f"{batch} rows worth a label, by {recipes}", table)
    console.print(
        f"{ranking.n_rows:,} rows in {ranking.seconds:.2f} s: {speed['rows_per_second']:,.0f} rows/s, "
        f"{speed['gigabytes_per_second']:.2f} GB/s. Direction by {ranking.solver.solver}."
        if ranking.solver
        else f"{ranking.n_rows:,} rows in {ranking.seconds:.2f} s.",
        soft_wrap=True,
    )


def _number(C: str) -> float | str:
    try:
        return C if C == "cv" else float(C)
    except ValueError as error:
        raise BadParameter(f"--C {C} came; a number, or cv, was expected.") from error


def _subject(source: Any, count: int, seed: int) -> Any:
    """Return the rows that the entropy and Fisher goals are about."""
    from goalward.pool import take_rows

    total = source.shape[0]
    if count == 0 or count >= total:
        return source
    drawn = np.random.default_rng(seed).choice(total, size=count, replace=False)
    return take_rows(source, np.sort(drawn))


def _client(address: str | None) -> Any:
    if address is None:
        return None
    from goalward.scale.scheduler import connected

    return connected(address)


class _Speed(ProgressColumn):
    """Rows per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} rows/s" if task.speed else "")


@contextmanager
def _bar() -> Iterator[tuple[Progress, TaskID]]:
    """Show how much is read, how fast, and the time that is left."""
    columns = (
        TextColumn("reading"),
        BarColumn(),
        MofNCompleteColumn(),
        _Speed(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Terminal(stderr=True), transient=True) as progress:
        yield progress, progress.add_task("reading", total=None)

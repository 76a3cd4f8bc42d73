"""`goalward rank`: which rows of a file to label next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

import goalward as gw
from goalward.cli.app import Force, Result, command
from goalward.cli.console import Terminal, console, show
from goalward.errors import BadParameter

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from goalward.core.pool import Pool
    from goalward.scale import Ranking
    from goalward.strategies import Recipe


@dataclass(frozen=True)
class RankOptions:
    """Options of `goalward rank`."""

    pool: Path = Argument(..., help="Features: .npy, .parquet, .arrow, or sparse .npz.")
    labels: Path = Option(..., help="A table (.csv, .parquet) with a row and a label for each.")
    dev: Path | None = Option(
        None, help="The same for dev rows: the goal is then their likelihood."
    )
    goal: str | None = Option(
        None,
        help="dev, calibrated, accuracy, f1, entropy, fisher, soft-pool, decision-risk, epig or "
        "fisher-ratio; dev if --dev is given. With no option of the goal: the strategy `hedged`.",
    )
    operator: str | None = Option(
        None, help="spread (the default), average, min, max, or predicted:T."
    )
    utility: str | None = Option(None, help="first-order (the default), implicit or retrain.")
    selection: str | None = Option(
        None,
        help="top, sequential, sequential-curvature or stochastic; sequential for "
        "decision-risk, epig and fisher-ratio, else top.",
    )
    batch: int = Option(10, min=1, help="Rows to suggest.")
    C: str = Option("loo", "--C", help="Inverse penalty: a number, or loo.")
    features: str = Option(
        "auto",
        help="auto (chosen by leave-one-out), linear (columns as they come), splines, landmarks.",
    )
    columns: str | None = Option(None, help="Feature columns of a table, by commas.")
    ids: str | None = Option(None, help="Column of ids of a table.")
    goal_rows: int = Option(
        10_000,
        min=0,
        help="Rows drawn for goals without labels; 0 takes all. decision-risk, epig and "
        "fisher-ratio look at 1,000 of them at most.",
    )
    jobs: int = Option(1, min=1, help="Threads.")
    scheduler: str | None = Option(None, help="Address of a Dask scheduler, tcp://host:8786.")
    device: str | None = Option(None, help="A GPU: cuda.")
    seed: int = Option(0, help="Draws goal rows and breaks ties.")
    out: Path | None = Option(None, help="Write the rows as .csv, .tsv, .xlsx, .jsonl or .parquet.")
    force: Force = False

    def recipe(self) -> Recipe:
        from goalward.strategies.recipes import GOALS, RECOMMENDED

        given = (self.operator, self.utility, self.selection)
        if not any((self.goal, self.dev, *given)):
            return gw.recipe(RECOMMENDED)
        goal = self.goal or ("dev" if self.dev is not None else "decision-risk")
        own = GOALS[goal].utility if goal in GOALS else ""
        usual = ("average", own, "sequential") if own else ("spread", "first-order", "top")
        parts = [part or default for part, default in zip(given, usual, strict=True)]
        recipe = gw.recipe("/".join([goal, *parts]))
        if "dev" in recipe.needs and self.dev is None:
            raise BadParameter(f"--goal {goal} needs --dev FILE, the rows it is about.")
        return recipe


@command()
def rank(options: RankOptions) -> Result:
    """Rank the rows of a file by how much a label would help, by one pass in bounded memory.

    LABELS and DEV have two columns, `row` (a position from 0, or an id with --ids) and `label`.
    Neither is suggested again.

    Examples: `goalward rank pool.npy --labels labels.csv --dev dev.csv`,
    `goalward rank pool.parquet --ids id --labels labels.csv --batch 100 --selection sequential`
    """
    import numpy as np

    from goalward.core.draws import ranked_rows
    from goalward.core.pool import as_pool
    from goalward.core.pool_files import open_pool
    from goalward.studio.tables.cells import check_target, write_table

    if options.out is not None:
        read = [path for path in (options.pool, options.labels, options.dev) if path is not None]
        check_target(options.out, force=options.force, inputs=read)
    columns = options.columns.split(",") if options.columns else None
    pool = as_pool(open_pool(options.pool, columns=columns, ids=options.ids))
    rows, labels = _read_labels(options.labels, pool)
    dev_rows, dev_labels = _read_labels(options.dev, pool) if options.dev else (rows[:0], [])
    shared = np.intersect1d(rows, dev_rows)
    if options.dev and len(shared):
        raise BadParameter(
            f"The model must not be trained on dev rows, got {len(shared)} rows that are in "
            f"{options.labels.name} and in {options.dev.name}, the first at position {shared[0]}. Take "
            "them out of one of the two."
        )
    try:
        C = options.C if options.C == "loo" else float(options.C)
    except ValueError as error:
        raise BadParameter(f"--C must be a number or loo, got {options.C}.") from error
    learner = gw.Logistic(C=C, features=options.features)
    fitted = learner.fit(pool.take(rows), labels, pool=pool.source)
    recipe, goal_rows = options.recipe(), options.goal_rows or len(pool)
    strategy = recipe.build(
        dev=(pool.take(dev_rows), dev_labels) if options.dev else None,
        pool=ranked_rows(pool.source, goal_rows, options.seed) if "pool" in recipe.needs else None,
        seed=options.seed,
    )
    ranking = _ranking(options, pool, fitted, strategy, [*rows, *dev_rows])
    table = _suggested(ranking, pool, fitted)
    if options.out is not None:
        write_table(table, options.out, force=options.force)
    return _result(recipe, ranking, table)


def _read_labels(path: Path, pool: Pool) -> tuple[NDArray[Any], list[Any]]:
    """Return the positions and labels of a table, by the pool's ids where it has them."""
    import numpy as np

    from goalward.studio.tables.cells import label_column, read_labels, rows_meant, short

    table, first = read_labels(path, label="label", key="row")
    ids = pool.ids()
    if ids is None:
        places, expected = None, f"positions from 0 to {len(pool) - 1}"
        remedy = "Correct them; for ids, pass --ids COLUMN."
    else:
        places = {str(name): position for position, name in enumerate(ids.tolist())}
        expected = f"ids of the pool, like {short(next(iter(places), ''))}"
        remedy = "Correct them, or leave those rows out."
    rows = list(rows_meant(table["row"], places, len(pool)))
    wrong = [(line, why) for line, why in enumerate(rows, start=first) if isinstance(why, str)]
    if wrong:
        lines = "; ".join(f"line {line}, {why}" for line, why in wrong[:5])
        raise BadParameter(
            f"Rows must be {expected}, and {len(wrong)} of {path} are not ({lines}"
            f"{'; ...' if len(wrong) > 5 else ''}). {remedy}"
        )
    positions = np.array(rows, dtype=np.int64)
    if len(np.unique(positions)) < len(positions):
        raise BadParameter(f"{path} names a row twice. Keep one of them.")
    return positions, label_column(table["label"])


def _ranking(
    options: RankOptions, pool: Pool, fitted: Any, strategy: Any, used: list[int]
) -> Ranking:
    from rich import progress as bars

    from goalward.scale.cluster import connected

    ids = pool.ids()
    client = connected(options.scheduler) if options.scheduler is not None else None
    columns = (*bars.Progress.get_default_columns(), bars.MofNCompleteColumn())
    with bars.Progress(*columns, console=Terminal(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        return gw.scale.rank(
            pool.source,
            fitted,
            strategy=strategy,
            batch=options.batch,
            exclude=used if ids is None else ids[used],
            n_jobs=options.jobs,
            client=client,
            device=options.device,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def _suggested(ranking: Ranking, pool: Pool, fitted: Any) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    proba = np.empty((0, len(fitted.classes)))
    if len(ranking.rows):
        proba = np.asarray(fitted.predict_proba(pool.take(ranking.positions)))
    return pl.DataFrame(
        {
            "row": ranking.rows.tolist(),
            "utility": ranking.utility.tolist(),
            "predicted": [str(fitted.classes[k]) for k in proba.argmax(axis=1)],
            "probability": proba.max(axis=1, initial=0.0).tolist(),
        }
    )


def _result(recipe: Recipe, ranking: Ranking, table: pl.DataFrame) -> Result:
    rate = 1.0 / ranking.seconds if len(ranking.rows) else 0.0  # no row left: none was read
    speed, volume = ranking.n_rows * rate, (ranking.bytes or 0) * rate / 1e9
    read = {"rows": ranking.n_rows, "seconds": ranking.seconds}
    read |= {"rows_per_second": speed, "gigabytes_per_second": volume}

    def words() -> None:
        show(f"{len(table)} rows worth a label, by {recipe}", table)
        line = f"{ranking.says} {ranking.n_rows:,} rows in {ranking.seconds:.2f} s"
        if ranking.solver:
            line += (
                f": {speed:,.0f} rows/s, {volume:.2f} GB/s. Direction by {ranking.solver.solver}"
            )
        console.print(f"{line}.", soft_wrap=True)

    return words, {"rows": table.to_dicts(), "read": read}

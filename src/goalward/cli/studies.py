"""Commands on a study: ask, tell, status, export, import."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.text import Text

from goalward.cli.app import AsJson, Force, Spinner, app, show
from goalward.cli.console import console, in_json, visible

__all__ = ["ask", "export", "import_labels", "status", "tell"]

LONGEST = 4000
"""Characters of a row that are shown."""
Place = Annotated[
    str, typer.Argument(metavar="STUDY", help="labels.db, or postgresql://user@host/database.")
]
By = Annotated[str, typer.Option(help="Who answers.")]
Pool = Annotated[
    Path | None, typer.Option("--table", help="Where the pool's table is now, if it was moved.")
]


def _row(text: str) -> int:
    from goalward.tables.labels import row_number

    row = row_number(text)
    if row is None:
        raise typer.BadParameter(f"{text!r} is not a row number; one from 0 on was expected.")
    return row


@app.command()
def ask(
    study: Place,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many rows.")] = 1,
    by: By = "me",
    table: Pool = None,
    as_json: AsJson = False,
) -> None:
    """Hand out the rows worth a label next; they are yours until the lease ends.

    Example: `goalward ask labels.db -n 10 --by ann --json`
    """
    from goalward.study import Study

    with Spinner() as tick, Study.open(study, pool=table, tick=tick) as opened:
        tick("ranking")
        rows = [opened.show(row) for row in opened.ask(n, by=by, at_most=True)]
    if as_json:
        typer.echo(in_json(rows))
        return
    for row in rows:
        said = str(row.get("text") or row.get("image") or in_json(row["columns"]))
        number = Text(f"{row['row']} ", "bold")
        console.print(number, visible(said, longest=LONGEST), highlight=False)


@app.command()
def tell(
    study: Place,
    row: Annotated[int, typer.Argument(parser=_row, metavar="ROW", help="The row's number.")],
    label: Annotated[str, typer.Argument(help="One of the classes.")],
    by: By = "me",
    as_json: AsJson = False,
) -> None:
    """Store an answer; the same answer again changes nothing.

    Example: `goalward tell labels.db 17 positive --by ann`
    """
    from goalward.study import Study

    with Study.open(study) as opened:
        named = {str(known): known for known in opened.state.classes}
        seq = opened.tell(row, named.get(label, label), by=by)
        total = len(opened.state.labels)
    if as_json:
        typer.echo(in_json({"row": row, "label": label, "by": by, "seq": seq}))
        return
    console.print(f"Row {row} is {label!r}; {total} labels.", highlight=False)


@app.command()
def status(
    study: Place,
    price: Annotated[
        float | None, typer.Option(help="What a label costs, in nats per row of the goal.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Labels that may be bought, dev labels included.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say where a study stands: labels, what they cost, learning curve, whether to stop.

    Example: `goalward status labels.db --price 0.001 --budget 500`
    """
    from goalward.study import Study
    from goalward.study.advice import written

    with Study.open(study) as opened:
        found = opened.status()
        curve = opened.curve()
        account = opened.account(price)
        advice = opened.stop(price, budget=budget) if price is not None else None
        rules = advice.criteria if advice else opened.criteria(budget=budget)
    if as_json:
        more = {
            "curve": curve,
            "account": account,
            "criteria": written(rules),
            "advice": advice and advice.record(),
        }
        typer.echo(in_json(found | more))
        return
    names = ("rows", "labels", "training", "dev", "skipped", "pending", "disagreements", "events")
    show(f"{found['study']}", pl.DataFrame([{name: found[name] for name in names}]))
    lines = [{"class": str(c["label"]), "labels": c["labels"]} for c in found["classes"]]
    show("labels per class", pl.DataFrame(lines))
    if found["annotators"]:
        said = [{"annotator": k, "rows": v} for k, v in found["annotators"].items()]
        show("annotators", pl.DataFrame(said))
    _account(account)
    if curve:
        columns = ["metric", "accuracy", "log_loss", "goal", "gain"]
        rounds = pl.DataFrame(curve, infer_schema_length=None)[-10:]
        labels = [
            pl.col("labels").alias("training labels"),
            pl.col("dev_labels").alias("dev labels"),
            pl.col("bought").alias("all labels"),
        ]
        show(
            "rounds: what the model was fitted on, and how good it was",
            rounds.select(*labels, *columns),
        )
        table = [
            {
                "rule": one.name,
                "value": one.value,
                "threshold": one.threshold,
                "verdict": one.verdict,
                "looks at": one.says,
                "source": one.source or "-",
            }
            for one in rules
        ]
        show("when to stop: none of these is the best everywhere", pl.DataFrame(table))
    if advice is not None:
        console.print(advice.reason)


def _account(account: dict[str, Any]) -> None:
    names = {"answers": "answers bought", "training": "train the model", "dev": "measure it (dev)"}
    line = {shown: account[name] for name, shown in names.items()}
    if account["price"] is not None:
        line |= {
            "price of one": account["price"],
            "spent": account["spent"],
            "goal rose by": account["gained"],
        }
    show("account: every answer is charged, dev answers too", pl.DataFrame([line]))


@app.command()
def export(
    study: Place,
    path: Annotated[Path, typer.Argument(help=".csv, .tsv, .jsonl or .parquet.")],
    raw: Annotated[
        bool, typer.Option("--raw", help="Leave cells that start like a formula as they are.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--every", help="A line per annotator's answer, not per row.")
    ] = False,
    table: Pool = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the labels, with the table's columns beside them.

    A file that is there is left alone without --force; the study and its table always are.

    Example: `goalward export labels.db labels.csv`
    """
    from goalward.study import Study

    with Spinner() as tick, Study.open(study, pool=table, tick=tick) as opened:
        lines = opened.export(path, raw=raw, every=every, force=force)
    if as_json:
        typer.echo(in_json({"path": str(path), "lines": lines}))
        return
    console.print(f"{lines} lines in {path}", soft_wrap=True, highlight=False)


@app.command("import")
def import_labels(
    study: Place,
    path: Annotated[Path, typer.Argument(help=".csv, .tsv, .jsonl or .parquet.")],
    label: Annotated[str, typer.Option(help="The column of labels.")] = "label",
    key: Annotated[
        str,
        typer.Option(help="The column that says which row: row numbers, or one of the table's."),
    ] = "row",
    by: Annotated[str, typer.Option(help="Whose answers, where no `by` column says.")] = "import",
    table: Pool = None,
    as_json: AsJson = False,
) -> None:
    """Take in labels made elsewhere and report what did not fit.

    Example: `goalward import labels.db old-labels.csv --key id --label sentiment`
    """
    from goalward.study import Study

    with Spinner() as tick, Study.open(study, pool=table, tick=tick) as opened:
        done = opened.import_labels(path, label=label, key=key, by=by)
    if as_json:
        typer.echo(in_json(asdict(done)))
        return
    console.print(str(done), highlight=False)
    if done.refused:
        lines = [{"line": line, "why": why} for line, why in done.refused[:20]]
        show(f"refused, {len(lines)} of {len(done.refused)}", pl.DataFrame(lines))

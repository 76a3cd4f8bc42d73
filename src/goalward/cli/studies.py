"""Commands on a study: ask, tell, status, export, import."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import goalward as gw
from goalward.cli.app import AsJson, Force, app
from goalward.cli.console import Spinner, console, in_json, reply, row_text, show

if TYPE_CHECKING:
    from goalward.studio.advice.snapshot import Criterion

__all__ = ["ask", "export", "import_labels", "status", "tell"]

StudyPlace = Annotated[
    str, Argument(metavar="STUDY", help="labels.db, or postgresql://user@host/database.")
]
TablePath = Annotated[Path, Argument(help=".csv, .tsv, .xlsx, .jsonl or .parquet.")]
By = Annotated[str, Option(help="Who answers.")]
MovedTable = Annotated[
    Path | None, Option("--table", help="Where the pool's table is now, if it was moved.")
]


def _row(text: str) -> int:
    from goalward.studio.tables.cells import row_number

    row = row_number(text)
    if row is None:
        raise typer.BadParameter(f"{text!r} is not a row number; one from 0 on was expected.")
    return row


@app.command()
def ask(
    study: StudyPlace,
    n: int = Option(1, "--n", "-n", min=1, help="How many rows."),
    by: By = "me",
    table: MovedTable = None,
    as_json: AsJson = False,
) -> None:
    """Hand out the rows worth a label next; they are yours until the lease ends.

    Example: `goalward ask labels.db -n 10 --by ann --json`
    """
    from rich.text import Text

    with Spinner() as tick, gw.Study.open(study, pool=table, tick=tick) as opened:
        tick("ranking")
        rows = [opened.show(row) for row in opened.ask(n, by=by, at_most=True)]
    if as_json:
        typer.echo(in_json(rows))
        return
    for row in rows:
        console.print(Text(f"{row['row']} ", "bold"), row_text(row))


@app.command()
def tell(
    study: StudyPlace,
    row: int = Argument(..., parser=_row, metavar="ROW", help="The row's number."),
    label: str = Argument(..., help="One of the classes; labels with commas; a number."),
    by: By = "me",
    as_json: AsJson = False,
) -> None:
    """Store an answer; the same answer again changes nothing.

    Example: `goalward tell labels.db 17 positive --by ann`
    """
    with gw.Study.open(study) as opened:
        seq = opened.tell(
            row, opened.state.settings.answer.read(label, opened.state.classes), by=by
        )
        total = len(opened.state.labels)
    data = {"row": row, "label": label, "by": by, "seq": seq}
    reply(f"Row {row} is {label!r}; {total} labels.", data, as_json=as_json)


@app.command()
def status(
    study: StudyPlace,
    price: float = Option(
        0.0002, help="What an answer must bring, as a share of rows: 0.0002 is 2 points for 100."
    ),
    budget: int | None = Option(
        None, min=1, help="Labels that may be bought, dev labels included."
    ),
    check: bool = Option(
        False, "--check", help="Read every event first; one that is damaged is named."
    ),
    as_json: AsJson = False,
) -> None:
    """Say where a study stands: labels, what they cost, learning curve, whether to stop.

    Example: `goalward status labels.db --price 0.0001 --budget 500`
    """
    from goalward.studio.study.advice import written

    with gw.Study.open(study) as opened:
        if check:
            opened.check()
        report = opened.status()
        curve = opened.curve()
        advice = opened.stop(price, budget=budget)
        account = advice.account
        people = [one.record() for one in opened.reliability()]
        agreed = [pair.record() for pair in opened.agreement()]
    if as_json:
        more = {
            "curve": curve,
            "account": account,
            "criteria": written(advice.criteria),
            "advice": advice.record(),
            "agreement": agreed,
            "reliability": people,
        }
        typer.echo(in_json(report | more))
        return
    _show_counts(report, account)
    for line in (*agreed, *people):
        console.print(line["says"])
    if curve:
        _show_rounds(curve, advice.criteria)
    console.print(advice.reason)
    if report["guesses"]:
        console.print(report["guesses"]["says"])
    console.print(report["headline"], style="bold")


def _show_counts(report: dict[str, Any], account: dict[str, Any]) -> None:
    names = ("rows", "labels", "training", "dev", "skipped", "pending", "disagreements", "events")
    show(report["study"], [{name: report[name] for name in names}])
    lines = [{"class": str(c["label"]), "labels": c["labels"]} for c in report["classes"]]
    show("labels per class", lines)
    if report["annotators"]:
        said = [{"annotator": name, "rows": rows} for name, rows in report["annotators"].items()]
        show("annotators", said)
    titles = {"answers": "answers bought", "training": "train the model", "dev": "measure it (dev)"}
    titles |= {"gained": "goal rose by"}
    line = {title: account[name] for name, title in titles.items()}
    line |= {"spent": report["spent"]} if "spent" in report else {}
    show("account: every answer is charged, dev answers too", [line])


def _show_rounds(curve: list[dict[str, Any]], rules: tuple[Criterion, ...]) -> None:
    titles = {"labels": "training labels", "dev_labels": "dev labels", "bought": "all labels"}
    measures = ("accuracy", "low", "high", "log_loss", "goal", "gain")
    if "measure" in curve[-1]:
        titles |= {"score": curve[-1]["measure"], "low": "low", "high": "high"}
    else:
        titles |= {name: name for name in measures}
    lines = [{title: line[name] for name, title in titles.items()} for line in curve[-10:]]
    show("rounds: what the model was fitted on, and how good it was", lines)
    said = [
        {
            **{"rule": rule.name, "value": rule.value, "threshold": rule.threshold},
            **{"verdict": rule.verdict, "looks at": rule.says, "source": rule.source or "-"},
        }
        for rule in rules
    ]
    show("when to stop: none of these is the best everywhere", said)


@app.command()
def export(
    study: StudyPlace,
    path: TablePath,
    raw: bool = Option(False, "--raw", help="Leave cells that start like a formula as they are."),
    every: bool = Option(False, "--every", help="A line per annotator's answer, not per row."),
    table: MovedTable = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the labels, with the table's columns beside them.

    A file that is there is left alone without --force; the study and its table always are.

    Example: `goalward export labels.db labels.csv`
    """
    with Spinner() as tick, gw.Study.open(study, pool=table, tick=tick) as opened:
        lines = opened.export(path, raw=raw, every=every, force=force)
    reply(f"{lines} lines in {path}", {"path": str(path), "lines": lines}, as_json=as_json)


@app.command("import")
def import_labels(
    study: StudyPlace,
    path: TablePath,
    label: str = Option("label", help="The column of labels."),
    key: str = Option(
        "row", help="The column that says which row: row numbers, or one of the table's."
    ),
    by: str = Option("import", help="Whose answers, where no `by` column says."),
    table: MovedTable = None,
    as_json: AsJson = False,
) -> None:
    """Take in labels made elsewhere and report what did not fit.

    Example: `goalward import labels.db old-labels.csv --key id --label sentiment`
    """
    with Spinner() as tick, gw.Study.open(study, pool=table, tick=tick) as opened:
        done = opened.import_labels(path, label=label, key=key, by=by)
    reply(str(done), asdict(done), as_json=as_json)
    if done.refused and not as_json:
        lines = [{"line": line, "why": why} for line, why in done.refused[:20]]
        show(f"refused, {len(lines)} of {len(done.refused)}", lines)

"""Commands on a study: status, export, import, predict, model, backup, restore."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

import goalward as gw
from goalward.cli.app import AsJson, Force, app
from goalward.cli.console import Spinner, console, in_json, reply, show
from goalward.cli.team import show_log

StudyPlace = Annotated[
    str, Argument(metavar="STUDY", help="labels.db, or postgresql://user@host/database.")
]
TablePath = Annotated[Path, Argument(help=".csv, .tsv, .xlsx, .jsonl or .parquet.")]
MovedTable = Annotated[
    Path | None, Option("--table", help="Where the study's table is now, if it was moved.")
]
Moved = Annotated[Path | None, Option(help="Where the study's own table is now, if it was moved.")]
Raw = Annotated[bool, Option("--raw", help="Leave cells that start like a formula as they are.")]


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
        False, "--check", help="Verify every event first; a damaged one is named."
    ),
    log: bool = Option(False, "--log", help="Show who answered, undid and exported instead."),
    as_json: AsJson = False,
) -> None:
    """Show where a study stands: labels, what they cost, learning curve, whether to stop.

    Examples: `goalward status labels.db --price 0.0001 --budget 500`,
    `goalward status labels.db --log`
    """
    if log:
        show_log(study, as_json=as_json)
        return
    with gw.Study.open(study) as opened:
        if check:
            opened.check()
        report = opened.status()
        curve = opened.curve()
        advice = opened.stop(price, budget=budget)
        reliability = [person.record() for person in opened.reliability()]
        agreement = [pair.record() for pair in opened.agreement()]
    record = advice.record()
    if as_json:
        more = {
            "curve": curve,
            "account": record["account"],
            "criteria": record["criteria"],
            "advice": record,
            "agreement": agreement,
            "reliability": reliability,
        }
        typer.echo(in_json(report | more))
        return
    _show_counts(report, record["account"])
    for line in (*agreement, *reliability):
        console.print(line["says"])
    if curve:
        _show_rounds(curve, record["criteria"])
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
        people = [{"annotator": name, "rows": rows} for name, rows in report["annotators"].items()]
        show("annotators", people)
    titles = {"answers": "answers bought", "training": "train the model", "dev": "measure it (dev)"}
    titles |= {"gained": "goal rose by"}
    line = {title: account[name] for name, title in titles.items()}
    line |= {"spent": report["spent"]} if "spent" in report else {}
    show("account: every answer is charged, dev answers too", [line])


def _show_rounds(curve: list[dict[str, Any]], rules: list[dict[str, Any]]) -> None:
    titles = {"labels": "training labels", "dev_labels": "dev labels", "bought": "all labels"}
    measures = ("accuracy", "low", "high", "log_loss", "goal", "gain")
    if "measure" in curve[-1]:
        titles |= {"score": curve[-1]["measure"], "low": "low", "high": "high"}
    else:
        titles |= {name: name for name in measures}
    lines = [{title: line[name] for name, title in titles.items()} for line in curve[-10:]]
    show("rounds: what the model was fitted on, and how good it was", lines)
    columns = {"name": "rule", "value": "value", "threshold": "threshold", "verdict": "verdict"}
    columns |= {"says": "looks at", "source": "source"}
    show(
        "when to stop",
        [
            {title: rule[n] or "-" if n == "source" else rule[n] for n, title in columns.items()}
            for rule in rules
        ],
    )


@app.command()
def export(
    study: StudyPlace,
    path: TablePath,
    raw: Raw = False,
    every: bool = Option(False, "--every", help="A line per annotator's answer, not per row."),
    table: MovedTable = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the labels, with the table's columns beside them.

    An existing file is replaced only with --force; the study and its table never are.

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
    """Import labels made elsewhere and report what did not fit.

    Example: `goalward import labels.db old-labels.csv --key id --label sentiment`
    """
    with Spinner() as tick, gw.Study.open(study, pool=table, tick=tick) as opened:
        done = opened.import_labels(path, label=label, key=key, by=by)
    reply(str(done), asdict(done), as_json=as_json)
    if done.refused and not as_json:
        lines = [{"line": line, "why": why} for line, why in done.refused[:20]]
        show(f"refused, {len(lines)} of {len(done.refused)}", lines)


@app.command()
def predict(
    study: StudyPlace,
    out: Path = Argument(..., help="The table to write: .csv, .tsv, .xlsx, .jsonl or .parquet."),
    table: Path | None = Option(None, help="A new table, like the study's; its own by default."),
    raw: Raw = False,
    moved: Moved = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write every row with its label, by the model or by the person who answered it.

    Beside the table's own columns stand label, probability, whether a person answered, and whether
    to look at the row: the least certain 5 %, 200 at most.

    Example: `goalward predict labels.db out.csv --table new.csv`
    """
    with Spinner() as tick, gw.Study.open(study, pool=moved, tick=tick) as opened:
        tick("predicting")
        rows = opened.write_predictions(out, table, raw=raw, force=force)
        accuracy = opened.status()["accuracy"]
    words = f"{rows} rows in {out}." + (f" {accuracy['says']}" if accuracy else "")
    reply(words, {"path": str(out), "rows": rows, "accuracy": accuracy}, as_json=as_json)


@app.command()
def model(
    study: StudyPlace,
    folder: Path = Argument(..., help="The folder to write."),
    moved: Moved = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the model of a study, with its encoder, to a folder.

    It holds a description and arrays, and no code: `gw.load_model(folder).predict(texts)` reads it.

    Example: `goalward model labels.db reviews.model`
    """
    with Spinner() as tick, gw.Study.open(study, pool=moved, tick=tick) as opened:
        tick("writing the model")
        opened.save_model(folder, force=force)
        labels = len(opened.state.labels)
    words = f"The model of {labels} answers is in {folder}: gw.load_model({str(folder)!r})"
    reply(words, {"folder": str(folder), "labels": labels}, as_json=as_json)


@app.command()
def backup(
    study: StudyPlace,
    path: Path = Argument(..., help="The file to write: labels.backup.db, say."),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write all of a study to a file while others work; the copy is verified first.

    The file is itself a study: open it, or put it back with `goalward restore`. A table that the
    study points to is not in it: keep that too.

    Example: `goalward backup labels.db labels.backup.db`
    """
    with Spinner() as tick, gw.Study.open(study) as opened:
        tick("copying")
        events = opened.backup(path, force=force)
        labels = len(opened.state.labels)
    data = {"path": str(path), "events": events, "labels": labels}
    reply(f"{events} events, {labels} labels in {path}, checked.", data, as_json=as_json)


@app.command()
def restore(
    source: Annotated[
        Path, Argument(metavar="BACKUP", help="What `goalward backup` wrote; or a damaged study.")
    ],
    study: StudyPlace,
    force: bool = Option(
        False, "--force", help="Replace a study that is there; it is kept beside the new one."
    ),
    recover: bool = Option(
        False, "--recover", help="Save what verifies of a damaged study to a new one, or a .csv."
    ),
    as_json: AsJson = False,
) -> None:
    """Put a backup to a place: a file, or an empty PostgreSQL database.

    With --recover every event of a damaged study that verifies is saved, and what was lost is shown;
    the damaged study is only read. Where not even a study can be made, name a .csv for its answers.

    Examples: `goalward restore labels.backup.db labels.db`,
    `goalward restore --recover labels.db rescued.db`
    """
    from goalward.studio.study import copies

    if recover:
        _recover(source, study, as_json=as_json)
        return
    with Spinner() as tick:
        tick("copying")
        events, aside = copies.restore(source, study, force=force)
    words = f"{events} events are back in {study}, checked."
    if aside is not None:
        words += f"\nWhat was there is kept as {aside}."
    reply(words, {"events": events, "aside": aside and str(aside)}, as_json=as_json)


def _recover(damaged: Path, place: str, *, as_json: bool) -> None:
    from goalward.studio.study import copies
    from goalward.studio.tables.cells import WRITTEN

    as_table = Path(place).suffix.lower() in WRITTEN
    with Spinner() as tick:
        tick("reading")
        saved = (copies.recover_answers if as_table else copies.recover)(damaged, place)
    whole = len(saved.events) - len(saved.lost)
    words = f"{whole} of {len(saved.events)} events are in {place}."
    reply(words, {"path": place, "whole": whole, "lost": saved.lost}, as_json=as_json)
    if saved.lost and not as_json:
        lost = [{"event": seq, "what can be read of it": text} for seq, text in saved.lost[:20]]
        show(f"lost, {len(lost)} of {len(saved.lost)}", lost)

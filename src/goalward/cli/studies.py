"""Commands on a study: status, export, import, predict, model, backup, restore."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import goalward as gw
from goalward.cli.app import Force, Result, command
from goalward.cli.console import console, show, spinner
from goalward.cli.team import written

StudyPlace = Annotated[
    str, Argument(metavar="STUDY", help="labels.db, or postgresql://user@host/database.")
]
TablePath = Annotated[Path, Argument(help=".csv, .tsv, .xlsx, .jsonl or .parquet.")]
MovedTable = Annotated[
    Path | None, Option("--table", help="Where the study's table is now, if it was moved.")
]
Moved = Annotated[Path | None, Option(help="Where the study's own table is now, if it was moved.")]
Raw = Annotated[bool, Option("--raw", help="Leave cells that start like a formula as they are.")]


@command()
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
    log: bool = Option(False, "--log", help="Show who did what and when instead; of a team too."),
) -> Result:
    """Show the progress of a study: labels, their cost, learning curve, whether to stop.

    Examples: `goalward status labels.db --price 0.0001 --budget 500`,
    `goalward status labels.db --log`
    """
    if log:
        return _event_log(study)
    with gw.Study.open(study) as opened:
        if check:
            opened.check()
        report = opened.status() | {"curve": opened.curve()}
        advice = opened.stop(price, budget=budget).record()
        report |= {"account": advice["account"], "criteria": advice["criteria"], "advice": advice}
        report["agreement"] = [pair.record() for pair in opened.agreement()]
        report["reliability"] = [person.record() for person in opened.reliability()]
    return partial(_show_status, report), report


def _event_log(place: str) -> Result:
    """Return who did what and when; people see the last 50 events."""
    from goalward.studio.store import Store

    lines: list[dict[str, Any]] = []
    with closing(Store.open(place)) as store:
        for recorded in store.read():
            kind, values = type(recorded.event).__name__.lower(), dict(vars(recorded.event))
            if kind not in ("asked", "ranked", "created"):
                values.pop("secret", None)
                at = datetime.fromtimestamp(values.pop("at"), UTC).isoformat(timespec="seconds")
                who = values.get("by") or values.get("name") or ""
                lines.append({"event": recorded.seq, "at": at, "what": kind, "who": who})
                lines[-1]["said"] = values
    last = [{**line, "said": written(line["said"])} for line in lines[-50:]]
    return lambda: show(place, last), lines


def _show_status(report: dict[str, Any]) -> None:
    """Print what matters first, then the counts, the rounds and the rules."""
    for line in dict.fromkeys((report["headline"], report["advice"]["reason"])):
        console.print(line, style="bold", soft_wrap=True)
    console.print(_counts(report), soft_wrap=True)
    for line in (*report["agreement"], *report["reliability"]):
        console.print(line["says"], soft_wrap=True)
    if report["guesses"]:
        console.print(report["guesses"]["says"], soft_wrap=True)
    if len(report["annotators"]) > 1:
        who = [{"annotator": name, "rows": rows} for name, rows in report["annotators"].items()]
        show("annotators", who)
    if report["curve"]:
        _show_rounds(report["curve"], report["criteria"])


def _counts(report: dict[str, Any]) -> str:
    """Return in a sentence how many rows have an answer, of which class, and what they cost."""
    classes = [f"{line['label']} {line['labels']:,}" for line in report["classes"]]
    each = f" ({', '.join(classes)})" if 0 < len(classes) <= 20 else ""
    others = [f"{report[name]:,} {name}" for name in ("skipped", "pending") if report[name]]
    more = report["answers"] != report["labels"]
    others += [f"{report['answers']:,} answers in all"] if more else []
    others += [f"{report['spent']:g} spent"] if "spent" in report else []
    return (
        f"{report['labels']:,} of {report['rows']:,} rows have an answer{each}: {report['training']:,} train "
        f"the model, {report['dev']:,} measure it{''.join(f'; {other}' for other in others)}."
    )


def _show_rounds(curve: list[dict[str, Any]], rules: list[dict[str, Any]]) -> None:
    if "measure" in curve[-1]:
        titles = {"bought": "answers", "score": curve[-1]["measure"], "low": "low", "high": "high"}
    else:
        titles = {"bought": "answers", "accuracy": "accuracy", "low": "low", "high": "high"}
        titles |= {"log_loss": "log loss", "goal": "goal"}
    lines = [
        {title: _rounded(line[name]) for name, title in titles.items()} for line in curve[-10:]
    ]
    show("the last rounds: how good the model was", lines)
    lines = [
        {"stopping rule": rule["name"], "value": _rounded(rule["value"])}
        | {"threshold": rule["threshold"], "verdict": rule["verdict"]}
        for rule in rules
    ]
    show("when to stop", lines)


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


@command()
def export(
    study: StudyPlace,
    path: TablePath,
    raw: Raw = False,
    every: bool = Option(False, "--every", help="A line per annotator's answer, not per row."),
    table: MovedTable = None,
    force: Force = False,
) -> Result:
    """Write the labels, with the table's columns beside them.

    An existing file is replaced only with --force; the study and its table never are.

    Example: `goalward export labels.db labels.csv`
    """
    with spinner() as tick, gw.Study.open(study, pool=table, tick=tick) as opened:
        lines = opened.export(path, raw=raw, every=every, force=force)
    return f"{lines} lines in {path}", {"path": str(path), "lines": lines}


@command("import")
def import_labels(
    study: StudyPlace,
    path: TablePath,
    label: str = Option("label", help="The column of labels."),
    key: str = Option(
        "row", help="The column that says which row: row numbers, or one of the table's."
    ),
    by: str = Option("import", help="Whose answers, where no `by` column says."),
    table: MovedTable = None,
) -> Result:
    """Import labels made elsewhere and report those that were refused.

    Example: `goalward import labels.db old-labels.csv --key id --label sentiment`
    """
    with spinner() as tick, gw.Study.open(study, pool=table, tick=tick) as opened:
        done = opened.import_labels(path, label=label, key=key, by=by)
    refused = [{"line": line, "why": why} for line, why in done.refused]
    return partial(_show_all_but, str(done), "refused", refused), asdict(done)


def _show_all_but(words: str, what: str, lines: list[dict[str, Any]]) -> None:
    console.print(words, soft_wrap=True)
    if lines:
        show(f"{what}, {len(lines[:20])} of {len(lines)}", lines[:20])


@command()
def predict(
    study: StudyPlace,
    out: Path = Argument(..., help="The table to write: .csv, .tsv, .xlsx, .jsonl or .parquet."),
    table: Path | None = Option(None, help="A new table, like the study's; its own by default."),
    raw: Raw = False,
    moved: Moved = None,
    force: Force = False,
) -> Result:
    """Write every row with its label, by the model or by the person who answered it.

    Columns are added for label, probability, whether a person answered, and whether to review the
    row: the least certain 5 %, 200 at most.

    Example: `goalward predict labels.db out.csv --table new.csv`
    """
    with spinner() as tick, gw.Study.open(study, pool=moved, tick=tick) as opened:
        tick("predicting")
        rows = opened.write_predictions(out, table, raw=raw, force=force)
        accuracy = opened.status()["accuracy"]
    words = f"{rows} rows in {out}." + (f" {accuracy['says']}" if accuracy else "")
    return words, {"path": str(out), "rows": rows, "accuracy": accuracy}


@command()
def model(
    study: StudyPlace,
    folder: Path = Argument(..., help="The folder to write."),
    moved: Moved = None,
    force: Force = False,
) -> Result:
    """Write the model of a study, with its encoder, to a folder.

    It holds a description and arrays, and no code: `gw.load_model(folder).predict(texts)` reads it.

    Example: `goalward model labels.db reviews.model`
    """
    with spinner() as tick, gw.Study.open(study, pool=moved, tick=tick) as opened:
        tick("writing the model")
        opened.save_model(folder, force=force)
        labels = len(opened.state.labels)
    words = f"The model of {labels} answers is in {folder}: gw.load_model({str(folder)!r})"
    return words, {"folder": str(folder), "labels": labels}


@command()
def backup(
    study: StudyPlace,
    path: Path = Argument(..., help="The file to write: labels.backup.db, say."),
    force: Force = False,
) -> Result:
    """Write all of a study to a file while others work; the copy is verified first.

    The file is itself a study; a table that the study points to is not in it.

    Example: `goalward backup labels.db labels.backup.db`
    """
    with spinner("copying"), gw.Study.open(study) as opened:
        events = opened.backup(path, force=force)
        labels = len(opened.state.labels)
    words = f"{events} events, {labels} labels in {path}, checked."
    return words, {"path": str(path), "events": events, "labels": labels}


@command()
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
) -> Result:
    """Restore a backup to a file or an empty PostgreSQL database.

    With --recover every event of a damaged study that verifies is saved, and losses are shown. Where no
    study can be made, name a .csv for its answers.

    Examples: `goalward restore labels.backup.db labels.db`,
    `goalward restore --recover labels.db rescued.db`
    """
    from goalward.studio.study import copies
    from goalward.studio.tables.cells import WRITTEN

    with spinner("copying"):
        if not recover:
            events, aside = copies.restore(source, study, force=force)
            kept = "" if aside is None else f"\nWhat was there is kept as {aside}."
            words = f"{events} events are back in {study}, checked.{kept}"
            return words, {"events": events, "aside": aside and str(aside)}
        as_table = Path(study).suffix.lower() in WRITTEN
        saved = (copies.recover_answers if as_table else copies.recover)(source, study)
    whole = len(saved.events) - len(saved.lost)
    lost = [{"event": seq, "what can be read of it": text} for seq, text in saved.lost]
    words = f"{whole} of {len(saved.events)} events are in {study}."
    data = {"path": study, "whole": whole, "lost": saved.lost}
    return partial(_show_all_but, words, "lost", lost), data

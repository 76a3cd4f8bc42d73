"""Commands that give a study's model away: its predictions, and itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import goalward as gw
from goalward.cli.app import AsJson, Force, app
from goalward.cli.console import Spinner, reply
from goalward.cli.studies import StudyPlace

__all__ = ["model", "predict"]

Moved = Annotated[Path | None, Option(help="Where the study's own table is now, if it was moved.")]


@app.command()
def predict(
    study: StudyPlace,
    out: Path = Argument(..., help="The table to write: .csv, .tsv, .xlsx, .jsonl or .parquet."),
    table: Path | None = Option(None, help="A new table, like the study's; its own by default."),
    raw: bool = Option(False, "--raw", help="Leave cells that start like a formula as they are."),
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
        said = opened.status()["accuracy"]
    words = f"{rows} rows in {out}." + (f" {said['says']}" if said else "")
    reply(words, {"path": str(out), "rows": rows, "accuracy": said}, as_json=as_json)


@app.command()
def model(
    study: StudyPlace,
    folder: Path = Argument(..., help="The folder to write."),
    moved: Moved = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the model of a study, with what makes numbers of its rows, to a folder.

    It holds a description and arrays, and no code: `gw.load_model(folder).predict(texts)` reads it.

    Example: `goalward model labels.db reviews.model`
    """
    with Spinner() as tick, gw.Study.open(study, pool=moved, tick=tick) as opened:
        tick("writing the model")
        opened.save_model(folder, force=force)
        labels = len(opened.state.labels)
    words = f"The model of {labels} answers is in {folder}: gw.load_model({str(folder)!r})"
    reply(words, {"folder": str(folder), "labels": labels}, as_json=as_json)

"""`goalward label`: a table, a person, and the rows worth an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goalward.cli.app import Spinner, app
from goalward.cli.terminal import answer
from goalward.errors import BadParameter

__all__ = ["label"]


@app.command()
def label(
    table: Annotated[Path, typer.Argument(help=".csv, .tsv, .jsonl or .parquet.")],
    text: Annotated[str | None, typer.Option(help="The column to read.")] = None,
    image: Annotated[str | None, typer.Option(help="The column with paths of pictures.")] = None,
    numeric: Annotated[
        str | None, typer.Option(help="Columns of numbers, with commas; the model's features.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="The answers, with commas; needed for a new study.")
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="Where answers go; TABLE.labels.db by default.")
    ] = None,
    dev: Annotated[
        str, typer.Option(help="Share of answers that measure the model: 20% or 0.2.")
    ] = "0",
    by: Annotated[str, typer.Option(help="Your name.")] = "me",
    strategy: Annotated[str, typer.Option(help="A recipe, or auto.")] = "auto",
    embeddings: Annotated[
        str, typer.Option(help="auto, tfidf, minilm, a .npy file, or an encoder's folder.")
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Decides everything random.")] = 0,
    terminal: Annotated[bool, typer.Option("--terminal", help="Answer here.")] = False,
) -> None:
    """Label a table: the rows whose answers help most come first, and every answer is kept.

    The study is made on the first call and gone on with on the next ones.

    Example: `goalward label reviews.csv --text text --classes positive,negative --dev 20% --terminal`
    """
    from goalward.study import Study
    from goalward.tables import Table

    place = study or str(table.with_suffix(".labels.db"))
    with Spinner() as tick:
        tick("opening the study")
        if _exists(place):
            opened = Study.open(place, pool=Table(str(table)), tick=tick)
        else:
            if classes is None:
                raise BadParameter(
                    "A new study was asked for without classes; at least two were expected. Write "
                    "--classes positive,negative."
                )
            source = Table(
                str(table), text, image, tuple(_names(numeric)) if numeric else (), embeddings
            )
            opened = Study.create(
                place,
                pool=source,
                classes=_names(classes),
                dev=share(dev),
                strategy=strategy,
                seed=seed,
                tick=tick,
            )
    with opened:
        if not terminal:
            raise BadParameter(
                f"The study {opened.url} is ready; --terminal was expected to answer in this "
                "terminal. Run the command again with it."
            )
        answer(opened, by)


def share(text: str) -> float:
    """Return 0.2 for "20%" and for "0.2"."""
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError as error:
        raise BadParameter(f"--dev {text}; a share such as 20% or 0.2 was expected.") from error


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _exists(place: str) -> bool:
    from goalward.errors import NotAStudy
    from goalward.journal.engine import file_of, located
    from goalward.journal.store import Store

    path = file_of(located(place))
    if path is not None:
        return path.exists() and path.stat().st_size > 0
    try:
        Store.open(place).close()
    except NotAStudy:
        return False
    return True

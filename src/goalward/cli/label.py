"""`goalward label`: a table, a person, and the rows worth an answer."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalward.cli.app import Spinner, app
from goalward.cli.terminal import answer
from goalward.errors import BadParameter, MissingExtra

if TYPE_CHECKING:
    from goalward.study import Study

__all__ = ["exists", "label", "names_in", "need_web", "share"]


@app.command()
def label(
    table: Annotated[Path | None, typer.Argument(help=".csv, .tsv, .jsonl or .parquet.")] = None,
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
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Answer here instead of in a browser.")
    ] = False,
    sample: Annotated[
        bool, typer.Option("--sample", help="Try it on a small set that comes along.")
    ] = False,
    images: Annotated[
        Path | None, typer.Option(help="Folder with the pictures; the table's by default.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 needs --token.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="8321, or a free one, by default.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="GOALWARD_TOKEN", help="For programs and other machines; random by default."
        ),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="A host name the page is reached by; repeatable.")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
) -> None:
    """Label a table: the rows whose answers help most come first, and every answer is kept.

    A page opens in the browser (`pip install goalward[web]`), or the rows are shown here with
    --terminal. The study is made on the first call and gone on with on the next ones.

    Examples: `goalward label reviews.csv --text text --classes positive,negative --dev 20%`,
    `goalward label --sample`
    """
    if not terminal:
        need_web()

    from goalward.study import Study
    from goalward.tables import Table

    if sample and table is None:
        from goalward.samples import CLASSES, write_sample

        table, text, dev = write_sample(Path("out/sample")), "text", "20%"
        classes = classes or ",".join(CLASSES)
    if table is None:
        raise BadParameter("No table came; one was expected: reviews.csv, say, or --sample.")
    place = study or str(table.with_suffix(".labels.db"))
    with Spinner() as tick:
        tick("opening the study")
        if exists(place):
            opened = Study.open(place, pool=Table(str(table)), tick=tick)
            _check_agreement(opened, place, classes, dev, strategy)
        else:
            if classes is None:
                raise BadParameter(
                    "A new study was asked for without classes; at least two were expected. Write "
                    "--classes positive,negative."
                )
            source = Table(
                str(table), text, image, tuple(names_in(numeric)) if numeric else (), embeddings
            )
            opened = Study.create(
                place,
                pool=source,
                classes=names_in(classes),
                dev=share(dev),
                strategy=strategy,
                seed=seed,
                tick=tick,
            )
    with opened:
        if terminal:
            answer(opened, by)
            return
        with Spinner() as tick:
            tick("loading the rows")
            opened.pool  # noqa: B018 - before the page opens, not with its first answer
        from goalward.server import serve

        serve(
            opened,
            by=by,
            host=host,
            port=port,
            token=token,
            names=name or (),
            images=images,
            browser=browser,
            say=typer.echo,
        )


def _check_agreement(
    opened: Study, place: str, classes: str | None, dev: str, strategy: str
) -> None:
    """Raise if a study that is gone on with was made with other options than came now."""
    settings = opened.state.settings
    known = [str(name) for name in opened.state.classes]
    came = {
        "--classes": (classes and sorted(names_in(classes)), sorted(known)),
        "--dev": (share(dev) or None, settings.dev),
        "--strategy": (strategy if strategy != "auto" else None, settings.strategy),
    }
    for option, (asked, stored) in came.items():
        if asked and asked != stored:
            said = ", ".join(stored) if isinstance(stored, list) else stored
            opened.close()
            raise BadParameter(
                f"{place} was made with {option} {said}, and another came; what a study was made with "
                f"stays. Leave {option} out, or begin another study with --study other.db."
            )


def need_web() -> None:
    """Say what to install where the page's packages are missing."""
    for package in ("fastapi", "jinja2", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtra(
                f"The labelling page needs {package}, which is not installed. Run `pip install "
                "goalward[web]`, or answer here with --terminal."
            )


def share(text: str) -> float:
    """Return 0.2 for "20%" and for "0.2"."""
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError as error:
        raise BadParameter(f"--dev {text}; a share such as 20% or 0.2 was expected.") from error


def names_in(text: str) -> list[str]:
    """Return what stands between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def exists(place: str) -> bool:
    """Return whether there is a study at a path or in a database."""
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

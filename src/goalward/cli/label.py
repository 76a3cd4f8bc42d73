"""`goalward label`: a table, a person, and the rows worth an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument, Option

from goalward.cli.app import command
from goalward.cli.console import Spinner
from goalward.cli.terminal import answer
from goalward.errors import BadParameter, MissingExtra

if TYPE_CHECKING:
    from goalward.study import Study

__all__ = ["LabelOptions", "exists", "label", "names_in", "need_web", "share"]

NUMERIC = Option(None, help="Columns of numbers, with commas; the model's features.")
EMBEDDINGS = Option("auto", help="auto, tfidf, minilm, a .npy file, or an encoder's folder.")
STRATEGY = Option("auto", help="A recipe, or auto.")
SEED = Option(0, min=0, help="Decides everything random.")


@dataclass(frozen=True)
class LabelOptions:
    """What `goalward label` takes."""

    table: Path | None = Argument(None, help=".csv, .tsv, .jsonl or .parquet.")
    text: str | None = Option(None, help="The column to read.")
    image: str | None = Option(None, help="The column with paths of pictures.")
    numeric: str | None = NUMERIC
    classes: str | None = Option(None, help="The answers, with commas; needed for a new study.")
    study: str | None = Option(None, help="Where answers go; TABLE.labels.db by default.")
    dev: str = Option("0", help="Share of answers that measure the model: 20% or 0.2.")
    by: str = Option("me", help="Your name.")
    strategy: str = STRATEGY
    embeddings: str = EMBEDDINGS
    seed: int = SEED
    terminal: bool = Option(False, "--terminal", help="Answer here instead of in a browser.")
    sample: bool = Option(False, "--sample", help="Try it on a small set that comes along.")
    images: Path | None = Option(None, help="Folder with the pictures; the table's by default.")
    host: str = Option("127.0.0.1", help="Address to listen on; 0.0.0.0 needs --token.")
    port: int | None = Option(None, min=0, max=65535, help="8321, or a free one, by default.")
    token: str | None = Option(
        None, envvar="GOALWARD_TOKEN", help="For programs and other machines; random by default."
    )
    name: list[str] | None = Option(None, help="A host name the page is reached by; repeatable.")
    browser: bool = Option(True, "--browser/--no-browser", help="Open the page in the browser.")


@command(LabelOptions)
def label(options: LabelOptions) -> None:
    """Label a table: the rows whose answers help most come first, and every answer is kept.

    A page opens in the browser (`pip install goalward[web]`), or the rows are shown here with
    --terminal. The study is made on the first call and gone on with on the next ones.

    Examples: `goalward label reviews.csv --text text --classes positive,negative --dev 20%`,
    `goalward label --sample`
    """
    if not options.terminal:
        need_web()
    with _opened(_with_sample(options)) as study:
        if options.terminal:
            answer(study, options.by)
            return
        with Spinner() as tick:
            tick("loading the rows")
            study.pool  # noqa: B018 - before the page opens, not with its first answer
        from goalward.server import serve

        serve(
            study,
            by=options.by,
            host=options.host,
            port=options.port,
            token=options.token,
            names=options.name or (),
            images=options.images,
            browser=options.browser,
        )


def _with_sample(options: LabelOptions) -> LabelOptions:
    if options.table is not None or not options.sample:
        return options
    from goalward.samples import CLASSES, write_sample

    table, classes = write_sample(Path("out/sample")), options.classes or ",".join(CLASSES)
    return replace(options, table=table, text="text", dev="20%", classes=classes)


def _opened(options: LabelOptions) -> Study:
    """Return the study of a table, made where there is none."""
    from goalward.study import Study
    from goalward.tables import Table

    if options.table is None:
        raise BadParameter("No table came; one was expected: reviews.csv, say, or --sample.")
    place = options.study or str(options.table.with_suffix(".labels.db"))
    with Spinner() as tick:
        tick("opening the study")
        if exists(place):
            study = Study.open(place, pool=Table(str(options.table)), tick=tick)
            _check_agreement(study, place, options)
            return study
        if options.classes is None:
            raise BadParameter(
                "A new study was asked for without classes; at least two were expected. Write "
                "--classes positive,negative."
            )
        numbers = tuple(names_in(options.numeric))
        return Study.create(
            place,
            pool=Table(
                str(options.table), options.text, options.image, numbers, options.embeddings
            ),
            classes=names_in(options.classes),
            dev=share(options.dev),
            strategy=options.strategy,
            seed=options.seed,
            tick=tick,
        )


def _check_agreement(study: Study, place: str, options: LabelOptions) -> None:
    """Raise if a study that is gone on with was made with other options than came now."""
    settings = study.state.settings
    classes = sorted(str(name) for name in study.state.classes)
    strategy = options.strategy if options.strategy != "auto" else None
    pairs = {
        "--classes": (sorted(names_in(options.classes)), classes),
        "--dev": (share(options.dev), settings.dev),
        "--strategy": (strategy, settings.strategy),
    }
    for option, (asked, stored) in pairs.items():
        if asked and asked != stored:
            said = ", ".join(stored) if isinstance(stored, list) else stored
            study.close()
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


def names_in(text: str | None) -> list[str]:
    """Return what stands between commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


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

"""`goalward label`: a table, a person, and the rows worth an answer."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

from typer import Option

import goalward as gw
from goalward.cli.app import command
from goalward.cli.asking import ask_here
from goalward.cli.console import Spinner
from goalward.cli.making import MakingOptions, exists, opened, place_of, tell_findings
from goalward.cli.serving import ServingOptions

__all__ = ["LabelOptions", "label"]


@dataclass(frozen=True)
class LabelOptions(ServingOptions, MakingOptions):
    """What `goalward label` takes."""

    by: str = Option("me", help="Your name.")
    terminal: bool = Option(False, "--terminal", help="Answer here instead of in a browser.")
    sample: bool = Option(False, "--sample", help="Try it on a small set that comes along.")
    images: Path | None = Option(None, help="Folder with the pictures; the table's by default.")
    guess: bool | None = Option(
        None, "--guess/--no-guess", help="Show guesses, or the model's; people tend to agree."
    )


@command(LabelOptions)
def label(options: LabelOptions) -> None:
    """Label a table: the rows whose answers help most come first, and every answer is kept.

    A page opens in the browser (`pip install goalward[web]`), or the rows are shown here with
    --terminal. The study is made on the first call and gone on with on the next ones. Without a
    table, or without classes, the page asks for them.

    Examples: `goalward label`, `goalward label --sample`,
    `goalward label reviews.csv --text text --classes positive,negative --dev 20%`
    """
    if options.terminal:
        with _study(options) as study:
            tell_findings(study)
            ask_here(study, options.by)
        return
    # Before a study is made: what the page needs may be missing.
    from goalward.studio.server import serve
    from goalward.studio.server.served_study import Shown

    def page(study: gw.Study | Path | None) -> None:
        shown = Shown(by=options.by, images=options.images, guess=options.guess)
        serve(study, **options.served, **shown)

    if _begins_on_the_page(options):
        page(options.table)
        return
    with _study(options) as study:
        with Spinner() as tick:
            tick("loading the rows")
            study.pool  # noqa: B018 - before the page opens, not with its first answer
        tell_findings(study)
        page(study)


def _begins_on_the_page(options: LabelOptions) -> bool:
    """Return whether a person is to say on the page what the study is made of."""
    said = (one.name for one in fields(MakingOptions) if one.name != "table")
    if options.sample or any(
        getattr(options, name) != getattr(LabelOptions, name).default for name in said
    ):
        return False
    table = options.table
    # A table that is not there is said here, as one that cannot be read is.
    return table is None or (table.exists() and not exists(str(place_of(table))))


def _study(options: LabelOptions) -> gw.Study:
    """Return the study of a table, or of the sample."""
    if options.table is None and options.sample:
        from goalward.studio.tables.sample import CLASSES, write_sample

        classes = options.classes or ",".join(CLASSES)
        table = write_sample(Path("out/sample"))
        options = replace(options, table=table, text="text", dev="20%", classes=classes)
    return opened(options)

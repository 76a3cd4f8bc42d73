"""`goalward create`: a study of a table, and the options it is made by."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer import Argument, Option

import goalward as gw
from goalward.cli.app import AsJson, command
from goalward.cli.console import Spinner, Terminal, reply, visible
from goalward.errors import BadParameter, GoalwardError, NotAStudy, PoolChanged

__all__ = [
    "CreateOptions",
    "MakingOptions",
    "create",
    "exists",
    "names_in",
    "opened",
    "place_of",
    "share",
    "tell_findings",
]

NUMERIC = Option(None, help="Columns of numbers, with commas; the model's features.")
EMBEDDINGS = Option("auto", help="auto, tfidf, minilm, a .npy file, or an encoder's folder.")
STRATEGY = Option("auto", help="A recipe, or auto.")
SEED = Option(0, min=0, help="Decides everything random.")


@dataclass(frozen=True)
class MakingOptions:
    """What a study is made of."""

    table: Path | None = Argument(
        None, help=".csv, .tsv, .xlsx, .json, .jsonl or .parquet (also .gz); a folder of pictures."
    )
    text: str | None = Option(None, help="The column to read; several with commas.")
    image: str | None = Option(None, help="The column with paths of pictures.")
    numeric: str | None = NUMERIC
    category: str | None = Option(None, help="Columns of a few values each, with commas.")
    alone: bool = Option(False, "--alone", help="Only columns that are named are features.")
    separator: str | None = Option(None, help="Between cells: ';', tab, ...; else found out.")
    encoding: str | None = Option(None, help="cp1252, utf-16, shift_jis, ...; else found out.")
    sheet: str | None = Option(None, help="Of an .xlsx; else the one with most cells.")
    classes: str | None = Option(None, help="The answers, with commas; needed for a new study.")
    one_class: list[str] | None = Option(
        None, "--class", help="One answer, as it is, commas too; repeatable."
    )
    labels: str | None = Option(
        None, help="Instead of classes: labels of which any may hold at once, with commas."
    )
    number: str | None = Option(
        None, help="Instead of classes: ask for a number, of this name: --number price."
    )
    study: str | None = Option(None, help="Where answers go; TABLE.labels.db by default.")
    dev: str | None = Option(
        None, help="Share of answers that measure the model, 20% or 0.2; 10% by default."
    )
    answers: int = Option(
        1, min=1, help="People who should answer each row; weighed by how reliable they are."
    )
    again: bool = Option(
        False, "--again", help="Ask others again where that is worth more than a new row."
    )
    costs: str | None = Option(None, help="Column of what each row costs: most gain per price.")
    strategy: str = STRATEGY
    embeddings: str = EMBEDDINGS
    seed: int = SEED
    guesses: str | None = Option(None, help="The column of a second opinion: an LLM's, a rule's.")
    guess_probability: str | None = Option(None, help="The column that says how sure each is.")

    @property
    def answer_names(self) -> list[str]:
        """The classes, however they were given; or the labels, or the name of the number."""
        classes = [*names_in(self.classes), *(self.one_class or [])]
        given = [classes, names_in(self.labels), [self.number] if self.number else []]
        if sum(map(bool, given)) > 1:
            raise BadParameter(
                "Several of --classes, --labels and --number came; one of them was expected: what an "
                "answer is."
            )
        return next(filter(None, given), [])

    @property
    def learner(self) -> Any:
        """What learns such answers."""
        from goalward.studio.study.settings import usual_learner

        return usual_learner("labels" if self.labels else "numbers" if self.number else "class")


@dataclass(frozen=True)
class CreateOptions(MakingOptions):
    """What `goalward create` takes."""

    as_json: AsJson = False


@command(CreateOptions)
def create(options: CreateOptions) -> None:
    """Make a study of a table and end; `goalward serve` shows it to people.

    A study that is there already stays, and takes in rows that were appended to its table.

    Example: `goalward create reviews.csv --text text --classes positive,negative`
    """
    with opened(options) as study:
        tell_findings(study)
        rows, labels = study.n_rows, len(study.state.labels)
        record = {"study": study.url.removeprefix("sqlite:///"), "rows": rows, "labels": labels}
        words = f"{record['study']}: {rows:,} rows, {labels:,} labels."
        reply(words, record, as_json=options.as_json)


def tell_findings(study: gw.Study) -> None:
    """Say what the model looks at, and what was found in the table."""
    from goalward.studio.study.pools import told

    # Beside what programs read: the address of the page is the first line for them.
    for line in told(study.state.pool):
        Terminal(stderr=True).print(visible(line), style="dim")


def opened(options: MakingOptions) -> gw.Study:
    """Return the study of a table, made where there is none."""
    if options.table is None:
        raise BadParameter("No table came; one was expected: reviews.csv, say.")
    from goalward.studio.study.ledger import WAIT

    path, place = str(options.table), options.study or str(place_of(options.table))
    with Spinner() as tick:
        tick("opening the study")
        if exists(place):
            study = _gone_on_with(place, path, tick)
            _check_agreement(study, place, options)
            return study
        names, said = options.answer_names, dict[int, str]()
        if options.table.is_dir():
            from goalward.studio.tables.pictures import first_labels

            names, said = first_labels(gw.tables.read_table(path), names)
        if not names:
            raise BadParameter(
                "A new study was asked for without classes; at least two were expected. Write "
                "--classes positive,negative, or --class for each. Where several may hold at once, write "
                "--labels; for numbers --number price."
            )
        study = gw.Study.create(
            place,
            pool=gw.tables.Table(
                path,
                options.text,
                options.image,
                tuple(names_in(options.numeric)),
                options.embeddings,
                tuple(names_in(options.category)),
                options.separator,
                options.encoding,
                alone=options.alone,
                sheet=options.sheet,
            ),
            classes=names,
            learner=options.learner,
            guesses=options.guesses,
            guess_probabilities=options.guess_probability,
            dev=share(options.dev or "10%"),
            answers=options.answers,
            again=options.again,
            costs=options.costs,
            strategy=options.strategy,
            seed=options.seed,
            tick=tick,
            timeout=WAIT,
        )
        # What a subfolder is called is somebody's answer, which may be corrected like any.
        study.tell_many(said.items(), by="folder")
        return study


def _gone_on_with(place: str, path: str, tick: Callable[[str], None]) -> gw.Study:
    """Return the study of a table; rows that were appended meanwhile are taken in."""
    from goalward.studio.study.ledger import WAIT

    try:
        return gw.Study.open(place, pool=gw.tables.Table(path), tick=tick, timeout=WAIT)
    except PoolChanged:
        study = gw.Study.open(place, tick=tick, timeout=WAIT)
        try:
            Terminal(stderr=True).print(f"{study.extend()} new rows were taken in.")
        except GoalwardError:
            study.close()
            raise
        return study


def place_of(table: Path) -> Path:
    """Return where the study of a table lies unless another place is said."""
    from goalward.studio.tables.read import beside

    return beside(table, ".labels.db")


def _check_agreement(study: gw.Study, place: str, options: MakingOptions) -> None:
    """Raise if a study that is gone on with was made with other options than came now."""
    settings, guesses = study.state.settings, study.state.pool.get("guesses", ())
    classes = sorted(str(name) for name in study.state.classes)
    pairs = {
        "--classes": (sorted(options.answer_names), classes),
        "--labels": (options.labels and "labels", settings.kind),
        "--number": (options.number and "numbers", settings.kind),
        "--dev": (options.dev and share(options.dev), settings.dev),
        "--answers": (options.answers if options.answers > 1 else None, settings.answers),
        "--again": (options.again, settings.again),
        "--costs": (options.costs, settings.costs),
        "--guesses": (options.guesses and [options.guesses], list(guesses[:1])),
        "--strategy": (None if options.strategy == "auto" else options.strategy, settings.strategy),
    }
    for option, (asked, stored) in pairs.items():
        if asked and asked != stored:
            said = ", ".join(stored) if isinstance(stored, list) else stored
            study.close()
            raise BadParameter(
                f"{place} was made with {option} {said}, and another came; what a study was made with "
                f"stays. Leave {option} out, or begin another study with --study other.db."
            )


def share(text: str) -> float:
    """Return 0.2 for "20%" and for "0.2"."""
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError as error:
        raise BadParameter(f"--dev {text}; a share such as 20% or 0.2 was expected.") from error


def names_in(text: str | None) -> list[str]:
    """Return what stands between commas; "in quotes, with one" is one name."""
    names = next(csv.reader([text or ""], skipinitialspace=True), [])
    return [name.strip() for name in names if name.strip()]


def exists(place: str) -> bool:
    """Return whether there is a study at a path or in a database."""
    from goalward.studio.store.places import file_of, located
    from goalward.studio.store.store import Store

    path = file_of(located(place))
    if path is not None:
        return path.exists() and path.stat().st_size > 0
    try:
        Store.open(place).close()
    except NotAStudy:
        return False
    return True

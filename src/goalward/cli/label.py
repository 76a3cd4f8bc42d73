"""`goalward label` makes a study of a table and asks a person for labels; `goalward serve` serves several."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
from typer import Argument, Option

import goalward as gw
from goalward.cli.app import Result, command
from goalward.cli.console import Terminal, console, row_text, spinner, visible
from goalward.errors import BadParameter, GoalwardError, NotAStudy

More = partial(Option, rich_help_panel="More options")
NUMERIC = More(None, help="Columns of numbers, with commas; the model's features.")
EMBEDDINGS = More("auto", help="auto, tfidf, minilm, a .npy file, or an encoder's folder.")
STRATEGY = More("auto", help="A recipe, or auto.")
SEED = More(0, min=0, help="Random seed.")
KEYS = "s skip · u undo · n TEXT note · w why · ? help · q quit"


PageOption = partial(typer.Option, rich_help_panel="The page")


@dataclass(frozen=True)
class ServingOptions:
    """Where a page is served, and who may open it."""

    host: str = PageOption(
        "127.0.0.1", help="Address to listen on; 0.0.0.0 needs --token or --team."
    )
    port: int | None = PageOption(None, min=0, max=65535, help="8321, or a free one, by default.")
    token: str | None = PageOption(
        None,
        envvar="GOALWARD_TOKEN",
        help="For programs and other machines; random by default. It is visible in the list of "
        "processes: rather set GOALWARD_TOKEN, or use --token-file.",
    )
    token_file: Path | None = PageOption(None, help="File with the token.")
    tls_cert: Path | None = PageOption(None, help="Certificate (PEM): the page is HTTPS then.")
    tls_key: Path | None = PageOption(None, help="Its key (PEM).")
    name: list[str] | None = PageOption(None, help="A host name of the page; repeatable.")
    prefix: str = PageOption("", help="The path of the page behind a proxy, such as /labels.")
    proxy: list[str] | None = PageOption(
        None, help="Address or network whose X-Forwarded headers are trusted; repeatable."
    )
    team: str | None = PageOption(None, help="Who may sign in: a team of `goalward team create`.")
    user_header: str = PageOption(
        "", help="Header in which --proxy names the member of the team, such as X-Forwarded-User."
    )
    browser: bool = PageOption(True, "--browser/--no-browser", help="Open the page in the browser.")
    log: Path | None = PageOption(
        None, help="File for requests and errors as JSON lines; - is stderr."
    )

    @property
    def served(self) -> dict[str, Any]:
        from goalward.studio.server import ProxyConfig

        names, proxies = tuple(self.name or ()), tuple(self.proxy or ())
        if (self.tls_cert is None) != (self.tls_key is None):
            raise BadParameter("--tls-cert and --tls-key must be given together.")
        return {
            "host": self.host,
            "port": self.port,
            "token": self.token if self.token_file is None else _read(self.token_file),
            "proxy": ProxyConfig(names, self.prefix, proxies, self.user_header),
            "team": self.team,
            "tls": (self.tls_cert, self.tls_key) if self.tls_cert else None,
            "browser": self.browser,
            "log": self.log,
        }


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadParameter(f"--token-file {path} cannot be read ({error}).") from error


@dataclass(frozen=True)
class StudyOptions:
    """How a study is made."""

    table: Path | None = Argument(
        None, help=".csv, .tsv, .xlsx, .json, .jsonl or .parquet (also .gz); a folder of pictures."
    )
    text: str | None = Option(None, help="The column to read; several with commas.")
    image: str | None = Option(None, help="The column with paths of pictures.")
    numeric: str | None = NUMERIC
    category: str | None = More(None, help="Columns of a few values each, with commas.")
    alone: bool = More(False, "--alone", help="Use only the named columns as features.")
    separator: str | None = More(None, help="Between cells: ';', tab, ...; detected by default.")
    encoding: str | None = More(None, help="cp1252, utf-16, ...; detected by default.")
    sheet: str | None = More(None, help="Of an .xlsx; the one with most cells by default.")
    classes: str | None = Option(None, help="The classes, with commas; needed for a new study.")
    labels: str | None = Option(
        None, help="Instead of classes: labels of which several may hold at once, with commas."
    )
    number: str | None = Option(None, help="Instead of classes: the name of a number, as in price.")
    study: str | None = Option(None, help="Where answers go; TABLE.labels.db by default.")
    dev: str | None = Option(
        None, help="Share of answers that measure the model, 20% or 0.2; 10% by default."
    )
    answers: int = More(
        1, min=1, help="People who answer each row; weighed by how reliable they are."
    )
    costs: str | None = More(None, help="Column with the cost of each row: most gain per cost.")
    strategy: str = STRATEGY
    embeddings: str = EMBEDDINGS
    seed: int = SEED
    guesses: str | None = More(None, help="Column with a second opinion: an LLM's, a rule's.")
    guess_probability: str | None = More(None, help="Column that says how sure each guess is.")

    @property
    def names(self) -> list[str]:
        """The classes, the labels, or the name of the number."""
        number = [self.number] if self.number else []
        given = [names_in(self.classes), names_in(self.labels), number]
        if sum(map(bool, given)) > 1:
            raise BadParameter(
                "Only one of --classes, --labels and --number can be given, got several. Name the one "
                "that says what an answer is."
            )
        return next(filter(None, given), [])

    @property
    def kind(self) -> str:
        """What an answer is: "class", "labels" or "numbers"."""
        return "labels" if self.labels else "numbers" if self.number else "class"


@dataclass(frozen=True)
class LabelOptions(ServingOptions, StudyOptions):
    """Options of `goalward label`."""

    by: str = Option("me", help="Your name.")
    terminal: bool = Option(False, "--terminal", help="Answer here instead of in a browser.")
    create_only: bool = More(
        False, "--create-only", help="Make the study and end; `goalward serve` serves it."
    )
    sample: bool = Option(False, "--sample", help="Try it on a small data set that is included.")
    images: Path | None = More(None, help="Folder with the pictures; the table's by default.")
    guess: bool | None = More(
        None, "--guess/--no-guess", help="Show guesses, or the model's; people tend to agree."
    )


@command()
def label(options: LabelOptions) -> Result | None:
    """Label a table: the rows whose labels help most come first, and every answer is kept.

    A page opens in the browser (`pip install goalward[web]`); with --terminal rows are shown here.
    The study is created on first use, then resumed, with rows appended to its table.

    Examples: `goalward label`, `goalward label --sample`,
    `goalward label reviews.csv --text text --classes positive,negative --dev 20%`
    """
    if options.table is not None and options.table.suffix == ".db":
        raise BadParameter(
            f"TABLE must be a table, got the study {options.table}. Open it with `goalward serve "
            f"{options.table}`, or name its table."
        )
    if options.terminal or options.create_only:
        with _study(options) as study:
            _print_notes(study)
            if not options.create_only:
                return ask_here(study, options.by)
            place, rows, labels = study.url, study.n_rows, len(study.state.labels)
        place = place.removeprefix("sqlite:///")
        words = f"{place}: {rows:,} rows, {labels:,} labels."
        return words, {"study": place, "rows": rows, "labels": labels}
    # Before a study is made: packages of the page may be missing.
    from goalward.studio.server import serve

    shown: dict[str, Any] = {"by": options.by, "images": options.images, "guess": options.guess}
    if _begins_on_the_page(options):
        serve({}, table=options.table, **options.served, **shown)
        return None
    with _study(options) as study:
        with spinner("loading the rows"):
            study.pool  # noqa: B018 - before the page opens, not with its first answer
        _print_notes(study)
        serve({"": study}, **options.served, **shown)
    return None


def _begins_on_the_page(options: LabelOptions) -> bool:
    names = (field.name for field in fields(StudyOptions) if field.name != "table")
    if options.sample or any(
        getattr(options, name) != getattr(LabelOptions, name).default for name in names
    ):
        return False
    table = options.table
    return table is None or (table.exists() and not exists(str(_default_place(table))))


def _print_notes(study: gw.Study) -> None:
    for line in study.pool_notes:
        Terminal(stderr=True).print(visible(line), style="dim")


def _study(options: LabelOptions) -> gw.Study:
    if options.table is None and options.sample:
        from goalward.studio.tables.table import SAMPLE_CLASSES, write_sample

        classes = options.classes or ",".join(SAMPLE_CLASSES)
        table = write_sample(Path("out/sample"))
        options = replace(options, table=table, text="text", dev="20%", classes=classes)
    if options.table is None:
        raise BadParameter("TABLE is missing. Name a file: goalward label reviews.csv")
    from goalward.studio.study.study import resumed

    path, place = str(options.table), options.study or str(_default_place(options.table))
    with spinner("opening the study") as tick:
        if exists(place):
            study, added = resumed(place, path, tick)
            if added:
                Terminal(stderr=True).print(f"{added} new rows were added.")
            _check_options(study, place, options)
            return study
        return _created(place, path, options, tick)


def _created(place: str, path: str, options: LabelOptions, tick: Callable[[str], None]) -> gw.Study:
    from goalward.studio.study.ledger import WAIT
    from goalward.studio.study.settings import usual_learner
    from goalward.studio.study.study import tell_given
    from goalward.studio.tables.embeddings import first_labels

    names, answers, given = options.names, dict[int, str](), None
    if Path(path).is_dir() or not Path(path).exists():  # reading says what is missing
        names, answers = first_labels(gw.tables.read_table(path), names)
    elif options.kind != "labels":
        given, options = _given(path, options)
    if not names:
        raise BadParameter(
            "A new study needs two classes or more. Name them with --classes positive,negative; where "
            "several labels may hold at once with --labels, for numbers with --number."
        )
    table = gw.tables.Table(
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
    )
    study = gw.Study.create(
        place,
        pool=table,
        classes=names,
        learner=usual_learner(options.kind),
        guesses=options.guesses,
        guess_probabilities=options.guess_probability,
        dev=share(options.dev or "10%"),
        answers=options.answers,
        costs=options.costs,
        strategy=options.strategy,
        seed=options.seed,
        tick=tick,
        timeout=WAIT,
    )
    # The name of a subfolder is an answer, which may be corrected like any.
    study.tell_many(answers.items(), by="folder")
    if given is not None:
        tell_given(study, given)
    return study


def _given(path: str, options: LabelOptions) -> tuple[str | None, LabelOptions]:
    """Return the column that has answers to some rows, and the options with it as no feature."""
    from goalward.studio.tables.columns import ANSWERS, Kinds

    how: dict[str, Any] = {"separator": options.separator, "encoding": options.encoding}
    frame = gw.tables.read_table(path, **how, sheet=options.sheet)
    given = next((c for c in frame.columns if c == options.number or ANSWERS.match(c)), None)
    if given is None or given != options.number:
        return given, options
    kinds = Kinds.of(frame.drop(given))
    numbers, values = (",".join(names) for names in (kinds.numbers, kinds.categories))
    text = options.text or ",".join(kinds.texts) or None
    numeric, category = options.numeric or numbers, options.category or values
    alone = options.alone or not (numeric or category)
    return given, replace(options, text=text, numeric=numeric, category=category, alone=alone)


def _default_place(table: Path) -> Path:
    from goalward.studio.tables.read import beside

    return beside(table, ".labels.db")


def _check_options(study: gw.Study, place: str, options: LabelOptions) -> None:
    settings, guesses = study.state.settings, study.state.pool.get("guesses", ())
    classes = sorted(str(name) for name in study.state.classes)
    pairs: dict[str, tuple[Any, Any]] = {
        "--classes": (sorted(options.names), classes),
        "--labels": (options.labels and "labels", settings.kind),
        "--number": (options.number and "numbers", settings.kind),
        "--dev": (options.dev and share(options.dev), settings.dev),
        "--answers": (options.answers if options.answers > 1 else None, settings.answers),
        "--costs": (options.costs, settings.costs),
        "--guesses": (options.guesses and [options.guesses], list(guesses[:1])),
        "--strategy": (None if options.strategy == "auto" else options.strategy, settings.strategy),
    }
    for option, (given, stored) in pairs.items():
        if given and given != stored:
            was, now = (", ".join(v) if isinstance(v, list) else v for v in (stored, given))
            study.close()
            raise BadParameter(
                f"{place} was made with {option} {was}, got {now}. Leave {option} out, or begin another "
                "study with --study other.db."
            )


def share(text: str) -> float:
    """Return 0.2 for "20%" and for "0.2"."""
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError as error:
        raise BadParameter(
            f"--dev must be a share, got {text!r}. Write --dev 20% or --dev 0.2."
        ) from error


def names_in(text: str | None) -> list[str]:
    """Return the names between commas; "in quotes, with one" is one name."""
    names = next(csv.reader([text or ""], skipinitialspace=True), [])
    return [name.strip() for name in names if name.strip()]


def exists(place: str) -> bool:
    """Return whether there is a study at a path or in a database."""
    from goalward.studio.store.database import file_of, located
    from goalward.studio.store.store import Store

    path = file_of(located(place))
    if path is not None:
        return path.exists() and path.stat().st_size > 0
    try:
        Store.open(place).close()
    except NotAStudy:
        return False
    return True


def ask_here(study: gw.Study, by: str) -> Result:
    """Ask rows in the terminal until none is left or the person quits; return a summary."""
    answered = 0
    usage = f"{study.state.settings.answer.typing} · {KEYS}"
    console.print(usage, style="dim")
    while True:
        with spinner("choosing the next row"):
            rows = study.ask(1, by=by, resume=True, at_most=True)
        if not rows:
            console.print("Nothing is left to ask.")
            break
        _show_row(study, rows[0])
        try:
            n = len(study.state.labels)
            line = typer.prompt(f"{n} label{'s' * (n != 1)}", prompt_suffix=" > ").strip()
        except (typer.Abort, EOFError):
            break
        if line == "q":
            break
        try:
            answered += _take(study, rows[0], line, by, usage)
        except GoalwardError as error:
            console.print(str(error), style="red")
    total = len(study.state.labels)
    words = f"{answered} answered now, {total} labels in {study.url}"
    return words, {"study": study.url, "answered": answered, "labels": total}


def _take(study: gw.Study, row: int, line: str, by: str, usage: str) -> int:
    """Execute a typed line; return 1 for an answer, -1 for one taken back."""
    word, _, rest = line.partition(" ")
    answer = study.state.settings.answer.typed(line, study.state.classes)
    if answer is not None:
        study.tell(row, answer, by=by)
        return 1
    if line == "s":
        study.skip(row, by=by)
    elif line == "u":
        labels = len(study.state.labels)
        back = study.undo(by=by)
        console.print("Nothing to undo." if back is None else f"Row {back} is open again.")
        return len(study.state.labels) - labels
    elif word == "n" and rest.strip():
        study.note(row, rest.strip(), by=by)
    elif line == "w":
        for text in study.why(row).says:
            console.print(text)
    else:
        console.print(usage, style="dim")
    return 0


def _show_row(study: gw.Study, row: int) -> None:
    from rich.panel import Panel
    from rich.text import Text

    cells = study.show(row)
    columns = {name: cell for name, cell in cells["columns"].items() if cell not in (None, "")}
    body = row_text(cells | {"columns": columns})
    # A panel reads markup in its title where that is not a Text.
    below = Text(visible(study.state.settings.answer.offered(study.state.classes)))
    console.print(Panel(body, title=f"row {row}", subtitle=below))


@dataclass(frozen=True)
class ServeOptions(ServingOptions):
    """Options of `goalward serve`."""

    studies: list[str] = Argument(
        ..., metavar="STUDY...", help="labels.db, a folder, or postgresql://user@host/database."
    )
    by: str = Option("me", help="Your name.")


@command()
def serve(options: ServeOptions) -> None:
    """Serve existing studies on one page, each below a path of its own.

    A study that cannot be opened is reported, and the others are served.

    Example: `goalward serve reviews.labels.db mails.labels.db`
    """
    from goalward.studio.server import StudyList
    from goalward.studio.server import serve as page

    with spinner() as tick:
        listed = StudyList(options.studies, tick)
    with listed:
        for name, reason in listed.unopened.items():
            Terminal(stderr=True).print(f"{name} is not served. {reason}", style="yellow")
        page(listed.studies, unopened=listed.unopened, by=options.by, **options.served)

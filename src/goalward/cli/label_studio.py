"""`goalward label-studio`: people answer in Label Studio, in the order a study wants."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from goalward.cli.app import AsJson, command
from goalward.cli.console import Spinner, console, reply
from goalward.cli.making import EMBEDDINGS, NUMERIC, SEED, STRATEGY, exists, names_in, share
from goalward.core.extras import needing
from goalward.errors import BadParameter, GoalwardError

if TYPE_CHECKING:
    from goalward.studio.label_studio import Bridge, Client, Synced
    from goalward.studio.study import Study

__all__ = ["LabelStudioOptions", "label_studio"]

LOCAL = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class LabelStudioOptions:
    """What `goalward label-studio` takes."""

    url: str = Option(..., help="Where Label Studio is: http://127.0.0.1:8080.")
    project: int = Option(..., min=1, help="The project's number, as in its address.")
    token_env: str = Option(
        "LABEL_STUDIO_TOKEN", help="The environment variable that holds the token."
    )
    table: Path | None = Option(
        None, help="Rows to import as tasks; without it the project's tasks are the pool."
    )
    text: str | None = Option(None, help="The table's column to read.")
    image: str | None = Option(None, help="Its column with addresses of images.")
    numeric: str | None = NUMERIC
    embeddings: str = EMBEDDINGS
    send: str | None = Option(None, help="More columns to send with each task, with commas.")
    study: str | None = Option(None, help="Where answers go; made on the first call.")
    dev: str = Option("10%", help="Share of answers that measure the model.")
    strategy: str = STRATEGY
    refit: int = Option(10, min=1, help="New answers before the next round.")
    seed: int = SEED
    control: str | None = Option(None, help="The Choices or Number tag, where several fit.")
    top: int = Option(1000, min=1, help="Tasks that get a score each round.")
    prefill: bool = Option(False, "--prefill", help="Show annotators what the model would say.")
    add_classes: bool = Option(
        False, "--add-classes", help="Take new choices as new classes or labels."
    )
    poll: float = Option(5.0, min=0.1, help="Seconds between two looks.")
    once: bool = Option(False, "--once", help="One pass, then leave.")
    serve: int | None = Option(None, min=1, max=65535, help="Also be its ML backend, at this port.")
    host: str = Option("127.0.0.1", help="Where --serve listens.")
    password_env: str | None = Option(None, help="Variable with the password --serve wants.")
    as_json: AsJson = False


@command(LabelStudioOptions, "label-studio")
def label_studio(options: LabelStudioOptions) -> None:
    """Keep a Label Studio project in step with a study: the most useful tasks are served first.

    Tasks come from a table or are those the project has; annotations go into the study; after
    every `--refit` new ones the order of the tasks is computed anew and written back.

    Example: `goalward label-studio --url http://127.0.0.1:8080 --project 1 --table reviews.csv --text text`
    """
    from goalward.studio.label_studio import Bridge, Client

    password = _password(options)
    token = _secret(options.token_env, "--token-env")
    with ExitStack() as stack:
        client = stack.enter_context(Client(options.url, token, options.project))
        with Spinner() as tick:
            tick("opening the study")
            study = stack.enter_context(_opened(options, client, tick))
            tick("reading the project")
            bridge = Bridge(
                study,
                client,
                control=options.control,
                top=options.top,
                prefill=options.prefill,
                add_classes=options.add_classes,
                send=names_in(options.send),
            )
            if options.once:
                tick("syncing")
                done = bridge.sync()
        if options.once:
            _report(bridge, done, as_json=options.as_json)
        else:
            _follow(bridge, options, password)


def _password(options: LabelStudioOptions) -> str | None:
    """Return the password that --serve wants, once these options are known to go together."""
    name = options.password_env
    password = _secret(name, "--password-env") if name else None
    if options.serve is not None and options.once:
        raise BadParameter("--serve and --once came together; one of them was expected.")
    if options.serve is not None and options.host not in LOCAL and password is None:
        raise BadParameter(
            f"--serve at {options.host} can be reached from other machines; a password was expected. "
            "Put one into an environment variable and name it with --password-env."
        )
    return password


def _opened(options: LabelStudioOptions, client: Client, tick: Callable[[str], None]) -> Study:
    """Return the study of a project, made where there is none."""
    from goalward.studio.label_studio import create_study
    from goalward.studio.study import Study
    from goalward.studio.tables import Table

    table = options.table
    made = table.with_suffix(".labels.db") if table else f"label-studio-{options.project}.labels.db"
    place = options.study or str(made)
    numbers, embeddings = tuple(names_in(options.numeric)), options.embeddings
    rows = Table(str(table), options.text, options.image, numbers, embeddings) if table else None
    if exists(place):
        return Study.open(place, pool=rows, tick=tick)
    return create_study(
        place,
        client,
        table=rows,
        numeric=numbers,
        embeddings=embeddings,
        control=options.control,
        dev=share(options.dev),
        strategy=options.strategy,
        refit=options.refit,
        seed=options.seed,
        tick=tick,
    )


def _follow(bridge: Bridge, options: LabelStudioOptions, password: str | None) -> None:
    from goalward.studio.label_studio import backend_app

    stop, wake, train = threading.Event(), threading.Event(), threading.Event()

    def report(done: Synced) -> None:
        """Say what a pass did, if it did something: it goes on and on."""
        if done.changed:
            _report(bridge, done, as_json=options.as_json)

    def trouble(error: GoalwardError) -> None:
        console.print(f"{error} Trying again.", style="yellow")

    with ExitStack() as stack:
        if options.serve is not None:
            application = backend_app(bridge, wake=wake, train=train, password=password)
            stack.enter_context(_served(application, options.host, options.serve))
        with suppress(KeyboardInterrupt):
            bridge.follow(options.poll, report, trouble, stop=stop, wake=wake, train=train)


@contextmanager
def _served(application: Any, host: str, port: int) -> Iterator[None]:
    """Serve in a thread while the block runs."""
    with needing("--serve"):
        import uvicorn
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise BadParameter(
            f"Nothing can listen at {host}:{port} ({error.strerror}); a free port was expected. Use "
            "another --serve."
        ) from error
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(5)
        listening.close()


def _report(bridge: Bridge, done: Synced, *, as_json: bool) -> None:
    """Say what a pass did."""
    labels, place = len(bridge.study.state.labels), bridge.study.url
    counts = asdict(done)
    said = [
        f"{counts[name]} {name}"
        for name in ("imported", "told", "skipped", "withdrawn")
        if counts[name]
    ]
    if done.pushed:
        said.append(f"{done.pushed} tasks ordered as {done.version}")
    words = f"{', '.join(said) or 'nothing new'}; {labels} labels in {place}"
    reply(words, {**counts, "labels": labels, "study": place}, as_json=as_json)
    if not as_json:
        if done.strangers:
            console.print(f"{done.strangers} tasks are not in the study's pool.", style="yellow")
        for one in done.refused[:10]:
            told = f"task {one.task}, {one.by}: {one.reason}; kept in Label Studio only"
            console.print(told, style="yellow")


def _secret(variable: str, option: str) -> str:
    """Return a secret from the environment: command lines are seen by everybody on a machine."""
    value = os.environ.get(variable, "").strip()
    if not value:
        raise BadParameter(
            f"The environment variable {variable} ({option}) is empty; a secret was expected in it. Set "
            f"it: export {variable}=..."
        )
    return value

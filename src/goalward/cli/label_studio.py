"""`goalward label-studio`: people answer in Label Studio, in the order a study wants."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goalward.cli.app import AsJson, Spinner, app, console
from goalward.cli.label import exists, names_in, share
from goalward.errors import BadParameter, GoalwardError, MissingExtra

if TYPE_CHECKING:
    from goalward.adapters.label_studio import Bridge, Synced

__all__ = ["label_studio"]

LOCAL = ("127.0.0.1", "::1", "localhost")


@app.command("label-studio")
def label_studio(
    url: Annotated[str, typer.Option(help="Where Label Studio is: http://127.0.0.1:8080.")],
    project: Annotated[int, typer.Option(min=1, help="The project's number, as in its address.")],
    token_env: Annotated[
        str, typer.Option(help="The environment variable that holds the token.")
    ] = "LABEL_STUDIO_TOKEN",
    table: Annotated[
        Path | None,
        typer.Option(help="Rows to import as tasks; without it the project's tasks are the pool."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="The table's column to read.")] = None,
    image: Annotated[str | None, typer.Option(help="Its column with addresses of images.")] = None,
    numeric: Annotated[
        str | None, typer.Option(help="Columns of numbers, with commas; the model's features.")
    ] = None,
    embeddings: Annotated[
        str, typer.Option(help="auto, tfidf, minilm, a .npy file, or an encoder's folder.")
    ] = "auto",
    send: Annotated[
        str | None, typer.Option(help="More columns to send with each task, with commas.")
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="Where answers go; made on the first call.")
    ] = None,
    dev: Annotated[str, typer.Option(help="Share of answers that measure the model.")] = "0",
    strategy: Annotated[str, typer.Option(help="A recipe, or auto.")] = "auto",
    refit: Annotated[int, typer.Option(min=1, help="New answers before the next round.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything random.")] = 0,
    control: Annotated[
        str | None, typer.Option(help="The Choices tag, where there are several.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Tasks that get a score each round.")] = 1000,
    columns: Annotated[
        int, typer.Option(min=0, help="Tasks that get the columns; 0.1 s each, every round.")
    ] = 50,
    prefill: Annotated[
        bool, typer.Option("--prefill", help="Show annotators the model's label.")
    ] = False,
    add_classes: Annotated[
        bool, typer.Option("--add-classes", help="Take new choices as new classes.")
    ] = False,
    poll: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="One pass, then leave.")] = False,
    serve: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Also be its ML backend, at this port.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where --serve listens.")] = "127.0.0.1",
    password_env: Annotated[
        str | None, typer.Option(help="Variable with the password --serve wants.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Keep a Label Studio project in step with a study: the most useful tasks are served first.

    Tasks come from a table or are those the project has; annotations go into the study; after
    every `--refit` new ones the order of the tasks is computed anew and written back.

    Example: `goalward label-studio --url http://127.0.0.1:8080 --project 1 --table reviews.csv --text text`
    """
    from goalward.adapters.label_studio import Bridge, Client, create_study
    from goalward.study import Study
    from goalward.tables import Table

    password = _secret(password_env, "--password-env") if password_env else None
    if serve is not None and once:
        raise BadParameter("--serve and --once came together; one of them was expected.")
    if serve is not None and host not in LOCAL and password is None:
        raise BadParameter(
            f"--serve at {host} can be reached from other machines; a password was expected. Put one "
            "into an environment variable and name it with --password-env."
        )
    place = study or str(
        table.with_suffix(".labels.db") if table else f"label-studio-{project}.labels.db"
    )
    numbers = tuple(names_in(numeric)) if numeric else ()
    rows = Table(str(table), text, image, numbers, embeddings) if table else None
    token = _secret(token_env, "--token-env")
    with ExitStack() as stack:
        client = stack.enter_context(Client(url, token, project))
        with Spinner() as tick:
            tick("opening the study")
            if exists(place):
                opened = Study.open(place, pool=rows, tick=tick)
            else:
                opened = create_study(
                    place,
                    client,
                    table=rows,
                    numeric=numbers,
                    embeddings=embeddings,
                    control=control,
                    dev=share(dev),
                    strategy=strategy,
                    refit=refit,
                    seed=seed,
                    tick=tick,
                )
            stack.enter_context(opened)
            tick("reading the project")
            bridge = Bridge(
                opened,
                client,
                control=control,
                top=top,
                columns=columns,
                prefill=prefill,
                add_classes=add_classes,
                send=names_in(send) if send else (),
            )
            if once:
                tick("syncing")
                done = bridge.sync()
        if once:
            _report(bridge, done, as_json, quiet=False)
        else:
            _follow(bridge, poll, as_json, serve, host, password)


def _follow(
    bridge: Bridge, poll: float, as_json: bool, port: int | None, host: str, password: str | None
) -> None:
    stop, wake, train = threading.Event(), threading.Event(), threading.Event()

    def report(done: Synced | GoalwardError) -> None:
        _report(bridge, done, as_json, quiet=True)

    with ExitStack() as stack:
        if port is not None:
            from goalward.adapters.label_studio import backend_app

            application = backend_app(bridge, wake=wake, train=train, password=password)
            stack.enter_context(_served(application, host, port))
        with suppress(KeyboardInterrupt):
            bridge.follow(poll, report, stop=stop, wake=wake, train=train)


@contextmanager
def _served(application: Any, host: str, port: int) -> Iterator[None]:
    """Serve in a thread while the block runs."""
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra(
            "--serve needs uvicorn, which is not installed. Run: pip install goalward[web]"
        ) from error
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


def _report(bridge: Bridge, done: Synced | GoalwardError, as_json: bool, *, quiet: bool) -> None:
    """Say what a pass did; where it goes on and on, only if it did something."""
    if isinstance(done, GoalwardError):
        console.print(f"{done} Trying again.", style="yellow", highlight=False)
        return
    if quiet and not done.changed:
        return
    labels = len(bridge.study.state.labels)
    if as_json:
        typer.echo(json.dumps({**asdict(done), "labels": labels, "study": bridge.study.url}))
        return
    said = [
        f"{getattr(done, name)} {name}"
        for name in ("imported", "told", "skipped", "withdrawn")
        if getattr(done, name)
    ]
    if done.pushed:
        said.append(f"{done.pushed} tasks ordered as {done.version}")
    line = f"{', '.join(said) or 'nothing new'}; {labels} labels in {bridge.study.url}"
    console.print(line, highlight=False, soft_wrap=True)
    if done.strangers:
        console.print(f"{done.strangers} tasks are not in the study's pool.", style="yellow")
    for one in done.refused[:10]:
        told = f"task {one.task}, {one.by}: {one.reason}; kept in Label Studio only"
        console.print(told, style="yellow", highlight=False)


def _secret(variable: str, option: str) -> str:
    """Return a secret from the environment: command lines are seen by everybody on a machine."""
    value = os.environ.get(variable, "").strip()
    if not value:
        raise BadParameter(
            f"The environment variable {variable} ({option}) is empty; a secret was expected in it. Set "
            f"it: export {variable}=..."
        )
    return value

"""`goalward label-studio`: people answer in Label Studio, in the order of a study."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from typer import Option

from goalward.cli.app import Result, command
from goalward.cli.console import console, spinner
from goalward.cli.label import EMBEDDINGS, NUMERIC, SEED, STRATEGY, exists, names_in, share
from goalward.errors import BadParameter


@dataclass(frozen=True)
class LabelStudioOptions:
    """Options of `goalward label-studio`."""

    url: str = Option(..., help="The address of Label Studio: http://127.0.0.1:8080.")
    project: int = Option(..., min=1, help="The project's number, as in its address.")
    token_env: str = Option("LABEL_STUDIO_TOKEN", help="Environment variable with the token.")
    table: Path | None = Option(None, help="Rows to import as tasks; else the project's tasks.")
    text: str | None = Option(None, help="The table's column to read.")
    image: str | None = Option(None, help="Its column with addresses of images.")
    numeric: str | None = NUMERIC
    embeddings: str = EMBEDDINGS
    send: str | None = Option(None, help="More columns to send with each task, with commas.")
    study: str | None = Option(None, help="Where answers go; created on first use.")
    dev: str = Option("10%", help="Share of answers that measure the model.")
    strategy: str = STRATEGY
    refit: int = Option(10, min=1, help="New answers before the next round.")
    seed: int = SEED
    control: str | None = Option(None, help="The Choices or Number tag, where several fit.")
    top: int = Option(1000, min=1, help="Tasks that get a score each round.")
    prefill: bool = Option(False, "--prefill", help="Show the model's answers to annotators.")
    add_classes: bool = Option(False, "--add-classes", help="Take new choices as new classes.")
    poll: float = Option(5.0, min=0.1, help="Seconds between two passes.")
    once: bool = Option(False, "--once", help="One pass, then exit.")


@command("label-studio")
def label_studio(options: LabelStudioOptions) -> Iterator[Result]:
    """Keep a Label Studio project in step with a study: the most useful tasks are served first.

    Annotations go into the study; after every `--refit` new ones the tasks are ranked again.

    Example: `goalward label-studio --url http://127.0.0.1:8080 --project 1 --table reviews.csv --text text`
    """
    from goalward.studio.label_studio import Bridge, Client

    # Never an option: command lines are seen by everybody on a machine.
    token = os.environ.get(options.token_env, "").strip()
    if not token:
        raise BadParameter(
            f"The environment variable {options.token_env} must hold the token of Label Studio, and is "
            f"empty. Set it: export {options.token_env}=..., or name another with --token-env."
        )
    with ExitStack() as stack:
        client = stack.enter_context(Client(options.url, token, options.project))
        with spinner("opening the study") as tick:
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
            changes = bridge.sync() if options.once else None
        if changes is not None:
            yield _result(study, changes)
            return
        with suppress(KeyboardInterrupt):
            for changes, error in bridge.follow(options.poll):
                if error is not None:
                    console.print(f"{error} Trying again.", style="yellow")
                elif changes.changed:
                    yield _result(study, changes)


def _opened(options: LabelStudioOptions, client: Any, tick: Any) -> Any:
    from goalward.studio.label_studio import create_study
    from goalward.studio.study import Study
    from goalward.studio.tables import Table

    table, names, embeddings = options.table, names_in(options.numeric), options.embeddings
    usual = table or Path(f"label-studio-{options.project}.db")
    place, numeric = options.study or str(usual.with_suffix(".labels.db")), tuple(names)
    rows = Table(str(table), options.text, options.image, numeric, embeddings) if table else None
    if exists(place):
        return Study.open(place, pool=rows, tick=tick)
    return create_study(
        place,
        client,
        table=rows,
        numeric=numeric,
        embeddings=embeddings,
        control=options.control,
        dev=share(options.dev),
        strategy=options.strategy,
        refit=options.refit,
        seed=options.seed,
        tick=tick,
    )


def _result(study: Any, changes: Any) -> Result:
    counts, labels = asdict(changes), len(study.state.labels)
    names = ("imported", "told", "skipped", "withdrawn")
    done = [f"{counts[name]} {name}" for name in names if counts[name]]
    if changes.pushed:
        done.append(f"{changes.pushed} tasks ordered as {changes.version}")
    summary = f"{', '.join(done) or 'nothing new'}; {labels} labels in {study.url}"

    def words() -> None:
        console.print(summary, soft_wrap=True)
        if changes.strangers:
            console.print(f"{changes.strangers} tasks are not in the study's pool.", style="yellow")
        for refused in changes.refused[:10]:
            reason = f"task {refused.task}, {refused.by}: {refused.reason}"
            console.print(f"{reason}; kept in Label Studio only", style="yellow")

    return words, {**counts, "labels": labels, "study": study.url}

"""Commands that keep a study: backup, restore, recover, upgrade."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import goalward as gw
from goalward.cli.app import AsJson, Force, app
from goalward.cli.console import Spinner, reply, show
from goalward.cli.studies import StudyPlace

__all__ = ["backup", "recover", "restore", "upgrade"]


@app.command()
def backup(
    study: StudyPlace,
    path: Path = Argument(..., help="The file to write: labels.backup.db, say."),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write all of a study to a file, while others go on; it is checked before it is there.

    The file is a study itself: open it, or put it back with `goalward restore`. A table that the
    study points to is not in it: keep that too.

    Example: `goalward backup labels.db labels.backup.db`
    """
    with Spinner() as tick, gw.Study.open(study) as opened:
        tick("copying")
        events = opened.backup(path, force=force)
        labels = len(opened.state.labels)
    data = {"path": str(path), "events": events, "labels": labels}
    reply(f"{events} events, {labels} labels in {path}, checked.", data, as_json=as_json)


@app.command()
def restore(
    path: Annotated[Path, Argument(metavar="BACKUP", help="What `goalward backup` wrote.")],
    study: StudyPlace,
    force: bool = Option(
        False, "--force", help="Take the place of a study that is there; it is kept beside."
    ),
    as_json: AsJson = False,
) -> None:
    """Put a backup to a place: a file, or an empty PostgreSQL database.

    Example: `goalward restore labels.backup.db labels.db`
    """
    from goalward.studio.study import copies

    with Spinner() as tick:
        tick("copying")
        events, aside = copies.restore(path, study, force=force)
    words = f"{events} events are back in {study}, checked."
    if aside is not None:
        words += f"\nWhat was there is kept as {aside}."
    reply(words, {"events": events, "aside": aside and str(aside)}, as_json=as_json)


@app.command()
def recover(
    study: StudyPlace,
    path: Path = Argument(
        ..., help="A new study; or a .csv of the answers, where no study can be made."
    ),
    as_json: AsJson = False,
) -> None:
    """Save every event of a damaged study that is whole, and show what was lost.

    The damaged study is only read. A backup is better, where there is one.

    Example: `goalward recover labels.db rescued.db`
    """
    from goalward.studio.study import copies
    from goalward.studio.tables.cells import WRITTEN

    as_table = path.suffix.lower() in WRITTEN
    with Spinner() as tick:
        tick("reading")
        recovered = copies.recover_answers(study, path) if as_table else copies.recover(study, path)
    lost = [{"event": seq, "what can be read of it": text} for seq, text in recovered.lost]
    whole = len(recovered.events) - len(lost)
    words = f"{whole} of {len(recovered.events)} events are in {path}."
    reply(words, {"path": str(path), "whole": whole, "lost": recovered.lost}, as_json=as_json)
    if lost and not as_json:
        show(f"lost, {min(len(lost), 20)} of {len(lost)}", lost[:20])


@app.command()
def upgrade(
    study: StudyPlace,
    strategy: str | None = Option(None, help="Another recipe, or auto; as it is by default."),
    as_json: AsJson = False,
) -> None:
    """Let a study choose by what is recommended now, instead of when it was made.

    Without this nothing changes about how a study chooses, whatever version opens it. Answers stay.

    Examples: `goalward upgrade labels.db`, `goalward upgrade labels.db --strategy margin`
    """
    with gw.Study.open(study) as opened:
        changes = opened.upgrade(strategy)
    lines = [f"{name}: {before} -> {after}" for name, (before, after) in changes.items()]
    words = "\n".join(lines) or "Nothing to change: it is what is recommended now."
    reply(words, changes, as_json=as_json)

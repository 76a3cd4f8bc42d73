"""`goalward team`: who may work on studies, and who is signed in."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import goalward as gw
from goalward.cli.app import AsJson, Force, app
from goalward.cli.console import in_json, reply, show

if TYPE_CHECKING:
    from goalward.studio.team import Team

__all__ = [
    "create",
    "invite",
    "listed",
    "log",
    "remove",
    "revoke",
    "role",
    "sessions",
    "team_backup",
]

team = typer.Typer(
    no_args_is_help=True,
    help="Who may work on studies, and who is signed in: accounts, roles, sessions.\n\n"
    "Example: `goalward team create team.db ann`, then `goalward label table.csv --team team.db`",
)
app.add_typer(team, name="team")

Place = Annotated[
    str, Argument(metavar="TEAM", help="team.db, or postgresql://user@host/database?study=team.")
]
Name = Annotated[str, Argument(help="Somebody's name, as it stands beside their answers.")]
OfStudy = Annotated[
    str | None, Option("--study", help="In this study only: labels.db, say; in all by default.")
]
Address = Annotated[str, Option(help="Where the page is reached; the link begins with it.")]
HERE = "http://127.0.0.1:8321"


def _opened(place: str) -> closing[Team]:
    from goalward.studio.team import Team

    return closing(Team.open(place))


def _identity(study: str | None) -> str:
    if study is None:
        return ""
    with gw.Study.open(study) as opened:
        return opened.identity


def _words(said: Any) -> str | None:
    """Return data as a line for people."""
    hidden = {"by", "invite", "session", "until", "settings", "pool"}
    shown = {k: v for k, v in said.items() if k not in hidden and v not in (None, "")}
    return ", ".join(f"{k} {v}" for k, v in shown.items()) or None


def _hand_out(name: str, token: str, address: str, as_json: bool, *, known: bool = False) -> None:
    link = f"{address.rstrip('/')}/join?invite={token}"
    words = f"{link}\nSend it to {name}: whoever opens it chooses {name}'s passphrase, once, within a week."
    if known:
        words += (
            f"\n{name} belongs to the team already: the passphrase of now ends when it is used."
        )
    reply(words, {"name": name, "link": link, "new": not known}, as_json=as_json)


@team.command()
def create(
    place: Place,
    owner: Annotated[str, Argument(help="The first owner's name.")],
    days: float = Option(7.0, min=0.01, max=400, help="How long a sign-in lasts."),
    address: Address = HERE,
    as_json: AsJson = False,
) -> None:
    """Make a team and print a link for its first owner.

    Example: `goalward team create team.db ann`
    """
    from goalward.studio.team import Team

    with closing(Team.create(place, lasts=86400 * days)) as made:
        token = made.invite(owner, "owner")
    _hand_out(owner, token, address, as_json)


@team.command()
def invite(
    place: Place,
    name: Name,
    role: Annotated[str | None, Option(help="annotator, reviewer or owner.")] = None,
    study: OfStudy = None,
    address: Address = HERE,
    as_json: AsJson = False,
) -> None:
    """Print a link for somebody who then chooses a passphrase; a new one if it was forgotten.

    New people are annotators unless --role says another; those who belong to the team stay what
    they are.

    Examples: `goalward team invite team.db bo`, `goalward team invite team.db cleo --role reviewer`
    """
    with _opened(place) as found:
        known = found.members.person(name)
        if role is None and known is None:
            role = "annotator"
        token = found.invite(name, role, study=_identity(study))
    _hand_out(name, token, address, as_json, known=known is not None)


@team.command("list")
def listed(place: Place, as_json: AsJson = False) -> None:
    """Say who belongs to a team, as what, and who is invited.

    Example: `goalward team list team.db`
    """
    with _opened(place) as found:
        said = found.members.record(found.clock())
    if as_json:
        typer.echo(in_json(said))
        return
    people = [
        {**one, "studies": _words(one["studies"]), "sessions": len(one["sessions"])}
        for one in said["people"]
    ]
    for title, lines in (("people", people), ("invited", said["invited"])):
        if lines:
            show(title, lines)


@team.command()
def role(
    place: Place,
    name: Name,
    role: Annotated[str, Argument(help="annotator, reviewer, owner; or none, with --study.")],
    study: OfStudy = None,
    as_json: AsJson = False,
) -> None:
    """Give somebody a role. A new name belongs to the team from then on.

    Without a passphrase they come in only where a proxy says who they are (--user-header).

    Examples: `goalward team role team.db bo reviewer`,
    `goalward team role team.db bo owner --study labels.db`
    """
    with _opened(place) as found:
        given = None if role == "none" and study is not None else role
        found.appoint(name, given, study=_identity(study))
    where = "" if study is None else f" in {study}"
    reply(f"{name}: {role}{where}.", {"name": name, "role": given, "study": study}, as_json=as_json)


@team.command()
def remove(place: Place, name: Name, as_json: AsJson = False) -> None:
    """Let somebody in no longer, at once; their answers stay.

    Example: `goalward team remove team.db bo`
    """
    with _opened(place) as found:
        found.remove(name)
    reply(f"{name} does not belong to the team any more.", {"removed": name}, as_json=as_json)


@team.command()
def sessions(
    place: Place,
    name: Annotated[str | None, Argument(help="Whose; everybody's by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say who is signed in, where and until when.

    Example: `goalward team sessions team.db bo --json`
    """
    with _opened(place) as found:
        said = found.members.record(found.clock(), name)
    lines = [{"name": one["name"], **s} for one in said["people"] for s in one["sessions"]]
    if as_json:
        typer.echo(in_json(lines))
    elif lines:
        show("signed in", lines)
    else:
        typer.echo("Nobody is signed in.")


@team.command()
def revoke(
    place: Place,
    id: Annotated[str, Argument(help="Of a session or a link, as `sessions` and `list` show it.")],
    as_json: AsJson = False,
) -> None:
    """End a session, or a link that was not used yet, at once.

    Example: `goalward team revoke team.db 3f9a2c51d0e7`
    """
    with _opened(place) as found:
        found.revoke(id)
    reply(f"{id} is over.", {"revoked": id}, as_json=as_json)


@team.command("backup")
def team_backup(
    place: Place,
    path: Path = Argument(..., help="The file to write: team.backup.db, say."),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write all of a team to a file, while the page is served; it is checked before it is there.

    The file is a team itself. What was invited or revoked later is not in it.

    Example: `goalward team backup team.db team.backup.db`
    """
    from goalward.studio.study import copies

    with _opened(place) as found:
        events = copies.backup(found.store, path, force=force)
    reply(
        f"{events} events in {path}, checked.",
        {"path": str(path), "events": events},
        as_json=as_json,
    )


@app.command()
def log(
    place: Annotated[str, Argument(metavar="JOURNAL", help="A study, or a team.")],
    kind: Annotated[
        str | None, Option(help="Only these, with commas: told, undone, exported, signedin, ...")
    ] = None,
    last: int = Option(50, min=1, help="How many, counted from the end."),
    as_json: AsJson = False,
) -> None:
    """Say who did what and when: answers, undos and exports of a study, sign-ins of a team.

    Examples: `goalward log labels.db --kind exported`, `goalward log team.db --kind signedin --json`
    """
    from goalward.studio.store import Store

    kinds = {word.strip().lower() for word in (kind or "").split(",")} - {""}
    with closing(Store.open(place)) as store:
        lines = list[dict[str, Any]]()
        for recorded in store.read():
            what, values = type(recorded.event).__name__.lower(), dict(vars(recorded.event))
            if (what in kinds) if kinds else what not in ("asked", "ranked", "created"):
                who = values.get("by") or values.get("name") or ""
                values.pop("secret", None)
                at = datetime.fromtimestamp(values.pop("at"), UTC).isoformat(timespec="seconds")
                line = {"event": recorded.seq, "at": at, "what": what}
                lines.append({**line, "who": who, "said": {**values}})
    if as_json:
        typer.echo(in_json(lines[-last:]))
        return
    shown = [{**one, "said": _words(one["said"])} for one in lines[-last:]]
    show(f"{place}, the last {len(shown)} of {len(lines)}", shown)

"""`goalward team`: who may work on studies, and who is signed in."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import goalward as gw
from goalward.cli.app import MORE, Force, Result, app, command
from goalward.cli.console import show

if TYPE_CHECKING:
    from goalward.studio.team import Team

team = typer.Typer(
    no_args_is_help=True,
    help="Who may work on studies, and who is signed in: accounts, roles, sessions.\n\n"
    "Example: `goalward team create team.db ann`, then `goalward label table.csv --team team.db`",
)
app.add_typer(team, name="team", rich_help_panel=MORE)

Place = Annotated[
    str, Argument(metavar="TEAM", help="team.db, or postgresql://user@host/database?study=team.")
]
Name = Annotated[str, Argument(help="The person's name, as it stands beside their answers.")]
OfStudy = Annotated[
    str | None, Option("--study", help="In this study only, such as labels.db; in all by default.")
]
Address = Annotated[str, Option(help="The address of the page; the link begins with it.")]
HERE = "http://127.0.0.1:8321"


def _open(place: str) -> closing[Team]:
    from goalward.studio.team import Team

    return closing(Team.open(place))


def _identity(study: str | None) -> str:
    if study is None:
        return ""
    with gw.Study.open(study) as opened:
        return opened.identity


def written(record: dict[str, Any]) -> str | None:
    """Return what a record says in a line; None for nothing."""
    hidden = {"by", "invite", "session", "until", "settings", "pool"}
    shown = {k: v for k, v in record.items() if k not in hidden and v not in (None, "")}
    return ", ".join(f"{k} {v}" for k, v in shown.items()) or None


def _link(name: str, token: str, address: str, *, known: bool = False) -> Result:
    link = f"{address.rstrip('/')}/join?invite={token}"
    words = f"{link}\nSend it to {name}, who chooses a passphrase with it, once, within a week."
    if known:
        words += f"\n{name} is a member already: the present passphrase ends when it is used."
    return words, {"name": name, "link": link, "new": not known}


@command(group=team)
def create(
    place: Place,
    owner: Annotated[str, Argument(help="The first owner's name.")],
    days: float = Option(7.0, min=0.01, max=400, help="How long a sign-in lasts."),
    address: Address = HERE,
) -> Result:
    """Create a team and print a link for its first owner.

    Example: `goalward team create team.db ann`
    """
    from goalward.studio.team import Team

    with closing(Team.create(place, lasts=86400 * days)) as created:
        token = created.invite(owner, "owner")
    return _link(owner, token, address)


@command(group=team)
def invite(
    place: Place,
    name: Name,
    role: Annotated[str | None, Option(help="annotator, reviewer or owner.")] = None,
    study: OfStudy = None,
    address: Address = HERE,
) -> Result:
    """Print a link for somebody who then chooses a passphrase; a new one if it was forgotten.

    New people are annotators unless --role says another; members keep their role.

    Examples: `goalward team invite team.db bo`, `goalward team invite team.db cleo --role reviewer`
    """
    with _open(place) as opened:
        known = opened.members.person(name) is not None
        token = opened.invite(name, role if known else role or "annotator", study=_identity(study))
    return _link(name, token, address, known=known)


@command("list", team)
def list_members(
    place: Place,
    name: Annotated[str | None, Argument(help="One person; everybody by default.")] = None,
) -> Result:
    """List members and their roles, where they are signed in and until when, and open invitations.

    Example: `goalward team list team.db --json`
    """
    with _open(place) as opened:
        record = opened.members.record(name)

    def words() -> None:
        members = record["people"]
        people = [
            {**person, "studies": written(person["studies"]), "sessions": len(person["sessions"])}
            for person in members
        ]
        signed_in = [{"name": each["name"], **s} for each in members for s in each["sessions"]]
        listed = {"people": people, "signed in": signed_in, "invited": record["invited"]}
        for title, lines in listed.items():
            if lines:
                show(title, lines)

    return words, record


@command(group=team)
def role(
    place: Place,
    name: Name,
    role: Annotated[str, Argument(help="annotator, reviewer, owner; or none, with --study.")],
    study: OfStudy = None,
) -> Result:
    """Give somebody a role; a new name becomes a member.

    Without a passphrase they come in only where a proxy names them (--user-header).

    Examples: `goalward team role team.db bo reviewer`,
    `goalward team role team.db bo owner --study labels.db`
    """
    given = None if role == "none" and study is not None else role
    with _open(place) as opened:
        opened.set_role(name, given, study=_identity(study))
    where = "" if study is None else f" in {study}"
    return f"{name}: {role}{where}.", {"name": name, "role": given, "study": study}


@command(group=team)
def remove(place: Place, name: Name) -> Result:
    """Remove somebody from the team, at once; their answers stay.

    Example: `goalward team remove team.db bo`
    """
    with _open(place) as opened:
        opened.remove(name)
    return f"{name} is removed from the team.", {"removed": name}


@command(group=team)
def revoke(
    place: Place,
    id: Annotated[str, Argument(help="Of a session or a link, as `list` shows it.")],
) -> Result:
    """End a session, or a link that was not used yet, at once.

    Example: `goalward team revoke team.db 3f9a2c51d0e7`
    """
    with _open(place) as opened:
        opened.revoke(id)
    return f"{id} has ended.", {"revoked": id}


@command("backup", team)
def team_backup(
    place: Place,
    path: Path = Argument(..., help="The file to write, such as team.backup.db."),
    force: Force = False,
) -> Result:
    """Write a checked copy of a team, while the page is served; the copy is a team itself.

    Example: `goalward team backup team.db team.backup.db`
    """
    from goalward.studio.study import copies

    with _open(place) as opened:
        events = copies.backup(opened.store, path, force=force)
    return f"{events} events in {path}, checked.", {"path": str(path), "events": events}

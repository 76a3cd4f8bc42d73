"""The page of a team: who belongs to it, who is signed in; everybody's own account on it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from goalward.server.addresses import home, origin
from goalward.server.door import keep_session
from goalward.server.keys import Keys, Speaker
from goalward.server.messages import Text
from goalward.server.pages import page
from goalward.server.roles import may
from goalward.team import Team
from goalward.team.team import digest

__all__ = ["people"]

people = APIRouter()
"""The routes of a server with accounts."""


async def _team(request: Request) -> Team:
    team: Team = request.app.state.keys.team
    return team


OfTeam = Annotated[Team, Depends(_team)]


class Named(BaseModel):
    """Somebody."""

    model_config = ConfigDict(extra="forbid")
    name: Text = Field(min_length=1, max_length=200, description="Somebody's name.")


class RoleOf(Named):
    """Somebody, and what they are to be."""

    role: Literal["annotator", "reviewer", "owner"]


class Invitee(Named):
    """Somebody who is to get a link."""

    role: Literal["annotator", "reviewer", "owner"] | None = Field(
        None, description="What they are to be; none: what they are, with a new passphrase."
    )


class Ended(BaseModel):
    """A session, or a link that was not used."""

    model_config = ConfigDict(extra="forbid")
    id: Text = Field(min_length=8, max_length=64, description="As /api/team says it.")


class Changed(BaseModel):
    """Another passphrase."""

    model_config = ConfigDict(extra="forbid")
    old: Text = Field(max_length=1000, description="The passphrase of now.")
    new: Text = Field(max_length=1000, description="The one from now on.")


@people.get("/people", include_in_schema=False)
def _people(request: Request, team: OfTeam) -> Response:
    served = getattr(request.app.state, "served", None)
    return page(request, "people.html", served, account=_account(request, team))


@people.get("/api/team")
def members(request: Request, team: OfTeam) -> dict[str, Any]:
    """Say who belongs to the team and who is signed in; but for its owners, of oneself only."""
    return _account(request, team)


@people.post("/api/team/invite")
def invite_person(wanted: Invitee, request: Request, team: OfTeam) -> dict[str, str]:
    """Return a link by which somebody chooses a passphrase, once, within a week."""
    token = team.invite(wanted.name, wanted.role, by=_name(request))
    return {"name": wanted.name, "link": f"{origin(request)}{home(request)}/join?invite={token}"}


@people.post("/api/team/role")
def give_role(wanted: RoleOf, request: Request, team: OfTeam) -> dict[str, Any]:
    """Give somebody of the team another role."""
    team.appoint(team.members.known(wanted.name).name, wanted.role, by=_name(request))
    return _account(request, team)


@people.post("/api/team/remove")
def remove_person(wanted: Named, request: Request, team: OfTeam) -> dict[str, Any]:
    """Let somebody in no longer; their answers stay."""
    team.remove(wanted.name, by=_name(request))
    return _account(request, team)


@people.post("/api/team/revoke")
def revoke(wanted: Ended, request: Request, team: OfTeam) -> dict[str, Any]:
    """End a session of one's own; for owners of the team anybody's, and links too."""
    person: Speaker = request.state.person
    owner = may(person, "/api/team/remove")
    team.revoke(wanted.id, by=_name(request), name=None if owner else person.name)
    return _account(request, team)


@people.post("/api/team/passphrase")
async def change_passphrase(
    wanted: Changed, request: Request, response: Response, team: OfTeam
) -> dict[str, str]:
    """Change one's own passphrase, which ends one's other sessions."""
    keys, name = request.app.state.keys, request.state.person.name
    if name is None:
        raise HTTPException(422, "The token has no passphrase; sign in by name to change yours.")
    session = await keys.change(request, team, wanted.old, wanted.new)
    if session is None:
        raise HTTPException(422, "That is not your passphrase of now; nothing was changed.")
    keep_session(response, request, session, team.members.lasts)
    return {"name": name}


def _name(request: Request) -> str:
    """Return who does something, for the journal."""
    return request.state.person.name or "token"


def _account(request: Request, team: Team) -> dict[str, Any]:
    person: Speaker = request.state.person
    keys: Keys = request.app.state.keys
    owner = may(person, "/api/team/remove")
    said = team.members.record(team.clock(), None if owner else person.name)
    here = digest(request.cookies.get(keys.cookie, ""))
    for one in said["people"]:
        if one["name"] in keys.seen:
            at = datetime.fromtimestamp(keys.seen[one["name"]], UTC)
            one["seen"] = at.isoformat(timespec="seconds")
        for session in one["sessions"]:
            session["here"] = here.startswith(session["id"])
    return {"owner": owner, **said}

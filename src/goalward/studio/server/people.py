"""The page of a team: who belongs to it, who is signed in; everybody's own account on it."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from importlib.resources import files
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from goalward.errors import BadParameter
from goalward.studio.server.guard import home, origin
from goalward.studio.server.keys import Keys, Speaker, caller
from goalward.studio.server.messages import Text
from goalward.studio.server.pages import page
from goalward.studio.server.roles import may
from goalward.studio.team import Team, digest

__all__ = ["door", "keep_session", "people"]


# The way in: sign in, links that work once, and the files that pages load; all our own.


TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
# All read at the start: a request can name a file, never a path.
STATIC = {
    file.name: file.read_bytes()
    for file in (files("goalward.studio.server") / "static").iterdir()
    if file.name.rpartition(".")[2] in TYPES
}

door = APIRouter(include_in_schema=False)
"""The routes of a server as a whole, whatever studies it has."""


def _signed_in(request: Request, to: str, session: str, lasts: float | None = None) -> Response:
    to = home(request) + to
    response: Response = RedirectResponse(to, 303)
    if request.headers.get("sec-fetch-site") == "cross-site":
        # From a file of ours: a strict cookie goes along with what our own page asks for only.
        response = HTMLResponse(f'<meta http-equiv="refresh" content="0;url={to}">')
    keep_session(response, request, session, lasts)
    return response


def keep_session(
    response: Response, request: Request, session: str, lasts: float | None = None
) -> None:
    """Have a browser keep a session, for so many seconds, or until it is closed."""
    response.set_cookie(
        request.app.state.keys.cookie,
        session,
        max_age=None if lasts is None else int(lasts),
        httponly=True,
        samesite="strict",
        path=home(request) or "/",
        # To where the page is HTTPS, the cookie goes by that alone.
        secure=request.url.scheme == "https",
    )


@door.get("/start")
def _start(request: Request, token: str = "", who: str = "") -> Response:
    keys: Keys = request.app.state.keys
    # A link works once; the redirect takes the token out of the address bar and the history.
    if keys.redeem(token):
        return _signed_in(request, "/?who=ask" if who == "ask" else "/", keys.session)
    if keys.is_session(request.cookies.get(keys.cookie, "")):
        # The link again, in the browser that used it.
        return RedirectResponse(f"{home(request)}/", 303)
    return _asked(request, "This link was used already, or is not ours.")


@door.get("/login")
def _login(request: Request) -> Response:
    return _asked(request)


def _asked(request: Request, error: str | None = None, said: str = "") -> Response:
    team = request.app.state.keys.team is not None
    status = 200 if error is None else 401
    return page(request, "login.html", None, status, error=error, team=team, said=said)


@door.post("/login")
async def _log_in(request: Request) -> Response:
    form, keys = await _form(request), request.app.state.keys
    if keys.team is None:
        if keys.is_token(form["token"], caller(request)):
            return _signed_in(request, "/?who=ask", keys.session)
        return _asked(request, "That is not the token.")
    session = await keys.sign_in(request, keys.team, form["name"], form["passphrase"])
    if session is None:
        return _asked(request, "Name and passphrase do not belong together.", form["name"][:200])
    return _signed_in(request, "/", session, keys.team.members.lasts)


@door.get("/join")
def _join(request: Request, invite: Annotated[str, Query(max_length=200)] = "") -> Response:
    return _chosen(request, invite)


@door.post("/join")
async def _joined(request: Request) -> Response:
    form, keys = await _form(request), request.app.state.keys
    if keys.team is None or form["passphrase"] != form["again"]:
        return _chosen(request, form["invite"], "The two passphrases are not the same.")
    try:
        session = await keys.join(request, keys.team, form["invite"], form["passphrase"])
    except BadParameter as error:
        return _chosen(request, form["invite"], str(error))
    if session is None:
        return _chosen(request, form["invite"])
    return _signed_in(request, "/", session, keys.team.members.lasts)


def _chosen(request: Request, invite: str, error: str | None = None) -> Response:
    keys: Keys = request.app.state.keys
    link = None if keys.team is None else keys.team.invitation(invite)
    if link is None:
        return _asked(request, "This link was used already, is too old, or is not ours.")
    status = 200 if error is None else 422
    return page(request, "join.html", None, status, link=link, invite=invite, error=error)


@door.post("/logout")
async def _log_out(request: Request) -> Response:
    form, keys = await _form(request), request.app.state.keys
    if keys.team is not None:
        session, everywhere = request.cookies.get(keys.cookie, ""), bool(form["everywhere"])
        await run_in_threadpool(keys.team.sign_out, session, everywhere=everywhere)
    response = RedirectResponse(f"{home(request)}/login", 303)
    response.delete_cookie(keys.cookie, path=home(request) or "/")
    return response


async def _form(request: Request) -> defaultdict[str, str]:
    """Return the fields of a form that was sent; empty where one is missing."""
    sent = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
    return defaultdict(str, {name: "".join(values) for name, values in sent.items()})


@door.get("/static/{name}")
def _asset(name: str) -> Response:
    if name not in STATIC:
        raise HTTPException(404, "There is no such file.")
    return Response(STATIC[name], media_type=TYPES[name.rpartition(".")[2]])


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

"""Signing in and out, links that work once, the files of the pages, and the page of a team."""

from collections import defaultdict
from datetime import UTC, datetime
from importlib.resources import files
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from goalward.errors import BadParameter
from goalward.studio.server.api import Body, Text
from goalward.studio.server.auth import Auth, CallerOf, address_of, from_state
from goalward.studio.server.pages import page
from goalward.studio.server.security import home, origin
from goalward.studio.team import Team, digest

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


async def _form(request: Request) -> defaultdict[str, str]:
    """Return the fields of a form; missing ones are empty."""
    sent = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
    return defaultdict(str, {name: "".join(values) for name, values in sent.items()})


AuthOf = Annotated[Auth, from_state("auth")]
Form = Annotated[defaultdict[str, str], Depends(_form)]
TeamOf = Annotated[Team, from_state("team")]
sign_in = APIRouter(include_in_schema=False)
"""Routes of every server."""
team_pages = APIRouter()


def _signed_in(request: Request, to: str, session: str) -> Response:
    to = home(request) + to
    response: Response = RedirectResponse(to, 303)
    if request.headers.get("sec-fetch-site") == "cross-site":
        # From a file of ours: a strict cookie is sent only with what our own page asks for.
        response = HTMLResponse(f'<meta http-equiv="refresh" content="0;url={to}">')
    _set_session(response, request, session)
    return response


def _set_session(response: Response, request: Request, session: str) -> None:
    """Set the cookie of a session: of a team's member until it expires, others' until the end."""
    auth: Auth = request.app.state.auth
    response.set_cookie(
        auth.cookie,
        session,
        max_age=int(auth.team.members.lasts) if auth.team else None,
        httponly=True,
        samesite="strict",
        path=home(request) or "/",
        secure=request.url.scheme == "https",
    )


@sign_in.get("/start")
def _start(request: Request, auth: AuthOf, token: str = "", who: str = "") -> Response:
    # A link works once; the redirect takes the token out of the address bar and the history.
    if auth.redeem(token):
        return _signed_in(request, "/?who=ask" if who == "ask" else "/", auth.session)
    if auth.is_session(request.cookies.get(auth.cookie, "")):
        # The link again, in the browser that used it.
        return RedirectResponse(f"{home(request)}/", 303)
    return _login_page(
        request,
        "This link was used already, or is not valid. Ask whoever started goalward for a new one.",
    )


def _login_page(request: Request, error: str | None = None, name: str = "") -> Response:
    values = {"error": error, "team": request.app.state.auth.team is not None, "typed": name}
    return page(request, "login.html", None, 200 if error is None else 401, **values)


@sign_in.get("/login")
def _login(request: Request) -> Response:
    return _login_page(request)


@sign_in.post("/login")
async def _log_in(request: Request, auth: AuthOf, form: Form) -> Response:
    if auth.team is None:
        if auth.is_token(form["token"], address_of(request)):
            return _signed_in(request, "/?who=ask", auth.session)
        return _login_page(request, "That is not the token.")
    session = await auth.sign_in(request, auth.team, form["name"], form["passphrase"])
    if session is None:
        return _login_page(request, "The name or the passphrase is wrong.", form["name"][:200])
    return _signed_in(request, "/", session)


def _join_page(request: Request, auth: Auth, invite: str, error: str | None = None) -> Response:
    link = None if auth.team is None else auth.team.invitation(invite)
    if link is None:
        return _login_page(request, "This link was used already, is too old, or is not valid.")
    status = 200 if error is None else 422
    return page(request, "join.html", None, status, link=link, invite=invite, error=error)


@sign_in.get("/join")
def _joining(
    request: Request, auth: AuthOf, invite: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    return _join_page(request, auth, invite)


@sign_in.post("/join")
async def _join(request: Request, auth: AuthOf, form: Form) -> Response:
    invite, passphrase = form["invite"], form["passphrase"]
    if auth.team is None or passphrase != form["again"]:
        return _join_page(request, auth, invite, "The two passphrases are not the same.")
    try:
        session = await auth.join(request, auth.team, invite, passphrase)
    except BadParameter as error:
        return _join_page(request, auth, invite, str(error))
    if session is None:
        return _join_page(request, auth, invite)
    return _signed_in(request, "/", session)


@sign_in.post("/logout")
async def _log_out(request: Request, auth: AuthOf, form: Form) -> Response:
    if auth.team is not None:
        session, everywhere = request.cookies.get(auth.cookie, ""), bool(form["everywhere"])
        await run_in_threadpool(auth.team.sign_out, session, everywhere=everywhere)
    response = RedirectResponse(f"{home(request)}/login", 303)
    response.delete_cookie(auth.cookie, path=home(request) or "/")
    return response


@sign_in.get("/static/{name}")
def _static(name: str) -> Response:
    if name not in STATIC:
        raise HTTPException(404, "There is no such file.")
    return Response(STATIC[name], media_type=TYPES[name.rpartition(".")[2]])


class PersonNamed(Body):
    """A person."""

    name: Text = Field(min_length=1, max_length=200, description="The person's name.")


class PersonInRole(PersonNamed):
    """A person who gets a role, a link, or both."""

    role: Literal["annotator", "reviewer", "owner"] | None = Field(
        None, description="Their role; none for a member who needs a new passphrase."
    )


class SessionOrLink(Body):
    """A session, or a link that was not used."""

    id: Text = Field(min_length=8, max_length=64, description="As /api/team returns it.")


class NewPassphrase(Body):
    """A change of one's passphrase."""

    old: Text = Field(max_length=1000, description="The present passphrase.")
    new: Text = Field(max_length=1000, description="The new one.")


@team_pages.get("/people", include_in_schema=False)
def _people(request: Request, team: TeamOf, caller: CallerOf) -> Response:
    served = getattr(request.app.state, "served", None)
    return page(request, "people.html", served, account=members(request, team, caller))


@team_pages.get("/api/team")
def members(request: Request, team: TeamOf, caller: CallerOf) -> dict[str, Any]:
    """Return who belongs to the team and who is signed in; for all but owners, of oneself only."""
    auth, owner = request.app.state.auth, caller.owns_team
    account = team.members.record(None if owner else caller.principal.name)
    here = digest(request.cookies.get(auth.cookie, ""))
    for person in account["people"]:
        if person["name"] in auth.seen:
            at = datetime.fromtimestamp(auth.seen[person["name"]], UTC)
            person["seen"] = at.isoformat(timespec="seconds")
        for session in person["sessions"]:
            session["here"] = here.startswith(session["id"])
    return {"owner": owner, **account}


@team_pages.post("/api/team/invite")
def invite_person(
    wanted: PersonInRole, request: Request, team: TeamOf, caller: CallerOf
) -> dict[str, str]:
    """Return a link by which somebody chooses a passphrase, once, within a week."""
    token = team.invite(wanted.name, wanted.role, by=caller.signature)
    return {"name": wanted.name, "link": f"{origin(request)}{home(request)}/join?invite={token}"}


@team_pages.post("/api/team/role")
def give_role(
    wanted: PersonInRole, request: Request, team: TeamOf, caller: CallerOf
) -> dict[str, Any]:
    """Give a member another role."""
    team.set_role(team.members.require(wanted.name).name, wanted.role, by=caller.signature)
    return members(request, team, caller)


@team_pages.post("/api/team/remove")
def remove_person(
    wanted: PersonNamed, request: Request, team: TeamOf, caller: CallerOf
) -> dict[str, Any]:
    """Remove somebody from the team; their answers stay."""
    team.remove(wanted.name, by=caller.signature)
    return members(request, team, caller)


@team_pages.post("/api/team/revoke")
def revoke(
    wanted: SessionOrLink, request: Request, team: TeamOf, caller: CallerOf
) -> dict[str, Any]:
    """End a session of one's own; for owners of the team anybody's, and links too."""
    name = None if caller.owns_team else caller.principal.name
    team.revoke(wanted.id, by=caller.signature, name=name)
    return members(request, team, caller)


@team_pages.post("/api/team/passphrase")
async def change_passphrase(
    wanted: NewPassphrase, request: Request, response: Response, team: TeamOf, auth: AuthOf
) -> dict[str, str]:
    """Change one's own passphrase, which ends one's other sessions."""
    name = request.state.principal.name
    if name is None:
        raise HTTPException(422, "The token has no passphrase. Sign in by name to change yours.")
    session = await auth.change(request, team, wanted.old, wanted.new)
    if session is None:
        raise HTTPException(422, "That is not your present passphrase; nothing was changed.")
    _set_session(response, request, session)
    return {"name": name}

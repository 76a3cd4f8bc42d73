"""The way in: sign in, links that work once, and the files that pages load; all our own."""

from __future__ import annotations

from collections import defaultdict
from importlib.resources import files
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from goalward.errors import BadParameter
from goalward.server.addresses import home
from goalward.server.keys import Keys, caller
from goalward.server.pages import page

__all__ = ["door", "keep_session"]

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
# All read at the start: a request can name a file, never a path.
STATIC = {
    file.name: file.read_bytes()
    for file in (files("goalward.server") / "static").iterdir()
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

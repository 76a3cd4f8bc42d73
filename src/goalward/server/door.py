"""The way in: sign in, links that work once, and the files that pages load; all our own."""

from __future__ import annotations

from importlib.resources import files
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from goalward.server.addresses import home
from goalward.server.guard import caller
from goalward.server.keys import Keys
from goalward.server.pages import page

__all__ = ["door"]

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


def _signed_in(request: Request, to: str) -> Response:
    keys: Keys = request.app.state.keys
    to = home(request) + to
    response: Response = RedirectResponse(to, 303)
    if request.headers.get("sec-fetch-site") == "cross-site":
        # From a file of ours: a strict cookie goes along with what our own page asks for only.
        response = HTMLResponse(f'<meta http-equiv="refresh" content="0;url={to}">')
    response.set_cookie(
        keys.cookie,
        keys.session,
        httponly=True,
        samesite="strict",
        path=home(request) or "/",
        # To where the page is HTTPS, the cookie goes by that alone.
        secure=request.url.scheme == "https",
    )
    return response


@door.get("/start")
def _start(request: Request, token: str = "", who: str = "") -> Response:
    keys: Keys = request.app.state.keys
    # A link works once; the redirect takes the token out of the address bar and the history.
    if keys.redeem(token):
        return _signed_in(request, "/?who=ask" if who == "ask" else "/")
    if keys.is_session(request.cookies.get(keys.cookie, "")):
        # The link again, in the browser that used it.
        return RedirectResponse(f"{home(request)}/", 303)
    return page(
        request, "login.html", None, 401, error="This link was used already, or is not ours."
    )


@door.get("/login")
def _login(request: Request) -> Response:
    return page(request, "login.html", None, error=None)


@door.post("/login")
async def _log_in(request: Request) -> Response:
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    keys: Keys = request.app.state.keys
    if keys.is_token("".join(form.get("token", [""])), caller(request)):
        return _signed_in(request, "/?who=ask")
    return page(request, "login.html", None, 401, error="That is not the token.")


@door.get("/static/{name}")
def _asset(name: str) -> Response:
    if name not in STATIC:
        raise HTTPException(404, "There is no such file.")
    return Response(STATIC[name], media_type=TYPES[name.rpartition(".")[2]])

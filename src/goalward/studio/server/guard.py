"""Who may speak to the page: checked for every request, before any of it is read.

A page on 127.0.0.1 is within reach of every site the same browser has open. So, in this order:
the Host must be ours (against DNS rebinding), the Origin must be ours whatever the method (against
requests from other sites, and from other ports, which cookies do not tell apart), and a cookie or
token must be there. Bodies are small, JSON, and read within a time.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalward.studio.server.keys import Keys, Speaker
from goalward.studio.server.outside import DIRECT, Outside

__all__ = ["Guard", "allowed_host", "home", "origin", "root", "route"]


# Where the page is: every address that a template, script, redirect or cookie uses begins here.
#
# An application may stand below a path (ASGI's `root_path`): `root` is where the study's own pages
# are, `home` where the server's door is. They differ only where one server has several studies.


def root(request: HTTPConnection) -> str:
    """Return the path of the application that a request came to: "" for one that has it all."""
    return str(request.scope.get("root_path", ""))


def home(request: HTTPConnection) -> str:
    """Return the path of the whole server: its sign-in page, and the files that pages load."""
    return str(request.scope.get("app_root_path", root(request)))


def route(request: HTTPConnection) -> str:
    """Return the path that was asked for, below the application's own."""
    return str(request.scope["path"]).removeprefix(root(request))


def origin(request: HTTPConnection) -> str:
    """Return the scheme and name that the caller used: "https://labels.example"."""
    return f"{request.url.scheme}://{request.url.netloc}"


LONGEST_BODY = 512 * 1024
"""Bytes: a note of 100,000 characters fits, however it is written."""
BODY_SECONDS = 10.0
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN = frozenset({"/start", "/login", "/join", "/static/app.css", "/static/icon.svg", "/healthz"})
"""What takes a token instead of needing one, and how that looks."""
UPLOAD = "/api/start/upload"
"""Takes a file as it is, where tables are brought; read and bounded by who keeps it."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
STRICT = "max-age=2592000"
"""For 30 days browsers come by HTTPS alone; not to this machine's own names, which others serve too."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """The door of an application.

    Parameters
    ----------
    hosts
        Names this server is called by, besides the loopback's.
    remote
        Whether it listens beyond the loopback: then its addresses may be called by number too,
        which no foreign name can pretend to.
    uploads
        Whether tables may be brought.
    replies
        Where replies are counted, by their status.
    outside
        The path that the application stands below, and the proxies before it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Keys,
        hosts: Iterable[str] = (),
        remote: bool = False,
        uploads: bool = False,
        replies: Counter[int] | None = None,
        outside: Outside = DIRECT,
    ) -> None:
        self.app, self.keys, self.upload = app, keys, UPLOAD if uploads else None
        self.hosts, self.remote = LOCAL | {h.lower() for h in hosts}, remote
        self.replies = replies if replies is not None else Counter()
        self.outside = outside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.replies[message["status"]] += 1
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if request.url.scheme == "https" and request.url.hostname not in LOCAL:
                    headers.setdefault("strict-transport-security", STRICT)
            await send(message)

        request = Request(scope)
        try:
            scope.setdefault("state", {})
            self.outside.apply(scope)
            self._check_source(request)
            scope["state"]["person"] = await self._person(request)
            self._check_form(request)
            if route(request) != self.upload:
                receive = await _whole(scope, receive)
        except HTTPException as refusal:
            await _refused(request, refusal)(scope, receive, sealed)
            return
        await self.app(scope, receive, sealed)

    def _check_source(self, request: Request) -> None:
        headers, path = request.headers, route(request)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not allowed_host(hosts[0], self.hosts, remote=self.remote):
            raise HTTPException(
                400, "This server does not go by that Host; open the address it printed."
            )
        for origin in headers.getlist("origin"):
            if origin.lower() not in (f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower()):
                raise HTTPException(
                    403, "The request came from another site (its Origin is not ours)."
                )
        # Other ports of this machine are "same-site", and other people's programs. A link that works
        # once may come from anywhere: from a file that the browser was given, say.
        if path not in ("/start", "/join") and headers.get("sec-fetch-site", "none") not in (
            "none",
            "same-origin",
        ):
            raise HTTPException(
                403, "The request came from another site. Paste the address into the address bar."
            )

    async def _person(self, request: Request) -> Speaker | None:
        """Return who speaks; nobody needs to where the door is open."""
        if route(request) in OPEN:
            return None
        person = await self.keys.speaker(request)
        if person is None:
            raise HTTPException(
                401,
                "Nobody is signed in here, or not any more: sign in, in another tab if you like. Answers "
                "that were not sent stay in this browser."
                if self.keys.team
                else "A token is needed: open the link that the server printed.",
                {"www-authenticate": "Bearer"},
            )
        return person

    def _check_form(self, request: Request) -> None:
        headers, path = request.headers, route(request)
        # Bytes that are no text would be read as other characters, repaired.
        for part in (request.scope.get("raw_path") or b"", request.scope["query_string"]):
            try:
                unquote_to_bytes(part).decode()
            except UnicodeDecodeError:
                raise HTTPException(
                    400,
                    "The address holds bytes that are no UTF-8; percent-encode the text as UTF-8.",
                ) from None
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        expected = "application/octet-stream" if path == self.upload else "application/json"
        if "/api/" in path and kind not in ("", expected):
            raise HTTPException(415, f"Content-Type is {kind[:80]!r}; {expected} was expected.")


def _refused(request: Request, refusal: HTTPException) -> Response:
    asked_by_a_person = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if refusal.status_code == 401 and asked_by_a_person:
        return RedirectResponse(f"{home(request)}/login", 303)
    # What was sent and not read would be taken for the next request.
    headers = {**(refusal.headers or {}), "connection": "close"}
    return JSONResponse({"error": refusal.detail}, refusal.status_code, headers=headers)


def allowed_host(host: str, names: Iterable[str], *, remote: bool = False) -> bool:
    """Return whether a Host header names this server; any port will do, tunnels change it."""
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", host.lower())
    if found is None:
        return False
    name = found[1].strip("[]")
    if name in names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return remote


async def _whole(scope: Scope, receive: Receive) -> Receive:
    """Return a `receive` that gives the body in one piece, read within bounds."""
    too_long = HTTPException(
        413, f"The body is too long; at most {LONGEST_BODY} bytes were expected."
    )
    length = Headers(scope=scope).get("content-length", "0")
    if not re.fullmatch(r"[0-9]{1,15}", length) or int(length) > LONGEST_BODY:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in Request(scope, receive).stream():
                body += chunk
                if len(body) > LONGEST_BODY:
                    raise too_long
    except TimeoutError:
        raise HTTPException(
            408, f"The body did not come within {BODY_SECONDS:.0f} seconds."
        ) from None
    except ClientDisconnect:
        raise HTTPException(400, "The body was cut off.") from None
    pieces: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def replay() -> Message:
        return pieces.pop() if pieces else await receive()

    return replay

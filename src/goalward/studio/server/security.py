"""Checks of every request, before its body is read: any site in the same browser can send one."""

import asyncio
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from time import monotonic
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from goalward.errors import BadParameter
from goalward.studio.server.auth import OPEN, Auth, Principal
from goalward.studio.server.monitoring import log_reply

LONGEST_BODY = 512 * 1024
"""Bytes: a note of 100,000 characters fits, in any encoding."""
BODY_SECONDS = 10.0
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
UPLOAD = "/api/start/upload"
"""Takes a file instead of JSON; `NewStudy` reads and bounds it."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
HSTS = "max-age=2592000"
"""HTTPS only for 30 days; not for localhost, where other servers have other ports."""


def root(request: HTTPConnection) -> str:
    """Return the path of the study's pages: "" or "/s/mails"."""
    return str(request.scope.get("root_path", ""))


def home(request: HTTPConnection) -> str:
    """Return the path of the whole server: its sign-in page, and the files that pages load."""
    return str(request.scope.get("app_root_path", root(request)))


def route(request: HTTPConnection) -> str:
    """Return the requested path below the application's own."""
    return str(request.scope["path"]).removeprefix(root(request))


def origin(request: HTTPConnection) -> str:
    """Return the scheme and host that the caller used: "https://labels.example"."""
    return f"{request.url.scheme}://{request.url.netloc}"


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address, of IPv4 also where it is written as IPv6; None for any other text."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A scope ("fe80::1%eth0") holds any text.
    scoped = address.version == 6 and address.scope_id is not None
    return None if scoped else getattr(address, "ipv4_mapped", None) or address


@dataclass(frozen=True)
class ProxyConfig:
    """How the page is reached: by which names, below which path, through which proxies."""

    names: tuple[str, ...] = ()
    """Host names besides the addresses."""
    prefix: str = ""
    """The path of the page, as in https://example.org/labels/; proxies pass it on unchanged."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks whose X-Forwarded headers are trusted."""
    user_header: str = ""
    """The header in which these proxies name the member of a team who is signed in."""
    remote: bool = False
    """Whether the server listens beyond the loopback: then its Host may be any address."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", self.prefix.rstrip("/"))
        if not re.fullmatch(r"(/(?!\.)[A-Za-z0-9._~-]+)*", self.prefix):
            raise BadParameter(
                f"--prefix must be a path such as /labels (letters, digits, - . _ ~ between slashes), "
                f"got {self.prefix!r}."
            )
        try:
            list(map(ip_network, self.proxies))
        except ValueError as error:
            raise BadParameter(
                f"--proxy must be an address such as 127.0.0.1 or a network such as 10.0.0.0/24: {error}."
            ) from error
        if self.user_header and not self.proxies:
            raise BadParameter(
                f"--user-header {self.user_header} needs --proxy: name the address of the proxy that "
                "sets it."
            )

    def allows_host(self, host: str) -> bool:
        """Return whether a Host header names this server; with any port, tunnels change it."""
        match = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", host.lower())
        name = match[1].strip("[]") if match else ""
        named = name in LOCAL or name in map(str.lower, self.names)
        return named or (self.remote and _address(name) is not None)


DIRECT = ProxyConfig()


class SecurityMiddleware:
    """Checks a request, finds out who sends it, adds headers to the reply, and counts it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        auth: Auth,
        proxy: ProxyConfig = DIRECT,
        uploads: bool = False,
    ) -> None:
        self.app, self.auth, self.proxy = app, auth, proxy
        self.upload = UPLOAD if uploads else None
        self.forwarded = ProxyHeadersMiddleware(self._answer, list(proxy.proxies))  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] == "http":
            client, port = scope.get("client") or ("", 0)
            client = str(_address(client) or client)
            state, scope["client"] = scope.setdefault("state", {}), (client, port)
            state["began"] = monotonic()
            state["proxied"] = client in self.forwarded.trusted_hosts
            # Sets client and scheme, for trusted proxies only; what follows is ours.
            await self.forwarded(scope, receive, send)  # type: ignore[arg-type]

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        started = False

        async def sealed(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                log_reply(scope, message["status"])
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if request.url.scheme == "https" and request.url.hostname not in LOCAL:
                    headers.setdefault("strict-transport-security", HSTS)
            await send(message)

        try:
            if scope["state"]["proxied"]:
                self._trust(scope)
            self._check_prefix(scope)
            self._check_source(request)
            scope["state"]["principal"] = await self._authenticate(request)
            self._check_form(request)
            if route(request) != self.upload:
                receive = await _whole_body(scope, receive)
        except HTTPException as refusal:
            await _refused(request, refusal)(scope, receive, sealed)
            return
        try:
            await self.app(scope, receive, sealed)
        except BaseException:
            if not started:
                log_reply(scope, 500)
            raise

    def _trust(self, scope: Scope) -> None:
        """Use the host and user that a trusted proxy names; of several values, the last is its own."""
        headers = Headers(scope=scope)
        address = _address(scope["client"][0])
        if address is None:
            raise HTTPException(400, "The proxy's X-Forwarded-For does not end in an address.")
        scope["client"] = (str(address), 0)
        if hosts := headers.getlist("x-forwarded-host"):
            host = hosts[-1].rpartition(",")[2].strip().encode("latin-1")
            others = [pair for pair in scope["headers"] if pair[0].lower() != b"host"]
            scope["headers"] = [*others, (b"host", host)]
        names = headers.getlist(self.proxy.user_header) if self.proxy.user_header else []
        if len(names) > 1:
            raise HTTPException(
                400, f"{self.proxy.user_header} must come once, got {len(names)} of them."
            )
        if names:
            # Headers are Latin-1 on the wire; proxies write UTF-8.
            name = names[0].encode("latin-1").decode("utf-8", "replace").strip()
            scope["state"]["proxy_user"] = name or None

    def _check_prefix(self, scope: Scope) -> None:
        path, prefix = scope["path"], self.proxy.prefix
        if not prefix:
            return
        if path == prefix:
            raise HTTPException(308, f"The page is at {prefix}/.", {"location": f"{prefix}/"})
        if not path.startswith(f"{prefix}/"):
            raise HTTPException(
                404, f"The page is below {prefix}/. A proxy must pass paths on unchanged."
            )
        scope["root_path"] = prefix

    def _check_source(self, request: Request) -> None:
        headers = request.headers
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.proxy.allows_host(hosts[0]):
            raise HTTPException(
                400, "The Host is not a name of this server. Open the address it printed."
            )
        ours = (f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower())
        if any(origin.lower() not in ours for origin in headers.getlist("origin")):
            raise HTTPException(403, "The request came from another site (its Origin is not ours).")
        # Other ports of this machine are "same-site". Links that work once may come from anywhere.
        from_link = route(request) in ("/start", "/join")
        site = headers.get("sec-fetch-site", "none")
        if not from_link and site not in ("none", "same-origin"):
            raise HTTPException(
                403, "The request came from another site. Paste the address into the address bar."
            )

    async def _authenticate(self, request: Request) -> Principal | None:
        if route(request) in OPEN:
            return None
        principal = await self.auth.principal(request)
        if principal is None:
            raise HTTPException(
                401,
                "You are signed out. Sign in again, in another tab if you like; answers that were "
                "not sent stay in this browser."
                if self.auth.team
                else "A token is needed. Open the link that the server printed.",
                {"www-authenticate": "Bearer"},
            )
        return principal

    def _check_form(self, request: Request) -> None:
        # Bytes that are not UTF-8 would be repaired, into other characters.
        for part in (request.scope.get("raw_path") or b"", request.scope["query_string"]):
            try:
                unquote_to_bytes(part).decode()
            except UnicodeDecodeError:
                raise HTTPException(400, "The address must be percent-encoded UTF-8.") from None
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        upload = route(request) == self.upload
        expected = "application/octet-stream" if upload else "application/json"
        if "/api/" in route(request) and kind not in ("", expected):
            raise HTTPException(415, f"Content-Type must be {expected}, got {kind[:80]!r}.")


def _refused(request: Request, refusal: HTTPException) -> Response:
    from_browser = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if refusal.status_code == 401 and from_browser:
        return RedirectResponse(f"{home(request)}/login", 303)
    # An unread body would be taken for the next request.
    headers = {**(refusal.headers or {}), "connection": "close"}
    return JSONResponse({"error": refusal.detail}, refusal.status_code, headers=headers)


async def _whole_body(scope: Scope, receive: Receive) -> Receive:
    """Return a `receive` that gives the body in one piece, read within limits."""
    too_long = HTTPException(413, f"The body must have at most {LONGEST_BODY} bytes.")
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
            408, f"The body did not arrive within {BODY_SECONDS:.0f} seconds."
        ) from None
    except ClientDisconnect:
        raise HTTPException(400, "The body was cut off.") from None
    pieces: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def replay() -> Message:
        return pieces.pop() if pieces else await receive()

    return replay

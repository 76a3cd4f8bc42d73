"""Authentication and roles. The table in docs/how-to/accounts.csv mirrors the one below."""

import asyncio
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from ipaddress import ip_address, ip_network
from itertools import count
from typing import Annotated, Any, Self

from fastapi import Depends
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from goalward.errors import BadParameter
from goalward.studio.team import ROLES, Person, Team, digest, name_key

AT_ONCE, SECONDS = 10, 6.0
"""Wrong guesses of a network that are free, and the seconds that each further one costs."""
NETWORKS = 10
"""Networks that can guess at one account at full speed before it is paused for all."""
REMEMBERED = 10_000
"""Networks or accounts; the longest quiet is forgotten first."""
HASHES = 2
"""Passphrases that are hashed at a time, each 32 MB and a core."""
LONGEST_LINE = 20
"""Requests of one network that wait for a hash."""
SHORTEST_TOKEN = 16
BROWSERS = {
    "Firefox": "Firefox",
    "Edg": "Edge",
    "OPR": "Opera",
    "Chrome": "Chrome",
    "Safari": "Safari",
}
SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
"""Words of the User-Agent header, the telling ones first."""


def network(address: str) -> str:
    """Return the network of a caller: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4 or parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped if parsed.version == 6 else parsed)
    return str(ip_network((int(parsed), 64), strict=False))


class Attempts:
    """Wrong guesses of each caller, forgotten one every few seconds."""

    def __init__(self, at_once: int = AT_ONCE, seconds: float = SECONDS) -> None:
        self.at_once, self.seconds, self.clock = at_once, seconds, time.monotonic
        self._free_at: OrderedDict[str, float] = OrderedDict()

    def free_at(self, caller: str) -> float:
        """Return when the guesses of a caller are forgotten; 0 for one who made none."""
        return self._free_at.get(caller, 0.0)

    def check(self, caller: str, of: str) -> None:
        """Raise 429 for a caller who has to wait."""
        wait = self.free_at(caller) - self.clock() - self.at_once * self.seconds
        if wait > 0:
            raise HTTPException(
                429,
                f"Too many {of}. Try again in {wait:.0f} seconds.",
                {"retry-after": f"{max(1, wait):.0f}"},
            )

    def failed(self, caller: str) -> None:
        self._free_at[caller] = max(self.free_at(caller), self.clock()) + self.seconds
        self._free_at.move_to_end(caller)
        while len(self._free_at) > REMEMBERED:
            self._free_at.popitem(last=False)


class HashQueue:
    """Callers who wait for a hash, those without wrong guesses first: guessers block nobody."""

    def __init__(self, attempts: Attempts) -> None:
        self.waiting = Counter[str]()
        self._attempts, self._free, self._arrived = attempts, HASHES, count()
        self._line: list[tuple[float, int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Wait for a turn, and pass it on at the end; 429 if too many of one network wait."""
        ahead = self.waiting[caller]
        if ahead >= LONGEST_LINE:
            raise HTTPException(
                429, f"{ahead} sign-ins from {caller} are waiting. Try again in a few seconds."
            )
        if self._free:
            self._free -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            rank = self._attempts.free_at(caller), ahead, next(self._arrived)
            heappush(self._line, (*rank, turn))
            self.waiting[caller] += 1
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._pass_on()
                raise
            finally:
                self.waiting[caller] -= 1
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._line:
            *_, turn = heappop(self._line)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class TokenHolder:
    """Whoever has the token, or a link that the server printed: an owner, under any name."""

    name = None

    def role(self, study: str = "") -> str:
        return "owner"


Principal = Person | TokenHolder


class Auth:
    """A token for programs, links that work once, and sessions in cookies, or a team's passphrases."""

    def __init__(
        self, token: str | None = None, *, port: int = 0, team: Team | None = None
    ) -> None:
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise BadParameter(
                f"The token must have at least {SHORTEST_TOKEN} characters, got {len(token)}. Leave it "
                "out to get a random one."
            )
        self.token, self.team = token or secrets.token_urlsafe(32), team
        self.cookie, self.session = f"goalward_{port}", secrets.token_urlsafe(32)
        self.tokens, self.attempts = Attempts(), Attempts()
        self.accounts = Attempts(NETWORKS * AT_ONCE, SECONDS / NETWORKS)
        self.queue = HashQueue(self.attempts)
        self.seen: dict[str, float] = {}
        """When members of the team last sent a request, since the start."""
        self._hashing = ThreadPoolExecutor(HASHES, "goalward-hashing")
        self._links: set[str] = set()

    def new_link(self) -> str:
        """Return a new token that `redeem` accepts once."""
        token = secrets.token_urlsafe(32)
        self._links.add(digest(token))
        return token

    def redeem(self, token: str) -> bool:
        """Return whether a link's token is valid, and use it up."""
        try:
            self._links.remove(digest(token))
        except KeyError:
            return False
        return True

    def is_token(self, token: str, address: str) -> bool:
        """Return whether this is the token, in constant time; 429 after too many wrong ones."""
        # Checked first: others at this address may have been wrong.
        if secrets.compare_digest(digest(token), digest(self.token)):
            return True
        self.tokens.check(network(address), f"wrong tokens from {address}")
        self.tokens.failed(network(address))
        return False

    def is_session(self, value: str) -> bool:
        return self.team is None and secrets.compare_digest(digest(value), digest(self.session))

    async def sign_in(self, request: Request, team: Team, name: str, passphrase: str) -> str | None:
        """Return a new session; None, after the same time, for a wrong name or passphrase."""
        place, before = _place(request), request.cookies.get(self.cookie, "")
        call = partial(team.sign_in, name, passphrase, place, before)
        return await self._hashed(request, name, call)

    async def join(self, request: Request, team: Team, token: str, passphrase: str) -> str | None:
        """Use up an invitation and return a session; None for an invalid link."""
        caller = network(address_of(request))
        self.attempts.check(caller, f"wrong links from {caller}")
        link = await run_in_threadpool(team.invitation, token)
        if link is None:
            self.attempts.failed(caller)
            return None
        place, before = _place(request), request.cookies.get(self.cookie, "")

        def call() -> str | None:
            return team.sign_in(team.join(token, passphrase), passphrase, place, before)

        return await self._hashed(request, link.name, call)

    async def change(self, request: Request, team: Team, old: str, new: str) -> str | None:
        """Change a passphrase and return the only session; None if the old one is wrong."""
        name, place = request.state.principal.name, _place(request)

        def call() -> str | None:
            changed = team.change_passphrase(name, old, new)
            return team.sign_in(name, new, place) if changed else None

        return await self._hashed(request, name, call)

    async def _hashed(
        self, request: Request, name: str, call: Callable[[], str | None]
    ) -> str | None:
        """Return the result of a call that hashes, in the caller's turn; None is a wrong guess."""
        caller, account = network(address_of(request)), name_key(name[:200])

        def check() -> None:
            self.attempts.check(caller, f"wrong passphrases from {caller}")
            self.accounts.check(account, f"wrong passphrases for {name[:200]}")

        check()
        async with self.queue.turn(caller):
            # Guesses that waited here count before the next is looked at.
            check()
            if await request.is_disconnected():
                raise HTTPException(400, "The connection was closed.")
            session = await asyncio.get_running_loop().run_in_executor(self._hashing, call)
            if session is None:
                self.attempts.failed(caller)
                self.accounts.failed(account)
        return session

    async def principal(self, request: Request) -> Principal | None:
        """Return who a request comes from; None for a stranger."""
        cookie = request.cookies.get(self.cookie, "")
        if self.is_session(cookie):
            return TokenHolder()
        if self.team is not None:
            # Read from disk each time: whoever was removed, by whatever program, is out at once.
            person = await run_in_threadpool(self._member, self.team, request, cookie)
            if person is not None:
                return person
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        bearer = scheme.lower() == "bearer" and self.is_token(token.strip(), address_of(request))
        return TokenHolder() if bearer else None

    def _member(self, team: Team, request: Request, cookie: str) -> Person | None:
        # Set by `SecurityMiddleware` for requests of trusted proxies.
        name: str | None = request.scope["state"].get("proxy_user")
        if name is None:
            person = team.signed_in(cookie) if cookie else None
        else:
            person = team.from_proxy(name, _place(request))
            if person is None:
                raise HTTPException(
                    403, f"{name[:200]} is not a member of the team. Ask one of its owners."
                )
        if person is not None:
            self.seen[person.name] = time.time()
        return person


def address_of(request: Request) -> str:
    """Return the address of the sender."""
    return request.client.host if request.client else ""


def _place(request: Request) -> str:
    """Return where a request comes from, for people: "10.0.0.7, Firefox on Linux"."""
    agent = request.headers.get("user-agent", "")
    browser = next((name for word, name in BROWSERS.items() if f"{word}/" in agent), "")
    system = next((word for word in SYSTEMS if word in agent), "")
    device = " on ".join(filter(None, (browser, system)))
    return ", ".join(filter(None, (address_of(request), device)))


OPEN = frozenset({"/start", "/login", "/join", "/static/app.css", "/static/icon.svg", "/healthz"})
"""Routes without authentication: sign-in with its style, and the health check."""
MEMBER = {
    *("/people", "/logout", "/static/{name}", "/api/studies"),
    *("/api/team", "/api/team/revoke", "/api/team/passphrase"),
}
"""For everybody who is signed in: their own account, and the list of their studies."""
ANNOTATOR = {
    *("/", "/review", "/docs", "/api/events", "/api/refresh"),
    *("/api/ask", "/api/tell", "/api/skip", "/api/undo", "/api/withdraw", "/api/note"),
    *("/api/rows/{row}", "/api/images/{row}", "/api/why/{row}", "/api/words/{row}"),
    *("/api/status", "/api/curve", "/api/utilities", "/api/stop", "/api/answers"),
}
REVIEWER = {
    *("/scores", "/api/scores", "/api/agreement", "/api/classes"),
    *("/api/export", "/api/predictions"),
}
NEEDED = dict.fromkeys(ANNOTATOR, "annotator") | dict.fromkeys(REVIEWER, "reviewer")


@dataclass(frozen=True)
class Caller:
    """Who sends a request, and the identity of the study it is about ("" for none)."""

    principal: Principal
    study: str

    @classmethod
    def of(cls, request: Request) -> Self:
        """Return the caller of a request; nobody has to be signed in for the routes of `OPEN`."""
        served = getattr(request.app.state, "served", None)
        return cls(request.state.principal or Person(""), "" if served is None else served.id)

    def may(self, path: str) -> bool:
        if path in MEMBER or (path == "/" and not self.study):
            return True
        # Owners of one study own neither the others nor the team.
        role = self.principal.role("" if path.startswith("/api/team") else self.study)
        return role is not None and ROLES.index(role) >= ROLES.index(NEEDED.get(path, "owner"))

    @property
    def signature(self) -> str:
        return self.principal.name or "token"

    @property
    def owns_team(self) -> bool:
        return self.may("/api/team/remove")

    @property
    def own(self) -> str | None:
        """The name of a caller who sees only their own answers and notes; None for all others."""
        return None if self.may("/api/agreement") else self.principal.name

    def annotator(self, claimed: str | None) -> str:
        """Return the name that is stored: of whoever signed in, or the one a program claims."""
        name = self.principal.name
        if name is not None and claimed not in (None, name):
            raise HTTPException(
                403,
                f"{name} is signed in here and cannot answer for {claimed}; nothing was stored. "
                f"Unsent answers stay in this browser until {claimed} signs in again.",
                {"x-goalward-person": "other"},
            )
        if name is None and claimed is None:
            raise HTTPException(422, "body.by: the name of the annotator is needed.")
        return str(name or claimed)


async def _caller(request: Request) -> Caller:
    return Caller.of(request)


CallerOf = Annotated[Caller, Depends(_caller)]


def from_state(name: str) -> Any:
    """Return a dependency on an attribute of the application's state."""

    async def value(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(value)


async def allowed(request: Request, caller: CallerOf) -> None:
    """Refuse a request that needs a higher role."""
    path = request.scope["route"].path
    if path not in OPEN and not caller.may(path):
        role = caller.principal.role(caller.study) or "nobody"
        raise HTTPException(
            403,
            f"{caller.principal.name} is {role} here, and this needs the role "
            f"{NEEDED.get(path, 'owner')}. Ask an owner of the team.",
        )


async def still_allowed(request: Request, caller: Caller) -> bool:
    """Return whether the listener of a stream is still signed in and allowed."""
    auth: Auth = request.app.state.auth
    if auth.team is None:
        return True
    try:
        principal = await auth.principal(request)
    except HTTPException:
        return False
    path = request.scope["route"].path
    return principal is not None and Caller(principal, caller.study).may(path)

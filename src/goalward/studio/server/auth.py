"""Authentication: the token, links that work once, sessions, and limits on guessing them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from ipaddress import ip_address, ip_network
from itertools import count

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from goalward.errors import BadParameter
from goalward.studio.team import Person, Team, digest, name_key

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
    """Return what counts as one caller: an IPv4 address, or the /64 of an IPv6 address.

    Examples
    --------
    >>> network("10.0.0.7"), network("::ffff:10.0.0.7"), network("2001:db8::7")
    ('10.0.0.7', '10.0.0.7', '2001:db8::/64')
    """
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if found.version == 4 or found.ipv4_mapped:
        return str(found.ipv4_mapped if found.version == 6 else found)
    return str(ip_network((int(found), 64), strict=False))


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
        """Count a wrong guess."""
        self._free_at[caller] = max(self.free_at(caller), self.clock()) + self.seconds
        self._free_at.move_to_end(caller)
        while len(self._free_at) > REMEMBERED:
            self._free_at.popitem(last=False)


class HashQueue:
    """Callers who wait for a hash: those who never guessed wrong first, equals in turns.

    Without it, whoever sends many wrong passphrases keeps everybody else from signing in.
    """

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
        """Return the role, the same in every study."""
        return "owner"


Principal = Person | TokenHolder
"""Who a request comes from."""


class Auth:
    """What opens a server: a token for programs, links that work once, sessions in cookies.

    All but a given token is new with each start. With a team, people sign in by name and
    passphrase, and programs with the token.

    Parameters
    ----------
    port
        Cookies are shared between ports, so the name of ours contains it.
    """

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
        """Return whether this is the value of the cookie, in constant time."""
        return self.team is None and secrets.compare_digest(digest(value), digest(self.session))

    async def sign_in(self, request: Request, team: Team, name: str, passphrase: str) -> str | None:
        """Return a new session; None, after the same time, for a wrong name or passphrase."""
        place, before = _place(request), request.cookies.get(self.cookie, "")
        return await self._hashed(
            request, name, lambda: team.sign_in(name, passphrase, place, before)
        )

    async def join(self, request: Request, team: Team, token: str, passphrase: str) -> str | None:
        """Use up an invitation and return a session; None for an invalid link."""
        caller = network(address_of(request))
        self.attempts.check(caller, f"wrong links from {caller}")
        link = await run_in_threadpool(team.invitation, token)
        if link is None:
            self.attempts.failed(caller)
            return None
        place, before = _place(request), request.cookies.get(self.cookie, "")
        return await self._hashed(
            request,
            link.name,
            lambda: team.sign_in(team.join(token, passphrase), passphrase, place, before),
        )

    async def change(self, request: Request, team: Team, old: str, new: str) -> str | None:
        """Change a passphrase and return the only session; None if the old one is wrong."""
        name, place = request.state.principal.name, _place(request)
        return await self._hashed(
            request,
            name,
            lambda: (
                team.sign_in(name, new, place) if team.change_passphrase(name, old, new) else None
            ),
        )

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
    """Return the address that a request came from."""
    return request.client.host if request.client else ""


def _place(request: Request) -> str:
    """Return where a request comes from, for people: "10.0.0.7, Firefox on Linux"."""
    agent = request.headers.get("user-agent", "")
    browser = next((name for word, name in BROWSERS.items() if f"{word}/" in agent), "")
    system = next((word for word in SYSTEMS if word in agent), "")
    device = " on ".join(filter(None, (browser, system)))
    return ", ".join(filter(None, (address_of(request), device)))

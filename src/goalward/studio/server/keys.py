"""What opens a server, and who it lets in."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address, ip_network
from time import monotonic

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from goalward.errors import BadParameter
from goalward.studio.team import Person, Team, key

__all__ = ["Attempts", "Keys", "Speaker", "TokenHolder", "Turns", "caller", "network"]


# Guesses at a secret, slowed down: a few at once, then one every few seconds.
#
# Hashing a passphrase takes a core for a while, and anybody may ask for it. So it is done for a few
# callers at a time, and who guessed least goes first.


AT_ONCE = 10
SECONDS = 6.0
REMEMBERED = 10_000
"""Addresses or accounts; the longest quiet is forgotten first."""
HASHES = 2
"""At a time, each 32 MB and a core."""
LONGEST_LINE = 20
"""Callers of one network that wait for their turn."""


def network(address: str) -> str:
    """Return who is counted as one caller: an IPv4 address, or the /64 of an IPv6 address.

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
    """How often each caller was wrong, which wears off.

    Examples
    --------
    >>> attempts = Attempts()
    >>> for _ in range(11):
    ...     attempts.failed("10.0.0.7")
    >>> attempts.wait("10.0.0.7") > 0, attempts.wait("10.0.0.8")
    (True, 0.0)
    """

    def __init__(
        self,
        at_once: int = AT_ONCE,
        seconds: float = SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.at_once, self.seconds, self.clock = at_once, seconds, clock
        self._free_at: OrderedDict[str, float] = OrderedDict()

    def free_at(self, who: str) -> float:
        """Return when the wrong guesses of a caller have worn off; 0 for one who made none."""
        return self._free_at.get(who, 0.0)

    def wait(self, who: str) -> float:
        """Return the seconds until a caller may try again."""
        return max(0.0, self.free_at(who) - self.clock() - self.at_once * self.seconds)

    def failed(self, who: str) -> None:
        """Note a wrong guess."""
        self._free_at[who] = max(self.free_at(who), self.clock()) + self.seconds
        self._free_at.move_to_end(who)
        while len(self._free_at) > REMEMBERED:
            self._free_at.popitem(last=False)


class Turns:
    """A few callers at a time: first who was never wrong, last who was so most, equals in turns."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts, self._free = attempts, HASHES
        self.waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """Wait for a turn, and pass it on at the end; 429 where too many of one network wait."""
        if len(self.waiting.get(who, ())) >= LONGEST_LINE:
            raise HTTPException(
                429, f"{LONGEST_LINE} sign-ins from {who} wait already; try again in a few seconds."
            )
        if self._free:
            self._free -= 1
        else:
            mine = asyncio.get_running_loop().create_future()
            self.waiting.setdefault(who, deque()).append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if not mine.cancelled():
                    self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while self.waiting:
            who = min(self.waiting, key=self._attempts.free_at)
            line = self.waiting.pop(who)
            next_one = line.popleft()
            if line:
                # Behind its equals.
                self.waiting[who] = line
            if not next_one.cancelled():
                next_one.set_result(None)
                return
        self._free += 1


NETWORKS = 10
"""That can guess at one account at full speed before it is paused: one alone cannot pause it."""
SHORTEST_TOKEN = 16
AGENTS = ("Firefox", "Edg", "OPR", "Chrome", "Safari")
SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
"""What browsers say of themselves, the telling words first."""


def caller(request: Request) -> str:
    """Return the address that a request came from."""
    return request.client.host if request.client else ""


@dataclass(frozen=True)
class TokenHolder:
    """Whoever has the token, or a link that the server printed: an owner, by any name."""

    name = None

    def role(self, study: str = "") -> str:
        """Return what they may do, in every study."""
        return "owner"


Speaker = Person | TokenHolder
"""Who a request comes from."""


class Keys:
    """What opens a server: a token for programs, links that work once, a cookie for browsers.

    All but a token that was given is new with each start. With a team, people sign in by name, and
    programs by the token.

    Parameters
    ----------
    token
        For programs (`Authorization: Bearer ...`) and the sign-in page; random by default.
    port
        Cookies do not tell ports apart, so the name of ours does.
    team
        Who may come in, by name and passphrase.

    Examples
    --------
    >>> keys = Keys()
    >>> link = keys.link()
    >>> keys.redeem(link), keys.redeem(link)
    (True, False)
    """

    def __init__(
        self, token: str | None = None, *, port: int = 0, team: Team | None = None
    ) -> None:
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise BadParameter(
                f"The token has {len(token)} characters; at least {SHORTEST_TOKEN} were expected. Leave it "
                "out to get a random one."
            )
        self.token = token or secrets.token_urlsafe(32)
        self.cookie = f"goalward_{port}"
        self.session = secrets.token_urlsafe(32)
        self.tokens, self.attempts = Attempts(), Attempts()
        self.accounts = Attempts(NETWORKS * AT_ONCE, SECONDS / NETWORKS)
        self.turns = Turns(self.attempts)
        self.team = team
        self.seen: dict[str, float] = {}
        """When somebody of the team was last heard, since the start."""
        self._hashing = ThreadPoolExecutor(HASHES, "goalward-hashing")
        self._links: set[bytes] = set()

    def link(self) -> str:
        """Return a new token that `redeem` takes once."""
        token = secrets.token_urlsafe(32)
        self._links.add(_digest(token))
        return token

    def redeem(self, token: str) -> bool:
        """Return whether a link's token is good, which it then no longer is."""
        # Digests are compared by hash, so the time says nothing about the token.
        try:
            self._links.remove(_digest(token))
        except KeyError:
            return False
        return True

    def is_token(self, token: str, address: str) -> bool:
        """Return whether this is the token, in constant time; 429 for who is wrong too often."""
        # A right one always counts: others at this address may have been wrong.
        if secrets.compare_digest(_digest(token), _digest(self.token)):
            return True
        _slow_down(self.tokens, network(address), f"wrong tokens came from {address}")
        self.tokens.failed(network(address))
        return False

    def is_session(self, value: str) -> bool:
        """Return whether this is the cookie's value, in constant time."""
        return self.team is None and secrets.compare_digest(_digest(value), _digest(self.session))

    async def sign_in(self, request: Request, team: Team, name: str, passphrase: str) -> str | None:
        """Return a new session of somebody; None, after the same time, for a wrong name too."""
        place, before = place_of(request), request.cookies.get(self.cookie, "")
        return await self._tried(
            request, name, lambda: team.sign_in(name, passphrase, place, before)
        )

    async def join(self, request: Request, team: Team, invite: str, passphrase: str) -> str | None:
        """Take up an invitation and return a session; None for a link that is none."""
        guesser = network(caller(request))
        _slow_down(self.attempts, guesser, f"wrong links came from {guesser}")
        link = await run_in_threadpool(team.invitation, invite)
        if link is None:
            self.attempts.failed(guesser)
            return None
        place, before = place_of(request), request.cookies.get(self.cookie, "")
        return await self._tried(
            request,
            link.name,
            lambda: team.sign_in(team.join(invite, passphrase), passphrase, place, before),
        )

    async def change(self, request: Request, team: Team, old: str, new: str) -> str | None:
        """Give somebody another passphrase and return their only session; None: the old is wrong."""
        name, place = request.state.person.name, place_of(request)
        return await self._tried(
            request,
            name,
            lambda: team.sign_in(name, new, place) if team.change(name, old, new) else None,
        )

    async def _tried(
        self, request: Request, name: str, hashed: Callable[[], str | None]
    ) -> str | None:
        """Return what a call that hashes returns, in its caller's turn; None counts as a wrong guess."""
        guesser, account = network(caller(request)), key(name[:200])

        def slow_down() -> None:
            _slow_down(self.attempts, guesser, f"wrong passphrases came from {guesser}")
            _slow_down(self.accounts, account, f"wrong passphrases came for {name[:200]}")

        slow_down()
        async with self.turns.turn(guesser):
            # Guesses that waited here count before the next is looked at.
            slow_down()
            if await request.is_disconnected():
                raise HTTPException(400, "The caller hung up.")
            loop = asyncio.get_running_loop()
            session = await loop.run_in_executor(self._hashing, hashed)
            if session is None:
                self.attempts.failed(guesser)
                self.accounts.failed(account)
        return session

    async def speaker(self, request: Request) -> Speaker | None:
        """Return who a request comes from; None for nobody we know."""
        cookie = request.cookies.get(self.cookie, "")
        person: Speaker | None = TokenHolder() if self.is_session(cookie) else None
        if self.team is not None:
            # A look at the disk: who was removed a moment ago, by whatever program, is out.
            person = await run_in_threadpool(self._member, self.team, request, cookie)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if person is None and scheme.lower() == "bearer":
            return TokenHolder() if self.is_token(token.strip(), caller(request)) else None
        return person

    def _member(self, team: Team, request: Request, cookie: str) -> Person | None:
        # Whom a proxy of ours names; see `Outside`.
        name: str | None = request.scope["state"].get("named")
        if name is None:
            person = team.who(cookie) if cookie else None
        else:
            person = team.named(name, place_of(request))
            if person is None:
                raise HTTPException(
                    403, f"{name[:200]} does not belong to the team; ask one of its owners."
                )
        if person is not None:
            self.seen[person.name] = time.time()
        return person


def _slow_down(attempts: Attempts, who: str, said: str) -> None:
    if wait := attempts.wait(who):
        raise HTTPException(
            429,
            f"Too many {said}; try again in {wait:.0f} seconds.",
            {"retry-after": f"{max(1, wait):.0f}"},
        )


def place_of(request: Request) -> str:
    """Return where a request comes from, for people: "10.0.0.7, Firefox on Linux"."""
    agent = request.headers.get("user-agent", "")
    browser = next((word for word in AGENTS if f"{word}/" in agent), "")
    system = next((word for word in SYSTEMS if word in agent), "")
    named = {"Edg": "Edge", "OPR": "Opera"}.get(browser, browser)
    return ", ".join(filter(None, (caller(request), " on ".join(filter(None, (named, system))))))


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()

"""What opens a server, and who it lets in."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from hashlib import sha256

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from goalward.errors import BadParameter
from goalward.server.attempts import Attempts
from goalward.team import Person, Team

__all__ = ["Keys", "Speaker", "TokenHolder", "caller"]

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
        self.attempts = Attempts()
        self.team = team
        self.seen: dict[str, float] = {}
        """When somebody of the team was last heard, since the start."""
        # A guess takes 32 MB and a core for a while: two at a time, the others wait without a thread.
        self._looking = asyncio.Semaphore(2)
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
        """Return whether this is the token, in constant time; 429 for who guessed too often."""
        self._slow_down(address)
        if secrets.compare_digest(_digest(token), _digest(self.token)):
            return True
        self.attempts.failed(address, _digest(token))
        return False

    def _slow_down(self, address: str) -> None:
        if wait := self.attempts.wait(address):
            raise HTTPException(
                429,
                f"Too many wrong tokens or passphrases came from {address}; try again in {wait:.0f} "
                "seconds.",
                {"retry-after": f"{wait:.0f}"},
            )

    def is_session(self, value: str) -> bool:
        """Return whether this is the cookie's value, in constant time."""
        return self.team is None and secrets.compare_digest(_digest(value), _digest(self.session))

    async def sign_in(self, request: Request, team: Team, name: str, passphrase: str) -> str | None:
        """Return a new session of somebody; None, after the same time, for a wrong name too."""
        address, before = caller(request), request.cookies.get(self.cookie, "")
        async with self._looking:
            # Guesses that waited here count before the next is looked at.
            self._slow_down(address)
            session = await run_in_threadpool(
                team.sign_in, name, passphrase, place_of(request), before
            )
            if session is None:
                self.attempts.failed(address, _digest(f"{name}\n{passphrase}"))
        return session

    async def join(self, request: Request, team: Team, invite: str, passphrase: str) -> str:
        """Take up an invitation and return a session."""
        self._slow_down(caller(request))
        try:
            async with self._looking:
                name = await run_in_threadpool(team.join, invite, passphrase)
        except BadParameter:
            self.attempts.failed(caller(request), _digest(f"{invite}\n{passphrase}"))
            raise
        session = await self.sign_in(request, team, name, passphrase)
        assert session is not None
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


def place_of(request: Request) -> str:
    """Return where a request comes from, for people: "10.0.0.7, Firefox on Linux"."""
    agent = request.headers.get("user-agent", "")
    browser = next((word for word in AGENTS if f"{word}/" in agent), "")
    system = next((word for word in SYSTEMS if word in agent), "")
    named = {"Edg": "Edge", "OPR": "Opera"}.get(browser, browser)
    return ", ".join(filter(None, (caller(request), " on ".join(filter(None, (named, system))))))


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()

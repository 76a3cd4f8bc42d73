"""Guesses at a secret, slowed down: a few at once, then one every few seconds.

Hashing a passphrase takes a core for a while, and anybody may ask for it. So it is done for a few
callers at a time, and who guessed least goes first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_network
from time import monotonic

from starlette.exceptions import HTTPException

__all__ = ["Attempts", "Turns", "network"]

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

"""Connections that cannot starve others: who asks for nothing makes room for who does.

A connection costs a descriptor before a token is seen. So a request has to come whole and its reply
has to be taken, both within a time, and when there are too many connections one is closed: of those
that are not signed in, the oldest of the network that has most. Under TLS a connection is not known
to the server until its handshake is done: `Listener` counts those.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from goalward.studio.server.keys import network

__all__ = ["Connection", "Listener"]

HEADER_SECONDS = 10.0
"""For a request to be there whole, but for its body."""
WRITE_SECONDS = 30.0
"""For a piece of a reply to be taken."""
HANDSHAKES = 128
"""Connections whose handshake is not done."""
MOST = 200
"""Connections; a program may have 256 descriptors, on some systems, and files need theirs."""


class Handshake(NamedTuple):
    """A connection that was taken and whose handshake is not done."""

    number: int
    socket: socket.socket
    network: str
    late: asyncio.TimerHandle

    def abort(self) -> None:
        """Close it; whoever reads from it learns that it has ended."""
        self.late.cancel()
        with suppress(OSError):  # closed already
            self.socket.shutdown(socket.SHUT_RDWR)


_handshakes: dict[int, Handshake] = {}
"""By descriptor, of which a process has each once; oldest first."""


class Listener(socket.socket):
    """A listening socket whose handshakes are bounded as `Connection` bounds requests."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Take a connection, at the cost of one whose handshake is not done."""
        taken, address = super().accept()
        number = taken.fileno()
        # What had this number before is closed.
        _done(number)
        late = asyncio.get_running_loop().call_later(HEADER_SECONDS, _too_late, number)
        _handshakes[number] = Handshake(number, taken, network(address[0]), late)
        if len(_handshakes) > HANDSHAKES:
            _too_late(_crowding([*_handshakes.values()]).number)
        return taken, address


def _done(number: int) -> None:
    if known := _handshakes.pop(number, None):
        known.late.cancel()


def _too_late(number: int) -> None:
    _handshakes.pop(number).abort()


class Connection(H11Protocol):
    """A connection that is closed when it is too slow, or when others need its place."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.since = 0.0
        self._late: asyncio.TimerHandle | None = None
        self._slow: asyncio.TimerHandle | None = None

    @property
    def network(self) -> str:
        """Return where it comes from."""
        return network(self.client[0]) if self.client else ""

    @property
    def signed_in(self) -> bool:
        """Return whether its last request came from somebody we know."""
        return self.scope is not None and self.scope["state"].get("person") is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, at the cost of another where there are too many."""
        super().connection_made(transport)
        _done(transport.get_extra_info("socket").fileno())
        # Whatever the system does not take at once pauses us, and the time for that is bounded.
        transport.set_write_buffer_limits(high=1, low=0)
        self._wait()
        every = [one for one in self.connections if isinstance(one, Connection)]
        if len(every) > MOST:
            others = sorted((one for one in every if one is not self), key=lambda one: one.since)
            _crowding([one for one in others if not one.signed_in] or others).abort()

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._late is None:
            self._wait()

    def pause_writing(self) -> None:
        """Begin to wait for a caller who does not take a reply."""
        super().pause_writing()
        self._slow = self.loop.call_later(WRITE_SECONDS, self.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._slow is not None:
            self._slow.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close at once: it counts no longer, though its end is noticed later."""
        self._stop_waiting()
        self.connections.discard(self)
        self.transport.abort()

    def _wait(self) -> None:
        self.since = self.loop.time()
        self._late = self.loop.call_later(HEADER_SECONDS, self.abort)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


One = TypeVar("One", Connection, Handshake)


def _crowding(found: Sequence[One]) -> One:
    """Return the first of the network that has most."""
    ((most, _),) = Counter(one.network for one in found).most_common(1)
    return next(one for one in found if one.network == most)

"""Connections that cannot starve others: who does not say what they want makes room for who does.

A connection costs a descriptor before a token is seen. So those whose request is not there yet are
few, and short: when there are too many the oldest is closed, of the same address first. Whoever
sends a request at once, as browsers do, is not among them for long. Under TLS a connection is not
known to the server until its handshake is done: `Listener` counts those.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, NamedTuple

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection", "Listener"]

HEADER_SECONDS = 10.0
"""For a request to be there whole, but for its body."""
WAITING, WAITING_EACH = 128, 100
"""Connections without a request: of all, and of one address, which a proxy or an office may be."""
MOST = 200
"""Connections; a program may have 256 descriptors, on some systems, and files need theirs."""


class Handshake(NamedTuple):
    """A connection that was taken and whose handshake is not done."""

    socket: socket.socket
    address: Any
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
        number, host = taken.fileno(), address[0]
        # What had this number before is closed.
        _done(number)
        late = asyncio.get_running_loop().call_later(HEADER_SECONDS, _too_late, number)
        _handshakes[number] = Handshake(taken, host, late)
        near = [n for n, one in _handshakes.items() if one.address == host]
        crowded = near if len(near) > WAITING_EACH else [*_handshakes]
        if len(near) > WAITING_EACH or len(_handshakes) > WAITING:
            _too_late(crowded[0])
        return taken, address


def _done(number: int) -> None:
    if known := _handshakes.pop(number, None):
        known.late.cancel()


def _too_late(number: int) -> None:
    _handshakes.pop(number).abort()


class Connection(H11Protocol):
    """A connection that is closed when its request does not come, or when others need its place."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.since = 0.0
        self._late: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """Whether a request is still to come."""
        return self._late is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, at the cost of one that waits."""
        super().connection_made(transport)
        _done(transport.get_extra_info("socket").fileno())
        self._wait()
        others = [one for one in self.connections if isinstance(one, Connection) and one.waiting]
        near = [one for one in others if _address(one) == _address(self)]
        crowded = near if len(near) > WAITING_EACH else others if len(others) > WAITING else []
        if crowded:
            min(crowded, key=lambda one: one.since).abort()
        if len(self.connections) > MOST:
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif not self.waiting:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._stop_waiting()
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


def _address(connection: Connection) -> str | None:
    return connection.client[0] if connection.client else None

"""Limits on connections, so that those who send nothing cannot keep others out.

uvicorn has no time limit for headers, handshakes and replies, and at `limit_concurrency` it refuses
everybody. Here a request must arrive and its reply be taken within a time, and when there are too
many connections one is closed: of those that are not signed in, the oldest of the network that has
most.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from goalward.studio.server.auth import network

HEADER_SECONDS = 10.0
"""For the handshake and the headers of a request to arrive."""
WRITE_SECONDS = 30.0
"""For a piece of a reply to be taken."""
MOST = 200
"""Connections; some systems allow a program 256 descriptors, and files need theirs."""


class Peer:
    """An accepted connection, known before its TLS handshake is done, and its deadline."""

    def __init__(self, peers: dict[int, Peer], taken: socket.socket, address: str) -> None:
        self.peers, self.socket, self.number = peers, taken, taken.fileno()
        self.network = network(address)
        self.protocol: Connection | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.allow(HEADER_SECONDS)

    @property
    def signed_in(self) -> bool:
        """Whether its last request was authenticated."""
        scope = self.protocol.scope if self.protocol else None
        return scope is not None and scope["state"].get("principal") is not None

    def allow(self, seconds: float | None) -> None:
        """Close the connection after a time; None takes a deadline away."""
        if self._deadline is not None:
            self._deadline.cancel()
        loop = asyncio.get_running_loop()
        self._deadline = None if seconds is None else loop.call_later(seconds, self.close)

    def forget(self) -> None:
        """Count no longer; the descriptor may be another connection's by now."""
        self.allow(None)
        if self.peers.get(self.number) is self:
            del self.peers[self.number]

    def close(self) -> None:
        """Close the connection at once."""
        self.forget()
        if self.protocol is not None:
            self.protocol.transport.abort()
        else:
            with suppress(OSError):  # closed already
                self.socket.shutdown(socket.SHUT_RDWR)


class Listener(socket.socket):
    """A listening socket that knows the connections it accepted, by descriptor, oldest first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.peers: dict[int, Peer] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection, and close another if there are too many."""
        taken, address = super().accept()
        if same := self.peers.get(taken.fileno()):
            same.forget()
        if len(self.peers) >= MOST:
            strangers = [peer for peer in self.peers.values() if not peer.signed_in]
            crowd = strangers or [*self.peers.values()]
            ((busiest, _),) = Counter(peer.network for peer in crowd).most_common(1)
            next(peer for peer in crowd if peer.network == busiest).close()
        self.peers[taken.fileno()] = Peer(self.peers, taken, address[0])
        return taken, address


class Connection(H11Protocol):
    """A connection that keeps its deadlines."""

    def __init__(self, peers: dict[int, Peer], **options: Any) -> None:
        super().__init__(**options)
        self.peers, self.waiting = peers, True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, after the handshake."""
        super().connection_made(transport)
        # Whatever the system does not take at once pauses us, and the time for that is bounded.
        transport.set_write_buffer_limits(high=1, low=0)
        taken = transport.get_extra_info("socket")
        # Closed in the meantime, it is forgotten already.
        self.peer = self.peers.get(taken.fileno()) or Peer(self.peers, taken, "")
        self.peer.protocol = self

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request; its headers must arrive in time."""
        super().data_received(data)
        waiting = self.cycle is None or self.cycle.response_complete
        if waiting != self.waiting:
            self.waiting = waiting
            if not self.flow.write_paused:
                self._set_deadline()

    def pause_writing(self) -> None:
        """Wait, for a time, until the caller takes a reply."""
        super().pause_writing()
        self.peer.allow(WRITE_SECONDS)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        self._set_deadline()

    def _set_deadline(self) -> None:
        self.peer.allow(HEADER_SECONDS if self.waiting else None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.peer.forget()
        super().connection_lost(exc)

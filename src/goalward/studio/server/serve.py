"""Running the page: a socket, a link to it, a browser, and a clean end."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import ssl
import threading
import webbrowser
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from html import escape
from ipaddress import ip_address
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from goalward.errors import BadParameter
from goalward.studio.server.app import create_app
from goalward.studio.server.auth import Auth, network
from goalward.studio.server.monitoring import logging_to
from goalward.studio.server.new_study import NewStudy, Serving
from goalward.studio.server.pages import BELOW
from goalward.studio.server.process import RemoteRefitter
from goalward.studio.server.security import DIRECT, ProxyConfig
from goalward.studio.server.served_study import ServedStudy
from goalward.studio.study import Study
from goalward.studio.team import Team

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
        super().pause_writing()
        self.peer.allow(WRITE_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._set_deadline()

    def _set_deadline(self) -> None:
        self.peer.allow(HEADER_SECONDS if self.waiting else None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.peer.forget()
        super().connection_lost(exc)


LOG = logging.getLogger(__name__)
PORT = 8321
"""Tried first, so that a page that is open finds the server again after a restart."""


def serve(
    studies: Mapping[str, Study],
    *,
    unopened: Mapping[str, str] | None = None,
    table: Path | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    team: str | Path | None = None,
    proxy: ProxyConfig = DIRECT,
    tls: tuple[Path, Path] | None = None,
    browser: bool = True,
    log: Path | None = None,
    **display: Any,
) -> None:
    """Serve the page until Ctrl-C; `display` are options of `ServedStudy`.

    Studies are by name, each at /s/NAME; "" has the whole server, and without any the page creates one.
    A `host` beyond the loopback needs a `token` of your own or a `team`. `tls` are the files of the
    certificate chain and of its key; `log` is a file for JSON lines, or "-" for stderr.
    """
    remote = not is_loopback(host)
    if remote and token is None and team is None:
        raise BadParameter(
            f"Other machines can reach {host}, so a token of at least 16 characters or a team is "
            "needed. Pass --team or --token-file; and since HTTP is not encrypted, --tls-cert and "
            "--tls-key too, or use an SSH tunnel."
        )
    if proxy.user_header and team is None:
        raise BadParameter("--user-header needs --team: a team that has these names.")
    names = (*proxy.names, socket.gethostname()) if remote else proxy.names
    proxy = replace(proxy, remote=remote, names=names)
    with ExitStack() as opened, suppress(KeyboardInterrupt):
        members = opened.enter_context(closing(Team.open(team))) if team is not None else None
        _check_tls(tls)
        listener = opened.enter_context(listening(host, port))
        number, scheme = listener.getsockname()[1], "https" if tls else "http"
        auth = Auth(token, port=number, team=members)
        address = f"{scheme}://{proxy.names[0]}:{number}" if proxy.names else None
        # Fits are in a process of their own, so that no answer waits for them.
        display = {"refitter": RemoteRefitter, **display}
        serving: Serving = partial(ServedStudy, auth=auth, address=address, **display)
        served = {name: serving(study) for name, study in studies.items()}
        new = None if studies else NewStudy(auth, serving, Path(), table)
        app = create_app(served, auth, unopened=unopened, new=new, proxy=proxy)

        class Server(uvicorn.Server):
            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                for served in filter(None, app.state.studies.values()):
                    served.live.close()
                # Not later: a signal may end the process as soon as the server has ended.
                shown.close()
                super().handle_exit(sig, frame)

        local = "127.0.0.1" if host in ("0.0.0.0", "::") else host
        here = f"{scheme}://[{local}]:{number}" if ":" in local else f"{scheme}://{local}:{number}"
        link, once = f"{here}{proxy.prefix}/", "Sign in by name."
        if members is None:
            link, once = f"{link}start?token={auth.new_link()}", "The link works once."
        below = "".join(f"\n  {here}{proxy.prefix}{BELOW}/{name}/" for name in studies if name)
        print(f"Label at {link}{below}\n{once} Ctrl-C ends; every answer is saved.", flush=True)
        opened.enter_context(logging_to(log))
        shown = opened.enter_context(ExitStack())
        if browser:
            path = redirect_file(link)
            shown.callback(shutil.rmtree, path.parent, ignore_errors=True)
            threading.Thread(target=webbrowser.open, args=(path.as_uri(),), daemon=True).start()
        LOG.info("serving at %s", here)
        Server(uvicorn_config(app, listener, tls)).run(sockets=[listener])
        LOG.info("ended")


def uvicorn_config(
    app: ASGIApp, listener: Listener, tls: tuple[Path, Path] | None = None
) -> uvicorn.Config:
    """Return the configuration of the server."""
    certificate, key = tls or (None, None)
    return uvicorn.Config(
        app,
        http=partial(Connection, listener.peers),  # type: ignore[arg-type]
        loop="asyncio",  # others accept connections past our `Listener`
        ws="none",
        log_config=None,  # see `logging_to`
        log_level="error",
        access_log=False,  # it would hold the tokens of links
        server_header=False,
        proxy_headers=False,  # see `SecurityMiddleware`
        timeout_graceful_shutdown=3,
        timeout_keep_alive=30,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


def _check_tls(tls: tuple[Path, Path] | None) -> None:
    if tls is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*tls)
    except OSError as error:  # ssl.SSLError is one
        raise BadParameter(
            f"The certificate {tls[0]} and key {tls[1]} cannot be used ({error}). Pass two PEM files, "
            "the key without a passphrase."
        ) from error


def redirect_file(link: str) -> Path:
    """Return a private file that redirects to a link: a browser's arguments are visible to all users."""
    # Browsers in a sandbox, such as snaps, cannot read /tmp.
    home = Path.home()
    folder = mkdtemp(prefix="goalward-", dir=home if os.access(home, os.W_OK) else None)
    path = Path(folder) / "open.html"
    path.touch(mode=0o600)
    path.write_text(f'<meta http-equiv="refresh" content="0;url={escape(link)}">')
    return path


def listening(host: str, port: int | None) -> Listener:
    """Return a socket that listens on `port`, or on the usual one, or on any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem: Any = None
    for number in (PORT, 0) if port is None else (port,):
        # The protocol by its name: asyncio sets TCP_NODELAY, worth 40 ms an answer, only then.
        listener = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen(128)
            return listener
        except (OSError, OverflowError) as error:
            listener.close()
            problem = error
    raise BadParameter(
        f"Cannot listen on {host}:{port if port is not None else PORT} ({problem}). Choose another "
        "--port, or leave it out."
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

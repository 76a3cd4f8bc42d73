"""Running the page: a socket, a link to it, a browser, and a clean end."""

from __future__ import annotations

import socket
import sys
import threading
import webbrowser
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Unpack

import uvicorn

from goalward.errors import BadParameter
from goalward.server.app import create_app
from goalward.server.desk import Desk
from goalward.server.guard import Keys
from goalward.server.served_study import ServedStudy, Shown
from goalward.study import Study

__all__ = ["PORT", "listening", "serve"]

PORT = 8321
"""Tried first, so that a page that is open finds the server again after a restart."""


def serve(
    study: Study | Path | None,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    names: Iterable[str] = (),
    browser: bool = True,
    **shown: Unpack[Shown],
) -> None:
    """Serve the page over a study until Ctrl-C.

    Parameters
    ----------
    study
        Or the table of one that is still to be made on the page; None: it is chosen there.
    host
        Another than the loopback needs a `token` of your own: whoever has it can read the pool
        and answer.
    names
        Host names the server is reached by, besides its addresses.
    shown
        See `ServedStudy`.
    """
    remote = not is_loopback(host)
    if remote and token is None:
        raise BadParameter(
            f"host={host!r} can be reached by other machines and no token came; one of at least 16 "
            "characters was expected. Pass --token, and mind that HTTP is not encrypted: put TLS in "
            "front, or use an SSH tunnel."
        )
    listener = listening(host, port)
    number = listener.getsockname()[1]
    keys = Keys(token, port=number)
    hosts = [*names, *([socket.gethostname()] if remote else [])]
    reached = f"http://{hosts[0]}:{number}" if hosts else None

    def serving(made: Study) -> ServedStudy:
        return ServedStudy(made, keys, address=reached, **shown)

    if study is None or isinstance(study, Path):
        desk = Desk(keys, serving, Path(), study)
        app = create_app(desk=desk, hosts=hosts, remote=remote)
    else:
        app = create_app(serving(study), hosts=hosts, remote=remote)
    # No access log: it would hold the tokens of links.
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=30,
    )

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            if app.state.served is not None:
                app.state.served.live.close()
            super().handle_exit(sig, frame)

    named = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    address = f"http://[{named}]:{number}" if ":" in named else f"http://{named}:{number}"
    link = f"{address}/start?token={keys.link()}"
    print(f"Label at {link}\nThe link works once. Ctrl-C ends; every answer is kept.", flush=True)
    if browser:
        threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
    # Fits run beside requests: a shorter turn (5 ms by default) lets an answer in between.
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    try:
        with suppress(KeyboardInterrupt):
            Server(config).run(sockets=[listener])
    finally:
        sys.setswitchinterval(before)
        listener.close()


def listening(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens: on `port`, or on the usual one, or on any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem = ""
    for number in (PORT, 0) if port is None else (port,):
        # The protocol by its name: asyncio sets TCP_NODELAY, worth 40 ms an answer, only then.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, number))
            found.listen(128)
            return found
        except (OSError, OverflowError) as error:
            found.close()
            problem = str(error)
    raise BadParameter(
        f"Nothing can listen on {host}:{port if port is not None else PORT} ({problem}). Choose another "
        "--port, or leave it out."
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""Running the page: a socket, a link to it, a browser, and a clean end."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import ssl
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from html import escape
from ipaddress import ip_address
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType
from typing import Any, Unpack

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from goalward.errors import BadParameter
from goalward.studio.server.app import create_app, create_house
from goalward.studio.server.connections import Connection, Listener
from goalward.studio.server.desk import Desk
from goalward.studio.server.house import House
from goalward.studio.server.keys import Keys
from goalward.studio.server.operation import Logged, logs_written
from goalward.studio.server.outside import DIRECT, Outside
from goalward.studio.server.served_study import ServedStudy, Shown
from goalward.studio.study import Study
from goalward.studio.team import Team

__all__ = ["PORT", "configured", "listening", "serve"]

LOG = logging.getLogger(__name__)
PORT = 8321
"""Tried first, so that a page that is open finds the server again after a restart."""


def serve(
    study: Study | House | Path | None,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    team: str | Path | None = None,
    outside: Outside = DIRECT,
    tls: tuple[Path, Path] | None = None,
    browser: bool = True,
    log: Path | None = None,
    **shown: Unpack[Shown],
) -> None:
    """Serve the page over a study until Ctrl-C.

    Parameters
    ----------
    study
        Or several; or the table of one that is still to be made on the page; None: it is chosen there.
    host
        Another than the loopback needs a `token` of your own: whoever has it can read the pool
        and answer.
    team
        Where the team is whose members may come in, by name; the token is for programs then.
    outside
        The names, the path and the proxies that the server is reached by.
    tls
        Files of the certificate, with those above it, and of its key: the page is HTTPS then.
    log
        A file for what happens, a JSON object a line; "-" is stderr.
    shown
        See `ServedStudy`.
    """
    remote = not is_loopback(host)
    _check_way_in(host, token, team, outside)
    members = None if team is None else Team.open(team)
    _check_files(tls)
    listener = listening(host, port)
    number, scheme = listener.getsockname()[1], "https" if tls else "http"
    keys = Keys(token, port=number, team=members)
    hosts = [*outside.names, *([socket.gethostname()] if remote else [])]
    reached = f"{scheme}://{hosts[0]}:{number}" if hosts else None

    def serving(made: Study) -> ServedStudy:
        return ServedStudy(made, keys, address=reached, **shown)

    app = _application(study, keys, serving, hosts=hosts, remote=remote, outside=outside)
    opened = ExitStack()

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            for served in filter(None, app.state.listed().values()):
                served.live.close()
            # Not later: a signal may end the process as soon as the server has ended.
            opened.close()
            super().handle_exit(sig, frame)

    named = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    address = f"{scheme}://[{named}]:{number}" if ":" in named else f"{scheme}://{named}:{number}"
    link, once = f"{address}{outside.prefix}/", "Sign in by name."
    if members is None:
        link, once = f"{link}start?token={keys.link()}", "The link works once."
    print(f"Label at {link}\n{once} Ctrl-C ends; every answer is kept.", flush=True)
    with (
        closing(listener),
        nullcontext() if members is None else closing(members),
        opened,
        _short_turns(),
        logs_written(log),
        suppress(KeyboardInterrupt),
    ):
        if browser:
            opened.enter_context(_shown_by_browser(link))
        LOG.info("serving at %s", address)
        Server(configured(Logged(app), tls)).run(sockets=[listener])
        LOG.info("ended")


def _check_way_in(host: str, token: str | None, team: str | Path | None, outside: Outside) -> None:
    """Raise where nobody would be asked who they are."""
    if not is_loopback(host) and token is None and team is None:
        raise BadParameter(
            f"host={host!r} can be reached by other machines and no token came; one of at least 16 "
            "characters was expected. Pass --team or --token-file, and mind that HTTP is not encrypted: "
            "pass --tls-cert and --tls-key too, or use an SSH tunnel."
        )
    if outside.user_header and team is None:
        raise BadParameter(
            "--user-header came without --team; a team that knows the names was expected."
        )


def _application(
    study: Study | House | Path | None,
    keys: Keys,
    serving: Callable[[Study], ServedStudy],
    **door: Any,
) -> FastAPI:
    """Return the application over a study, over several, or over a desk where one begins."""
    if study is None or isinstance(study, Path):
        return create_app(desk=Desk(keys, serving, Path(), study), **door)
    if isinstance(study, House):
        served = {name: serving(one) for name, one in study.studies.items()}
        return create_house(served, study.troubles, keys=keys, **door)
    return create_app(serving(study), **door)


@contextmanager
def _shown_by_browser(link: str) -> Iterator[None]:
    """Open a link in the browser, by a file that is gone when the server ends."""
    opened = _leading_to(link)
    threading.Thread(target=webbrowser.open, args=(opened.as_uri(),), daemon=True).start()
    try:
        yield
    finally:
        shutil.rmtree(opened.parent, ignore_errors=True)


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads take short turns: fits run beside requests, and an answer gets in between."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)  # 5 ms by default
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def configured(app: ASGIApp, tls: tuple[Path, Path] | None = None) -> uvicorn.Config:
    """Return how the page is served."""
    certificate, key = tls or (None, None)
    return uvicorn.Config(
        app,
        http=Connection,
        # Others take connections past our `Listener`.
        loop="asyncio",
        ws="none",
        # Ours, bounded: see `logs_written`.
        log_config=None,
        log_level="error",
        # It would hold the tokens of links.
        access_log=False,
        server_header=False,
        # What a proxy says of a caller is not believed unasked.
        proxy_headers=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=30,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


def _check_files(tls: tuple[Path, Path] | None) -> None:
    """Raise where a certificate and its key cannot be used."""
    if tls is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*tls)
    except OSError as error:  # ssl.SSLError is one
        raise BadParameter(
            f"The certificate {tls[0]} and the key {tls[1]} cannot be used ({error}); two files in PEM "
            "form, the key without a passphrase, were expected."
        ) from error


def _leading_to(link: str) -> Path:
    """Return a page, readable by us alone, that leads to a link.

    The address itself would stand in the browser's arguments, which everybody on this machine sees.
    """
    # Browsers that are kept apart from /tmp, as snaps are, read what lies at home.
    home = Path.home()
    place = home if os.access(home, os.W_OK) else None
    path = Path(mkdtemp(prefix="goalward-", dir=place)) / "open.html"
    path.touch(mode=0o600)
    path.write_text(f'<meta http-equiv="refresh" content="0;url={escape(link)}">')
    return path


def listening(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens: on `port`, or on the usual one, or on any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem = ""
    for number in (PORT, 0) if port is None else (port,):
        # The protocol by its name: asyncio sets TCP_NODELAY, worth 40 ms an answer, only then.
        found = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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

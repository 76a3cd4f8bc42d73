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
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from html import escape
from ipaddress import ip_address
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType
from typing import Any, Unpack

import uvicorn
from starlette.types import ASGIApp

from goalward.errors import BadParameter
from goalward.studio.server.app import create_app
from goalward.studio.server.auth import Auth
from goalward.studio.server.connections import Connection, Listener
from goalward.studio.server.monitoring import logging_to
from goalward.studio.server.new_study import NewStudy
from goalward.studio.server.security import DIRECT, ProxyConfig
from goalward.studio.server.served_study import Display, ServedStudy
from goalward.studio.server.study_list import BELOW
from goalward.studio.study import Study
from goalward.studio.team import Team

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
    **display: Unpack[Display],
) -> None:
    """Serve the page until Ctrl-C.

    Parameters
    ----------
    studies
        By name, each below /s/NAME; one study with the name "" has the whole server; with none, one
        is created on the page.
    unopened
        Studies that could not be opened, and why; the list shows them.
    table
        The table of the study that is created on the page; None: it is chosen there.
    host
        Any but the loopback needs a `token` of your own or a `team`.
    team
        Where the team is whose members may sign in; the token is for programs then.
    tls
        Files of the certificate, with its chain, and of its key: the page is HTTPS then.
    log
        A file for JSON lines; "-" is stderr.
    display
        See `ServedStudy`.
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
    proxy = replace(
        proxy, remote=remote, names=(*proxy.names, *([socket.gethostname()] if remote else []))
    )
    with ExitStack() as opened, suppress(KeyboardInterrupt):
        members = opened.enter_context(closing(Team.open(team))) if team is not None else None
        _check_tls(tls)
        listener = opened.enter_context(listening(host, port))
        number, scheme = listener.getsockname()[1], "https" if tls else "http"
        auth = Auth(token, port=number, team=members)
        address = f"{scheme}://{proxy.names[0]}:{number}" if proxy.names else None
        serving = partial(ServedStudy, auth=auth, address=address, **display)
        served = {name: serving(study) for name, study in studies.items()}
        new = None if studies else NewStudy(auth, serving, Path(), table)
        app = create_app(served, auth, unopened=unopened or {}, new=new, proxy=proxy)

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
        opened.enter_context(_short_turns())
        opened.enter_context(logging_to(log))
        shown = opened.enter_context(ExitStack())
        if browser:
            shown.enter_context(_shown_in_browser(link))
        LOG.info("serving at %s", here)
        Server(uvicorn_config(app, listener, tls)).run(sockets=[listener])
        LOG.info("ended")


@contextmanager
def _shown_in_browser(link: str) -> Iterator[None]:
    """Open a link in the browser, through a file that is deleted when the server ends."""
    path = redirect_file(link)
    threading.Thread(target=webbrowser.open, args=(path.as_uri(),), daemon=True).start()
    try:
        yield
    finally:
        shutil.rmtree(path.parent, ignore_errors=True)


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads switch often: fits run beside requests, and an answer gets in between."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)  # 5 ms by default
    try:
        yield
    finally:
        sys.setswitchinterval(before)


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
    """Return a page, readable by us alone, that redirects to a link.

    The address itself would be visible in the browser's arguments to everybody on this machine.
    """
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

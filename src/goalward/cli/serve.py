"""`goalward serve`, and the options of every page that is served."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer
from typer import Argument

from goalward.cli.app import command
from goalward.cli.console import Terminal, spinner
from goalward.errors import BadParameter

Option = partial(typer.Option, rich_help_panel="The page")


@dataclass(frozen=True)
class ServingOptions:
    """Where a page is served, and who may open it."""

    host: str = Option("127.0.0.1", help="Address to listen on; 0.0.0.0 needs --token or --team.")
    port: int | None = Option(None, min=0, max=65535, help="8321, or a free one, by default.")
    token: str | None = Option(
        None,
        envvar="GOALWARD_TOKEN",
        help="For programs and other machines; random by default. It is visible in the list of "
        "processes: rather set GOALWARD_TOKEN, or use --token-file.",
    )
    token_file: Path | None = Option(None, help="File with the token.")
    tls_cert: Path | None = Option(None, help="Certificate (PEM): the page is HTTPS then.")
    tls_key: Path | None = Option(None, help="Its key (PEM).")
    name: list[str] | None = Option(None, help="A host name of the page; repeatable.")
    prefix: str = Option("", help="The path of the page behind a proxy, such as /labels.")
    proxy: list[str] | None = Option(
        None, help="Address or network whose X-Forwarded headers are trusted; repeatable."
    )
    team: str | None = Option(None, help="Who may sign in: a team of `goalward team create`.")
    user_header: str = Option(
        "", help="Header in which --proxy names the member of the team, such as X-Forwarded-User."
    )
    browser: bool = Option(True, "--browser/--no-browser", help="Open the page in the browser.")
    log: Path | None = Option(None, help="File for requests and errors as JSON lines; - is stderr.")

    @property
    def served(self) -> dict[str, Any]:
        from goalward.studio.server import ProxyConfig

        names, proxies = tuple(self.name or ()), tuple(self.proxy or ())
        if (self.tls_cert is None) != (self.tls_key is None):
            raise BadParameter("--tls-cert and --tls-key must be given together.")
        return {
            "host": self.host,
            "port": self.port,
            "token": self.token if self.token_file is None else _read(self.token_file),
            "proxy": ProxyConfig(names, self.prefix, proxies, self.user_header),
            "team": self.team,
            "tls": (self.tls_cert, self.tls_key) if self.tls_cert else None,
            "browser": self.browser,
            "log": self.log,
        }


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadParameter(f"--token-file {path} cannot be read ({error}).") from error


@dataclass(frozen=True)
class ServeOptions(ServingOptions):
    """Options of `goalward serve`."""

    studies: list[str] = Argument(
        ..., metavar="STUDY...", help="labels.db, a folder, or postgresql://user@host/database."
    )
    by: str = typer.Option("me", help="Your name.")


@command()
def serve(options: ServeOptions) -> None:
    """Serve existing studies on one page, each below a path of its own.

    A study that cannot be opened is reported, and the others are served.

    Example: `goalward serve reviews.labels.db mails.labels.db`
    """
    from goalward.studio.server import StudyList
    from goalward.studio.server import serve as page

    with spinner() as tick:
        listed = StudyList(options.studies, tick)
    with listed:
        for name, reason in listed.unopened.items():
            Terminal(stderr=True).print(f"{name} is not served. {reason}", style="yellow")
        page(listed.studies, unopened=listed.unopened, by=options.by, **options.served)

"""Options of a page that is served: where, for whom, and how safely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

from goalward.errors import BadParameter

__all__ = ["ServingOptions"]

Option = partial(typer.Option, rich_help_panel="The page")


@dataclass(frozen=True)
class ServingOptions:
    """Where a page is served, and who gets in."""

    host: str = Option("127.0.0.1", help="Address to listen on; 0.0.0.0 needs --token or --team.")
    port: int | None = Option(None, min=0, max=65535, help="8321, or a free one, by default.")
    token: str | None = Option(
        None,
        envvar="GOALWARD_TOKEN",
        help="For programs and other machines; random by default. Others see it in the list of "
        "processes: rather set GOALWARD_TOKEN, or use --token-file.",
    )
    token_file: Path | None = Option(None, help="File with the token.")
    tls_cert: Path | None = Option(None, help="Certificate (PEM): the page is HTTPS then.")
    tls_key: Path | None = Option(None, help="Its key (PEM).")
    name: list[str] | None = Option(None, help="A host name the page is reached by; repeatable.")
    prefix: str = Option("", help="The path the page stands below, behind a proxy: /labels, say.")
    proxy: list[str] | None = Option(
        None, help="Address or network whose X-Forwarded headers are believed; repeatable."
    )
    team: str | None = Option(
        None, help="Who may come in, by name: what `goalward team create` made."
    )
    user_header: str = Option(
        "", help="Header in which --proxy says who of the team is there: X-Forwarded-User, say."
    )
    browser: bool = Option(True, "--browser/--no-browser", help="Open the page in the browser.")
    log: Path | None = Option(None, help="A file for what happens, as JSON lines; - is stderr.")

    @property
    def secret(self) -> str | None:
        """The token, wherever it is."""
        if self.token_file is None:
            return self.token
        try:
            return self.token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadParameter(
                f"--token-file {self.token_file} cannot be read ({error}); a file with the token was "
                "expected."
            ) from error

    @property
    def tls(self) -> tuple[Path, Path] | None:
        """The files of the certificate and its key."""
        if self.tls_cert is None and self.tls_key is None:
            return None
        if self.tls_cert is None or self.tls_key is None:
            raise BadParameter("One of --tls-cert and --tls-key came; both were expected.")
        return self.tls_cert, self.tls_key

    @property
    def served(self) -> dict[str, Any]:
        """What `server.serve` is given."""
        from goalward.studio.server import Outside

        return {
            "host": self.host,
            "port": self.port,
            "token": self.secret,
            "outside": Outside(
                tuple(self.name or ()), self.prefix, tuple(self.proxy or ()), self.user_header
            ),
            "team": self.team,
            "tls": self.tls,
            "browser": self.browser,
            "log": self.log,
        }

"""Where the page is: every address that a template, script, redirect or cookie uses begins here.

An application may stand below a path (ASGI's `root_path`): `root` is where the study's own pages
are, `home` where the server's door is. They differ only where one server has several studies.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

__all__ = ["home", "origin", "root", "route"]


def root(request: HTTPConnection) -> str:
    """Return the path of the application that a request came to: "" for one that has it all."""
    return str(request.scope.get("root_path", ""))


def home(request: HTTPConnection) -> str:
    """Return the path of the whole server: its sign-in page, and the files that pages load."""
    return str(request.scope.get("app_root_path", root(request)))


def route(request: HTTPConnection) -> str:
    """Return the path that was asked for, below the application's own."""
    return str(request.scope["path"]).removeprefix(root(request))


def origin(request: HTTPConnection) -> str:
    """Return the scheme and name that the caller used: "https://labels.example"."""
    return f"{request.url.scheme}://{request.url.netloc}"

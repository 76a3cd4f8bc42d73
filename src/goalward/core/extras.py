"""Packages that only a part of the library needs, and the extra of pip that brings each."""

from collections.abc import Iterator
from contextlib import contextmanager

from goalward.errors import MissingExtra

__all__ = ["EXTRAS", "needing"]

EXTRAS = {
    "matplotlib": "app",
    "platformdirs": "app",
    "polars": "app",
    "rpds": "app",
    "sqlalchemy": "app",
    "fastapi": "web",
    "httpx": "web",
    "jinja2": "web",
    "starlette": "web",
    "uvicorn": "web",
}
"""The extra by the name that is imported."""


@contextmanager
def needing(what: str) -> Iterator[None]:
    """Say what to install where an import of this block finds a package missing.

    >>> with needing("A study"):
    ...     import sqlalchemy
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtra(
            f"{what} needs {package}, which is not installed. "
            f'Run `pip install "goalward[{EXTRAS[package]}]"`.'
        ) from error

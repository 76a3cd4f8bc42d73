"""Packages that only a part of the library needs, and the extra of pip that brings each."""

from collections.abc import Iterator
from contextlib import contextmanager

from goalward.errors import MissingExtra

__all__ = ["EXTRAS", "needing"]

EXTRAS = {
    **dict.fromkeys(
        ("fastexcel", "matplotlib", "platformdirs", "polars", "rpds", "sqlalchemy"),
        "app",
    ),
    **dict.fromkeys(("fastapi", "httpx", "jinja2", "starlette", "uvicorn"), "web"),
    **dict.fromkeys(("anywidget", "traitlets"), "notebook"),
    "distributed": "dask",
    "skactiveml": "skactiveml",
    "torch": "torch",
    "PIL": "app",
    "sentence_transformers": "vision",
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
            f"{what} needs {package}, which is not installed. Run "
            f'`pip install "goalward[{EXTRAS[package]}]"`.'
        ) from error

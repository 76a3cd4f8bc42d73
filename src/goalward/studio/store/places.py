"""Where a study is: a file, or a database, which has room for several.

In PostgreSQL each study that has a name has a schema of its own, "goalward_NAME".
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from goalward.errors import BadParameter, MissingExtra

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
SCHEMA = "goalward_"
"""Before a study's name."""


def located(place: str | Path) -> URL:
    """Return the URL of a study given as a URL or as the path of a file.

    What stands after sqlite:/// is a path as it is, whatever its characters: # ? and % too. A
    PostgreSQL database holds one study without a name, and others by name, `?study=mails`.
    """
    if isinstance(place, Path) or "://" not in place:
        return URL.create("sqlite", database=str(Path(place).absolute()))
    if file := re.fullmatch(r"sqlite(?:\+\w+)?://(?:/(.*))?", place, re.DOTALL):
        if not file[1] or file[1] == ":memory:":
            raise BadParameter(
                f"{shown(place)!r} names no file; a study lives in one, so that it survives. Write "
                "sqlite:///labels.db."
            )
        return URL.create("sqlite", database=str(Path(file[1]).absolute()))
    try:
        # An empty value would be dropped, and another study be meant.
        url = make_url(re.sub(r"([?&]study=)(?=&|$)", r"\1?", place))
    except (ArgumentError, ValueError):
        raise BadParameter(
            f"{shown(place)!r} is not the address of a study; a path, sqlite:///path or "
            "postgresql://user@host/database was expected."
        ) from None  # it may repeat what it could not read
    if "password" in url.query:  # where nothing would hide it
        url = url.set(password=str(url.query["password"])).difference_update_query(["password"])
    backend = url.get_backend_name()
    if backend != "postgresql":
        raise BadParameter(
            f"{shown(place)!r} is a {backend} database; SQLite or PostgreSQL was expected. Write "
            "sqlite:///labels.db or postgresql://user@host/database."
        )
    if find_spec("psycopg") is None:
        raise MissingExtra(
            "A study in PostgreSQL needs psycopg, which is not installed. Run `pip install "
            "goalward[postgres]`."
        )
    if not NAME.fullmatch(str(url.query.get("study", "x"))):
        raise BadParameter(
            f"study={url.query['study']!r} is not the name of a study; up to 50 letters, digits, - and "
            "_ were expected, a letter or a digit first."
        )
    return url.set(drivername="postgresql+psycopg")


def file_of(url: URL) -> Path | None:
    """Return the file of an SQLite study; None for a server."""
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def schema_of(url: URL) -> str | None:
    """Return the schema that a named study has; None for the one that has no name."""
    return f"{SCHEMA}{url.query['study']}" if "study" in url.query else None


def shown(place: str | Path) -> str:
    """Return a place as it may be printed: without its password, whatever that is made of.

    Examples
    --------
    >>> shown("postgresql://ann:p@ss/w@host/db"), shown("labels.db")
    ('postgresql://ann:***@host/db', 'labels.db')
    """
    hidden = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", str(place))
    return re.sub(r"([?&]password=)[^&]*", r"\1***", hidden)

"""Connections to SQLite and PostgreSQL, and what their errors mean to a person.

SQLite keeps a rollback journal, not a write-ahead log: when a transaction has ended, the one file
holds it, so that `cp` and `mv` between answers take all of a study with them. A commit costs 1.5 ms
here instead of 0.6 (`goalward bench page` has the time of an answer).
"""

from __future__ import annotations

import os
import re
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakSet

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from goalward.errors import (
    BadParameter,
    Damaged,
    Locked,
    MissingExtra,
    NetworkFile,
    NotAStudy,
    NotWritten,
    StudyExists,
)

__all__ = [
    "APPLICATION",
    "claim",
    "connect",
    "file_of",
    "leave_write_ahead",
    "located",
    "opened",
    "readable",
    "translated",
]

APPLICATION = 0x67777264
"""SQLite's application id of a study, "gwrd": at byte 68 of the file."""
NETWORKS = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs", "lustre")


def located(place: str | Path) -> URL:
    """Return the URL of a study given as a URL or as the path of a file.

    What stands after sqlite:/// is a path as it is, whatever its characters: # ? and % too.
    """
    if isinstance(place, Path) or "://" not in place:
        return URL.create("sqlite", database=str(Path(place).absolute()))
    if file := re.fullmatch(r"sqlite(?:\+\w+)?://(?:/(.*))?", place, re.DOTALL):
        if not file[1] or file[1] == ":memory:":
            raise BadParameter(
                f"{place!r} names no file; a study lives in one, so that it survives. Write "
                "sqlite:///labels.db."
            )
        return URL.create("sqlite", database=str(Path(file[1]).absolute()))
    try:
        url = make_url(place)
    except ArgumentError as error:
        raise BadParameter(
            f"{place!r} is not the address of a study; a path, sqlite:///path or "
            "postgresql://user@host/database was expected."
        ) from error
    backend = url.get_backend_name()
    if backend != "postgresql":
        raise BadParameter(
            f"{place!r} is a {backend} database; SQLite or PostgreSQL was expected. Write "
            "sqlite:///labels.db or postgresql://user@host/database."
        )
    if find_spec("psycopg") is None:
        raise MissingExtra(
            "A study in PostgreSQL needs psycopg, which is not installed. Run `pip install "
            "goalward[postgres]`."
        )
    return url.set(drivername="postgresql+psycopg")


def file_of(url: URL) -> Path | None:
    """Return the file of an SQLite study; None for a server."""
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def readable(path: Path) -> bool:
    """Return whether a file can hold a study: False if it is absent or empty.

    Only its first bytes are looked at, so that a foreign file is not touched at all.
    """
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise NotAStudy(
            f"{path} could not be opened ({error.strerror}); the file of a study was expected. Check "
            "the path and its permissions."
        ) from error
    if not header:
        return False
    application = int.from_bytes(header[68:72], "big")
    if not header.startswith(b"SQLite format 3\0") or application != APPLICATION:
        raise NotAStudy(
            f"{path} is not the file of a study (or its first bytes are damaged). It was left as it "
            "is: check the path, or restore a backup."
        )
    return True


def claim(path: Path) -> None:
    """Make the file, its owner's alone; one that holds something that is no study is refused."""
    try:
        readable(path)
        # SQLite gives its files, and the journals beside them, the rights that this one has.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except NotAStudy as error:
        raise StudyExists(
            f"{path} holds something that is not a study; a free place was expected. It was left as "
            "it is: give another path."
        ) from error
    except OSError as error:
        raise NotWritten(
            f"{path} could not be made ({error.strerror}). Nothing was stored: check that its folder "
            "is there and may be written."
        ) from error


def connect(url: URL, timeout: float) -> Engine:
    """Return an engine whose write transactions start with the lock, and end on the disk."""
    path = file_of(url)
    if path is None:
        engine = create_engine(url, pool_pre_ping=True)
        event.listen(engine, "begin", _begin_postgres(timeout))
        return engine
    _warn_of_network(path)
    # A connection for each transaction (0.1 ms): it is of the file that has the name now, and
    # nothing is left behind where a transaction was cut short.
    engine = create_engine(url, creator=lambda: opened(path, timeout=timeout), poolclass=NullPool)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


class _File(sqlite3.Connection):
    """A connection that can end what is under way, also where somebody still holds a cursor."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cursors: WeakSet[sqlite3.Cursor] = WeakSet()

    def cursor(self, *args: Any, **options: Any) -> Any:
        made = super().cursor(*args, **options)
        self._cursors.add(made)
        return made

    def rollback(self) -> None:
        self._end_queries()
        super().rollback()

    def close(self) -> None:
        self._end_queries()
        super().close()

    def _end_queries(self) -> None:
        # A query that was cut short keeps its lock as long as its cursor lives, closed connection
        # or not, and a traceback that somebody looks at keeps that alive.
        while self._cursors:
            self._cursors.pop().close()


def opened(path: Path, *, timeout: float = 30.0, mode: str = "rw") -> sqlite3.Connection:
    """Return a connection to a file that is there; "ro" changes nothing about it.

    Python's sqlite3 must not begin transactions by itself: BEGIN IMMEDIATE is ours.
    """
    raw = sqlite3.connect(
        # As a URI, with # ? and % in the path written out, so that no file is made by opening it.
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        factory=_File,
    )
    # EXTRA: the folder is synced too, or a power cut could bring the rollback journal back.
    raw.execute("PRAGMA synchronous=EXTRA")
    raw.execute("PRAGMA foreign_keys=ON")
    raw.execute("PRAGMA trusted_schema=OFF")
    return raw


def leave_write_ahead(path: Path, timeout: float) -> None:
    """Turn a file of the first version, whose answers may sit in a file beside it, into one file."""
    with path.open("rb") as file:
        # SQLite's file format: 2 in bytes 18 and 19 says that there is a write-ahead log.
        ahead = file.read(20)[18:] == b"\x02\x02"
    if not ahead or not os.access(path, os.W_OK):
        return
    raw = opened(path, timeout=timeout)
    try:
        raw.execute("PRAGMA journal_mode=DELETE")
    finally:
        raw.close()


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    # Locking at the start, a writer waits its turn; locking later, it would fail at once.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _begin_postgres(timeout: float) -> Any:
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("writing", False):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(1000 * timeout)}")
            # A server may be set to acknowledge before the disk has it.
            connection.exec_driver_sql("SET LOCAL synchronous_commit = on")

    return begin


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn a database's errors into ours: what came, what was expected, what to do."""
    try:
        yield
    except DBAPIError as error:
        raise _meaning(name, error.orig) from error
    except sqlite3.Error as error:
        raise _meaning(name, error) from error


def _meaning(name: str, error: BaseException | None) -> Exception:
    said = str(error).strip().split("\n")[0]
    lower = said.lower()
    if "unable to open" in lower:
        return NotWritten(
            f"{name} cannot be opened ({said}): it was moved or deleted, or its folder is not there. "
            "Nothing was stored: put it back where it was, or check the path."
        )
    if "locked" in lower or "lock timeout" in lower or "busy" in lower:
        return Locked(
            f"{name} is held by another process ({said}). Nothing was stored: try again, or close "
            "the program that holds it."
        )
    if "not a database" in lower:
        return NotAStudy(
            f"{name} is not a database ({said}). It was left as it is: check the path."
        )
    if "malformed" in lower or "corrupt" in lower or "could not decode" in lower:
        return Damaged(
            f"{name} is damaged ({said}); it was left as it is. Restore a backup, or save every "
            "event that is whole with `goalward recover` or Study.recover."
        )
    if "readonly" in lower or "read-only" in lower:
        return NotWritten(
            f"{name} cannot be written ({said}). Nothing was stored: make the file and its folder "
            "writable, or copy them."
        )
    if "full" in lower or "disk i/o" in lower or "space" in lower or "too large" in lower:
        return NotWritten(
            f"{name} could not be written ({said}). Nothing was stored, and all earlier answers "
            "are safe: free some space, and answer again."
        )
    return NotWritten(
        f"{name} could not be reached ({said}). Nothing was stored: check the address, that the "
        "folder or the server is there, and that it may be used."
    )


def _warn_of_network(path: Path) -> None:
    """Warn where locks are not to be trusted; silent where the system does not say."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return
    folder = str(path.resolve().parent)
    over = [m for m in mounts if folder == m[1] or folder.startswith(m[1].rstrip("/") + "/")]
    kind = max(over, key=lambda mount: len(mount[1]))[2] if over else ""
    if kind.startswith(NETWORKS):
        warnings.warn(
            f"{path} is on a network file system ({kind}), where SQLite's locks cannot be trusted. "
            "Keep the study on a local disk, or use PostgreSQL.",
            NetworkFile,
            stacklevel=5,
        )

"""Connections to SQLite and PostgreSQL, and what their errors mean to a person.

SQLite keeps a rollback journal, not a write-ahead log: when a transaction has ended, the one file
holds it, so that `cp` and `mv` between answers take all of a study with them.
"""

from __future__ import annotations

import os
import sqlite3
import warnings
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from goalward.errors import (
    Damaged,
    Locked,
    NetworkFile,
    NotAStudy,
    NotWritten,
    StudyExists,
)
from goalward.studio.store.places import file_of, schema_of

APPLICATION = 0x67777264
"""SQLite's application id of a study, "gwrd": at byte 68 of the file."""
NETWORKS = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs", "lustre")


def files_of_database(path: Path) -> list[Path]:
    """Return the files that SQLite may keep for one database: its own first, then those beside."""
    return [path.with_name(path.name + ending) for ending in ("", "-journal", "-wal", "-shm")]


def readable(path: Path, timeout: float = 30.0) -> bool:
    """Return whether a file can hold a study: False if it is absent or empty.

    SQLite looks, and may not write. We must not open the file ourselves: closing it would end
    the locks that other connections of this process hold on it (POSIX).
    """
    try:
        application = _application(path, timeout) if path.stat().st_size else 0
        if path.stat().st_size == 0:  # now: looking undoes what a killed process left
            return False
    except FileNotFoundError:
        return False
    except (OSError, sqlite3.Error) as error:
        foreign = any(words in str(error) for words in ("not a database", "unable to open"))
        if isinstance(error, sqlite3.Error) and not foreign:
            raise meaning(str(path), error) from error
        raise NotAStudy(
            f"{path} is not the file of a study, or cannot be opened ({error}). It was left as it is: "
            "check the path and its permissions, or restore a backup."
        ) from error
    if application != APPLICATION:
        raise NotAStudy(
            f"{path} is a database, and not that of a study. It was left as it is: check the path."
        )
    return True


def _application(path: Path, timeout: float) -> int:
    try:
        raw = opened(path, timeout=timeout, mode="ro")
    except sqlite3.OperationalError as error:
        if "readonly" not in str(error):
            raise
        # A process was killed while it wrote: what it left must be undone to read anything.
        raw = opened(path, timeout=timeout)
    with closing(raw):
        return int(raw.execute("PRAGMA application_id").fetchone()[0])


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
        engine = create_engine(url.difference_update_query(["study"]), pool_pre_ping=True)
        event.listen(engine, "begin", partial(_begin_postgres, timeout, schema_of(url)))
        return engine
    _warn_of_network(path)
    engine = create_engine(
        url, creator=lambda: opened(path, timeout=timeout), poolclass=QueuePool, max_overflow=50
    )
    event.listen(engine, "begin", partial(_begin_sqlite, timeout))
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
    try:
        # EXTRA: the folder is synced too, or a power cut could bring the rollback journal back.
        raw.execute("PRAGMA synchronous=EXTRA")
        raw.execute("PRAGMA foreign_keys=ON")
        raw.execute("PRAGMA trusted_schema=OFF")
    except BaseException:
        raw.close()
        raise
    return raw


def leave_write_ahead(path: Path, timeout: float) -> None:
    """Turn a file of the first version, whose answers may sit in a file beside it, into one file."""
    try:
        with closing(opened(path, timeout=timeout)) as raw:
            writable = os.access(path, os.W_OK)
            if writable and raw.execute("PRAGMA journal_mode").fetchone() == ("wal",):
                raw.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        raise meaning(str(path), error) from error


def _begin_sqlite(timeout: float, connection: Connection) -> None:
    # Locking later, a writer would fail at once. A single query ("peek") is one moment by itself.
    given = {"purpose": "read", "patience": timeout, **connection.get_execution_options()}
    connection.exec_driver_sql(f"PRAGMA busy_timeout={int(1000 * given['patience'])}")
    if (purpose := given["purpose"]) != "peek":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if purpose == "write" else "BEGIN")


def _begin_postgres(timeout: float, schema: str | None, connection: Connection) -> None:
    if schema is not None:
        connection.exec_driver_sql(f'SET LOCAL search_path TO "{schema}"')
    if connection.get_execution_options().get("purpose") == "write":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(1000 * timeout)}")
        # A server may be set to acknowledge before the disk has it.
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
    else:
        # A look is of one moment: otherwise each of its queries would see what others stored before it.
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def _warn_of_network(path: Path) -> None:
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return
    over = [mount for mount in mounts if path.resolve().is_relative_to(mount[1])]
    kind = max(over, key=lambda mount: len(mount[1]))[2] if over else ""
    if kind.startswith(NETWORKS):
        warnings.warn(
            f"{path} is on a network file system ({kind}), where SQLite's locks cannot be trusted. "
            "Keep the study on a local disk, or use PostgreSQL.",
            NetworkFile,
            stacklevel=5,
        )


def meaning(name: str, error: BaseException | None) -> Exception:
    """Return ours for a database's error."""
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
            "event that verifies with `goalward restore --recover` or Study.recover."
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

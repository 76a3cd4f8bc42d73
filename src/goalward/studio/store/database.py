"""Addresses of studies, connections to SQLite and PostgreSQL, and their errors in plain words.

A named study has the schema "goalward_NAME" in PostgreSQL. SQLite keeps a rollback journal, so that
one file holds the study after each transaction.
"""

from __future__ import annotations

import os
import re
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar
from weakref import WeakSet

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from goalward import errors

T = TypeVar("T")
APPLICATION = 0x67777264
"""SQLite's application id of a study, "gwrd": at byte 68 of the file."""
NETWORKS = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs", "lustre")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
SCHEMA = "goalward_"


def located(place: str | Path) -> URL:
    """Return the URL of a study given as a URL or a path; after sqlite:///, # ? and % are characters."""
    if isinstance(place, Path) or "://" not in place:
        return URL.create("sqlite", database=str(Path(place).absolute()))
    if file := re.fullmatch(r"sqlite(?:\+\w+)?://(?:/(.*))?", place, re.DOTALL):
        if not file[1] or file[1] == ":memory:":
            raise errors.BadParameter(
                f"{shown(place)!r} names no file; a study lives in one, so that it survives. Write "
                "sqlite:///labels.db."
            )
        return URL.create("sqlite", database=str(Path(file[1]).absolute()))
    try:
        # An empty value would be dropped, and another study be meant.
        url = make_url(re.sub(r"([?&]study=)(?=&|$)", r"\1?", place))
    except (ArgumentError, ValueError):
        raise errors.BadParameter(
            f"The address of a study must be a path, sqlite:///path or postgresql://user@host/database, got "
            f"{shown(place)!r}."
        ) from None  # it may repeat what it could not read
    if "password" in url.query:  # where nothing would hide it
        url = url.set(password=str(url.query["password"])).difference_update_query(["password"])
    backend = url.get_backend_name()
    if backend != "postgresql":
        raise errors.BadParameter(
            f"A study must be in SQLite or PostgreSQL, got a {backend} database ({shown(place)!r}). Write "
            "sqlite:///labels.db or postgresql://user@host/database."
        )
    if find_spec("psycopg") is None:
        raise errors.MissingExtra(
            "A study in PostgreSQL needs psycopg, which is not installed. Run `pip install "
            "goalward[postgres]`."
        )
    if not NAME.fullmatch(str(url.query.get("study", "x"))):
        raise errors.BadParameter(
            "The name of a study must be up to 50 letters, digits, - and _, a letter or a digit first, got "
            f"study={url.query['study']!r}."
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

    >>> shown("postgresql://ann:p@ss/w@host/db"), shown("labels.db")
    ('postgresql://ann:***@host/db', 'labels.db')
    """
    hidden = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", str(place))
    return re.sub(r"([?&]password=)[^&]*", r"\1***", hidden)


def files_of_database(path: Path) -> list[Path]:
    """Return the files that SQLite may keep for a database, its own first."""
    return [path.with_name(path.name + ending) for ending in ("", "-journal", "-wal", "-shm")]


def readable(path: Path, timeout: float = 30.0) -> bool:
    """Return whether a file can hold a study: False if it is absent or empty."""
    # SQLite reads it: closing a file of ours would end this process's locks on it (POSIX).
    try:
        if path.stat().st_size == 0:
            return False
        try:
            raw = opened(path, timeout=timeout, mode="ro")
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error):
                raise
            # A process was killed while it wrote: what it left must be undone to read anything.
            raw = opened(path, timeout=timeout)
        with closing(raw):
            application = raw.execute("PRAGMA application_id").fetchone()[0]
        if path.stat().st_size == 0:  # now: what a killed process left was undone
            return False
    except FileNotFoundError:
        return False
    except (OSError, sqlite3.Error) as error:
        foreign = any(words in str(error) for words in ("not a database", "unable to open"))
        foreign = foreign or path.is_dir()
        if isinstance(error, sqlite3.Error) and not foreign:
            raise meaning(str(path), error) from error
        raise errors.NotAStudy(
            f"{path} is not the file of a study, or cannot be opened ({error}). It was left as it is: "
            "check the path and its permissions, or restore a backup."
        ) from error
    if application != APPLICATION:
        raise errors.NotAStudy(
            f"{path} is a database, but not a study. It was left as it is: check the path."
        )
    return True


def claim(path: Path) -> None:
    """Create the file, its owner's alone; `StudyExists` where it holds something else."""
    try:
        readable(path)
        # SQLite gives its files, and the journals beside them, the rights that this one has.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except errors.NotAStudy as error:
        raise errors.StudyExists(
            f"{path} holds something that is not a study. It was left as it is: give another path."
        ) from error
    except OSError as error:
        raise errors.NotWritten(
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


class _Cursor(sqlite3.Cursor):
    """A cursor that looks again soon while another process holds the file."""

    def execute(self, *args: Any) -> Any:
        return _patiently(self.connection, super().execute, *args)

    def executemany(self, *args: Any) -> Any:
        return _patiently(self.connection, super().executemany, *args)


class _File(sqlite3.Connection):
    """A connection that can end what is under way, also where somebody still holds a cursor."""

    patience = 30.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cursors: WeakSet[sqlite3.Cursor] = WeakSet()

    def cursor(self, *args: Any, **options: Any) -> Any:
        made = super().cursor(_Cursor)
        self._cursors.add(made)
        return made

    def execute(self, *args: Any) -> Any:
        return self.cursor().execute(*args)

    def commit(self) -> None:
        _patiently(self, super().commit)

    def rollback(self) -> None:
        # A query that was cut short keeps its lock while its cursor lives: in a traceback, say.
        while self._cursors:
            self._cursors.pop().close()
        super().rollback()

    def close(self) -> None:
        while self._cursors:
            self._cursors.pop().close()
        super().close()


def _patiently(held: Any, call: Callable[..., T], *args: Any) -> T:
    """Return what a call returns once others let go; SQLite itself would sleep up to 100 ms at once."""
    until, wait = monotonic() + held.patience, 0.0002
    while True:
        try:
            return call(*args)
        except sqlite3.OperationalError as error:
            # What found the file locked changed nothing, and a transaction is still whole.
            if not str(error).startswith("database is locked") or monotonic() > until:
                raise
        sleep(wait)
        wait = min(1.1 * wait, 0.005)


def opened(path: Path, *, timeout: float = 30.0, mode: str = "rw") -> sqlite3.Connection:
    """Return a connection to a file that exists, which begins no transactions by itself."""
    raw: Any = sqlite3.connect(
        # As a URI, with # ? and % in the path written out, so that no file is made by opening it.
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=0.0,
        isolation_level=None,
        check_same_thread=False,
        factory=_File,
    )
    raw.patience = timeout
    try:
        # EXTRA: the folder is synced too, or a power cut could bring the rollback journal back.
        raw.execute("PRAGMA synchronous=EXTRA")
        raw.execute("PRAGMA trusted_schema=OFF")
    except BaseException:
        raw.close()
        raise
    opened_file: sqlite3.Connection = raw
    return opened_file


def _begin_sqlite(timeout: float, connection: Connection) -> None:
    # Locking later, a writer would fail at once. A single query ("peek") is one moment by itself.
    given = {"purpose": "read", "patience": timeout, **connection.get_execution_options()}
    held: Any = connection.connection.driver_connection
    held.patience = given["patience"]
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
            errors.NetworkFile,
            stacklevel=5,
        )


def meaning(name: str, error: BaseException | None) -> Exception:
    """Return ours for a database's error."""
    reason = str(error).strip().split("\n")[0]
    lower = reason.lower()
    if "unable to open" in lower:
        return errors.NotWritten(
            f"{name} cannot be opened ({reason}): it was moved or deleted, or its folder is not there. "
            "Nothing was stored: put it back where it was, or check the path."
        )
    if "locked" in lower or "lock timeout" in lower or "busy" in lower:
        return errors.Locked(
            f"{name} is held by another process ({reason}). Nothing was stored: try again, or close "
            "the program that holds it."
        )
    if "not a database" in lower:
        return errors.NotAStudy(
            f"{name} is not a database ({reason}). It was left as it is: check the path."
        )
    if "malformed" in lower or "corrupt" in lower or "could not decode" in lower:
        return errors.Damaged(
            f"{name} is damaged ({reason}); it was left as it is. Restore a backup, or save every "
            "event that verifies with `goalward restore --recover` or Study.recover."
        )
    if "readonly" in lower or "read-only" in lower:
        return errors.NotWritten(
            f"{name} cannot be written ({reason}). Nothing was stored: make the file and its folder "
            "writable, or copy them."
        )
    if "full" in lower or "disk i/o" in lower or "space" in lower or "too large" in lower:
        return errors.NotWritten(
            f"{name} could not be written ({reason}). Nothing was stored, and all earlier answers "
            "are safe: free some space, and answer again."
        )
    return errors.NotWritten(
        f"{name} could not be reached ({reason}). Nothing was stored: check the address, that the "
        "folder or the server is there, and that it may be used."
    )

"""The journal on disk: append-only, each event chained to the one before.

A transaction takes the lock first, reads what others appended, and then decides: two processes
on one study take turns, and an answer that `append` returned for survives `kill -9`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError

from goalward.core.files import whole_file
from goalward.errors import Damaged, NewerVersion, NotAStudy, NotWritten, Replaced, StudyExists
from goalward.studio.store import engine
from goalward.studio.store.engine import opened
from goalward.studio.store.events import (
    START,
    Event,
    Mark,
    Recorded,
    canonical,
    chained,
    parsed,
    since,
)
from goalward.studio.store.places import NAME, SCHEMA, file_of, located, schema_of

# Tables of a study, what is written to them, and how older ones are brought up to date.
#
# Version 1 had no head: events cut off at the end went unnoticed.
# Version 2 keeps the number and the digest of the last event beside the version.
# Version 3 has the same tables; its rankings may carry a stop set, which older programs cannot read.
# Version 4 has the same tables; its journal may hold lost events and changes of the settings. A study
# is of version 3 until the first of these is written, so that older programs can read what they know.
# Version 5 has the same tables; its journal may hold descriptions of classes, and more rows, likewise.
# Version 6 has the same tables; its journal may hold exports, or be that of a team, likewise.


LAYOUT = 3
"""The version of the tables below; older ones are brought up to it."""
VERSION = 7
"""The newest that can be read. Every version, past and to come, has goalward_study.version."""

METADATA = MetaData()
STUDY = Table(
    "goalward_study",
    METADATA,
    Column("version", Integer, nullable=False),
    Column("head_seq", Integer, nullable=False),
    Column("head_digest", String(64), nullable=False),
)
EVENTS = Table(
    "goalward_events",
    METADATA,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("digest", String(64), nullable=False),
)
BLOBS = Table(
    "goalward_blobs",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)


@dataclass
class Transaction:
    """A study held by one process for a moment: what others appended before, and room for more."""

    connection: Connection
    news: list[Recorded]
    mark: Mark
    version: int

    def append(self, event: Event, body: str = "") -> Recorded:
        """Write an event, as it stood elsewhere if so; it is stored when the transaction ends."""
        seq, body = self.mark.seq + 1, body or canonical(event)
        digest = chained(self.mark.digest, seq, body)
        self.connection.execute(insert(EVENTS).values(seq=seq, body=body, digest=digest))
        self.version = max(self.version, since(event))
        self.mark = Mark(seq, digest)
        return Recorded(seq, event, digest, body)

    def keep(self, content: bytes) -> None:
        """Write bytes, once however often they come; they go by their digest."""
        digest = sha256(content).hexdigest()
        there = select(BLOBS.c.digest).where(BLOBS.c.digest == digest)
        if self.connection.execute(there).first() is None:
            self.connection.execute(insert(BLOBS).values(digest=digest, content=content))

    def seal(self) -> None:
        """Write the number and digest of the last event, so that a cut at the end is seen."""
        head = {"head_seq": self.mark.seq, "head_digest": self.mark.digest}
        self.connection.execute(update(STUDY).values(version=self.version, **head))


def create(connection: Connection) -> None:
    """Make the tables."""
    METADATA.create_all(connection)
    connection.execute(insert(STUDY).values(version=LAYOUT, head_seq=0, head_digest=""))


def version_of(connection: Connection, name: str) -> int | None:
    """Return the version of the study in a database; None where there is nothing at all."""
    tables = inspect(connection).get_table_names()
    if STUDY.name not in tables:
        if not tables or connection.dialect.name != "sqlite":
            return None
        raise NotAStudy(
            f"{name} has the tables {', '.join(sorted(tables)[:5])}; those of a study were "
            "expected. It was left as it is: give another path."
        )
    version = connection.execute(select(STUDY.c.version)).scalar_one_or_none()
    if version is None:
        return None
    if version > VERSION:
        raise NewerVersion(
            f"{name} has version {version}; up to {VERSION} was expected by this goalward. It was "
            "left as it is: upgrade with `pip install --upgrade goalward`."
        )
    return int(version)


def keep_backup(connection: Connection, path: Path | None, version: int) -> None:
    """Copy a study before it is upgraded: to a file beside it, or to tables of a server."""
    if path is None:
        for table in METADATA.sorted_tables:
            copied = f"CREATE TABLE {table.name}_v{version} AS SELECT * FROM {table.name}"
            connection.execute(text(copied))
        return
    endings = (f".v{version}{f'.{n}' if n else ''}.bak" for n in count())
    places = (path.with_name(path.name + ending) for ending in endings)
    with whole_file(next(free for free in places if not free.exists())) as new:
        new.touch(0o600)
        # Connections of its own: the copy is of what is committed.
        with closing(opened(path, mode="ro")) as source, closing(opened(new)) as copy:
            source.backup(copy)


def migrate(connection: Connection, version: int) -> None:
    """Bring older tables to the current version, inside the caller's transaction."""
    if version < 2:
        for column in (
            "head_seq INTEGER NOT NULL DEFAULT 0",
            "head_digest VARCHAR(64) NOT NULL DEFAULT ''",
        ):
            connection.execute(text(f"ALTER TABLE goalward_study ADD COLUMN {column}"))
        last = connection.execute(select(func.max(EVENTS.c.seq))).scalar()
        digest = connection.execute(select(EVENTS.c.digest).where(EVENTS.c.seq == last)).scalar()
        connection.execute(update(STUDY).values(head_seq=last or 0, head_digest=digest or ""))
    connection.execute(update(STUDY).values(version=LAYOUT))


T = TypeVar("T")


class Store:
    """A study's events and arrays in a database.

    It remembers nothing of what it read: who reads says how far they are (`Mark`), so that a call
    that is cut short, wherever, leaves nothing that could disagree with the disk.

    Parameters
    ----------
    place
        The path of a file, sqlite:///path, or postgresql://user@host/database,
        which may end in ?study=NAME.
    timeout
        Seconds to wait for another process's transaction.
    """

    def __init__(self, place: str | Path, *, timeout: float = 30.0) -> None:
        url = located(place)
        self.path, self._schema = file_of(url), schema_of(url)
        self.name = str(self.path or url.render_as_string(hide_password=True))
        self._engine: Engine = engine.connect(url, timeout)
        self._process = os.getpid()
        # The connection that each thread is using: what is cut short is rolled back by it.
        self._using = using = threading.local()
        event.listen(self._engine, "checkout", lambda raw, *_: setattr(using, "raw", raw))
        event.listen(self._engine, "checkin", lambda *_: setattr(using, "raw", None))
        # A study that is dropped lets go of its connections too; nothing waits to be saved.
        weakref.finalize(self, _release, self._engine, self._process).atexit = False
        self._left: list[object] = []
        self._file: tuple[int, int] | None = None

    @classmethod
    def create(
        cls, place: str | Path, fill: Callable[[Transaction], object], *, timeout: float = 30.0
    ) -> Store:
        """Return a new store, filled; `StudyExists` where there is something already.

        One transaction: of two that create at one place the first wins, and what is cut short
        leaves nothing but, perhaps, an empty file, which is a free place.
        """
        store = cls(place, timeout=timeout)
        if store.path is not None:
            engine.claim(store.path)

        def made(connection: Connection) -> None:
            store._hold_tables(connection)
            if store.path is not None:
                connection.exec_driver_sql(f"PRAGMA application_id={engine.APPLICATION}")
            elif store._schema is not None:
                connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{store._schema}"'))
            if version_of(connection, store.name) is None:
                create(connection)
            elif _head(connection) != START:
                raise StudyExists(
                    f"There is a study at {store.name} already; a free place was expected. Open it "
                    "with Study.open, or give another path."
                )
            transaction = Transaction(connection, [], START, LAYOUT)
            fill(transaction)
            transaction.seal()

        store.run(made, purpose="write")
        return store

    @classmethod
    def open(cls, place: str | Path, *, timeout: float = 30.0) -> Store:
        """Return the store of a study, brought to the current version after a backup."""
        store = cls.found(place, timeout=timeout)
        if store.path is not None:
            engine.leave_write_ahead(store.path, timeout)
        version = store.version()

        def upgraded(connection: Connection) -> None:
            store._hold_tables(connection)
            if version_of(connection, store.name) != version:
                return  # another process was faster
            keep_backup(connection, store.path, version)
            migrate(connection, version)
            # Checked before it is committed: what is damaged is not upgraded.
            store._after(connection, START, _head(connection))

        if version < LAYOUT:
            store.run(upgraded, purpose="write")
        return store

    @classmethod
    def found(cls, place: str | Path, *, timeout: float = 30.0) -> Store:
        """Return the store of a study as it is, of whatever version; nothing is changed."""
        store = cls(place, timeout=timeout)
        if store.path is not None and not engine.readable(store.path, timeout):
            raise store._absent()
        return store

    def version(self) -> int:
        """Return the version of the study's journal; `NewerVersion` for one yet to come."""
        version = self.run(lambda connection: version_of(connection, self.name))
        if version is None:
            raise self._absent()
        return version

    def _hold_tables(self, connection: Connection) -> None:
        # Two that make or change tables at once would both fail; this ends with the transaction.
        # On SQLite a transaction that writes holds the whole file already.
        if self.path is None:
            key = {"key": engine.APPLICATION}
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), key)

    def _absent(self) -> NotAStudy:
        return NotAStudy(
            f"There is no study at {self.name}; one was expected. Check the address, or make one with "
            "Study.create or `goalward label`."
        )

    def read(
        self, after: Mark = START, *, most: int | None = None, patience: float | None = None
    ) -> list[Recorded]:
        """Return the first `most` events after a mark, checked; `patience` is the timeout, if shorter."""
        if after.seq and self.run(_head, purpose="peek", patience=patience) == after:
            return []

        def found(connection: Connection) -> list[Recorded]:
            return self._after(connection, after, _head(connection), most)

        return self.run(found, patience=patience)

    def write(self, after: Mark, decide: Callable[[Transaction], T]) -> T:
        """Hold the study and decide: what is appended then is stored whole, or not at all."""

        def held(connection: Connection) -> T:
            # On PostgreSQL this line is the lock; SQLite's BEGIN IMMEDIATE has it already.
            version, *head = connection.execute(select(STUDY).with_for_update()).one()
            news = self._after(connection, after, Mark(*head))
            transaction = Transaction(connection, news, Mark(*head), version)
            decided = decide(transaction)
            if transaction.mark != Mark(*head):
                transaction.seal()
            return decided

        return self.run(held, purpose="write")

    def blob(self, digest: str) -> bytes:
        """Return stored bytes, checked."""
        query = select(BLOBS.c.content).where(BLOBS.c.digest == digest)
        stored = self.run(lambda connection: connection.execute(query).scalar_one_or_none())
        content = b"" if stored is None else bytes(stored)
        if stored is None or sha256(content).hexdigest() != digest:
            raise Damaged(
                f"An array of {self.name} is missing or damaged ({digest[:12]}); the one that was "
                "stored was expected. Restore a backup of the study."
            )
        return content

    def contents(self) -> tuple[list[Recorded], list[str]]:
        """Return every event, checked, and the digests of all stored bytes, of one moment."""
        query = select(BLOBS.c.digest).order_by(BLOBS.c.digest)

        def found(connection: Connection) -> tuple[list[Recorded], list[str]]:
            written = self._after(connection, START, _head(connection))
            return written, list(connection.execute(query).scalars())

        return self.run(found)

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    def _after(
        self, connection: Connection, after: Mark, head: Mark, most: int | None = None
    ) -> list[Recorded]:
        if head == after:
            return []
        # The last known event is read again: another study, or an older copy of this one, may
        # stand in its place now.
        rows = connection.execute(
            select(EVENTS.c.seq, EVENTS.c.body, EVENTS.c.digest)
            .where(EVENTS.c.seq >= after.seq)
            .order_by(EVENTS.c.seq)
            .limit(None if most is None else most + (after.seq > 0))
        )
        if after.seq:
            known = rows.fetchone()
            if known is None or (known[0], known[2]) != after:
                raise Replaced(
                    f"At {self.name} stands another study, or an older copy of it, than the one that "
                    "was opened. Nothing was stored: put the study back, or open what is there now."
                )
        found, at = [], after
        for seq, body, digest in rows:
            if seq != at.seq + 1 or chained(at.digest, seq, body) != digest:
                raise self._broken(at)
            at = Mark(seq, digest)
            found.append(Recorded(seq, parsed(seq, body), digest, body))
        if at != head and len(found) != most:
            raise self._broken(at)
        return found

    def _broken(self, at: Mark) -> Damaged:
        return Damaged(
            f"Event {at.seq + 1} of {self.name} is not what was written: its digest does not follow "
            "from the events before it. Nothing was changed. Restore a backup, or save every event "
            f"that verifies with `goalward restore --recover` or Study.recover({self.name!r}, 'rescued.db')."
        )

    def run(
        self,
        work: Callable[[Connection], T],
        *,
        purpose: str = "read",
        patience: float | None = None,
    ) -> T:
        """Return what `work` does in one transaction, which ends here in any case.

        A plain function around everything: an interrupt may strike in the very lines that end a
        block, and then no block ends it.
        """
        if os.getpid() != self._process:
            # Connections do not survive a fork: the parent's are left alone, not closed.
            self._left.append(self._engine.pool)
            self._engine.dispose(close=False)
            self._process = os.getpid()
        if self.path is not None:
            self._look(self.path)
        waits = {} if patience is None else {"patience": patience}
        database = self._engine.execution_options(purpose=purpose, **waits)
        try:
            with database.connect() as connection, connection.begin():
                return work(connection)
        except BaseException as error:
            self._let_go()
            if (struck := _interrupt_behind(error)) is not None:
                raise struck from None
            if isinstance(error, (DBAPIError, sqlite3.Error)):
                raise engine.meaning(self.name, getattr(error, "orig", error)) from error
            raise

    def _look(self, path: Path) -> None:
        """Raise if the file is gone; let go of connections to one that has not the name any more."""
        try:
            now = path.stat()
        except FileNotFoundError as error:
            raise NotWritten(
                f"{path} is gone: it was moved or deleted while it was in use. Nothing was stored: put "
                "it back, or restore a backup."
            ) from error
        if (now.st_dev, now.st_ino) != self._file:
            self._engine.dispose()
            self._file = (now.st_dev, now.st_ino)

    def _let_go(self) -> None:
        """End the transaction that this thread was cut short in: its lock would stop all others."""
        raw: Any = getattr(self._using, "raw", None)
        if raw is None:
            return  # given back in the usual way
        self._using.raw = None
        try:
            raw.rollback()
        except Exception:
            raw.close()
        # A pool that was interrupted may have lost count of its connections: another one.
        self._engine.dispose()


def _head(connection: Connection) -> Mark:
    return Mark(*connection.execute(select(STUDY.c.head_seq, STUDY.c.head_digest)).one())


def _interrupt_behind(error: BaseException) -> BaseException | None:
    """Return the interrupt that led to an error: half-made objects fail in ways of their own."""
    cause: BaseException | None = error
    while isinstance(cause, Exception):
        cause = cause.__context__
    return cause if cause is not error else None


def _release(database: Engine, process: int) -> None:
    if os.getpid() == process:
        database.dispose()


# Which studies there are at a place.


SCHEMAS = (
    "SELECT table_schema FROM information_schema.tables "
    "WHERE table_name = 'goalward_events' ORDER BY table_schema"
)


def studies_at(place: str) -> list[str]:
    """Return the address of every study in a database, or in a folder; of one study, its own.

    Examples
    --------
    >>> studies_at("labels.db")
    ['labels.db']
    """
    if "://" not in place and Path(place).is_dir():
        return [str(path) for path in sorted(Path(place).glob("*.labels.db"))]
    url = located(place)
    if file_of(url) is not None or "study" in url.query:
        return [place]
    store = Store(place)
    found = store.run(_names)
    store.close()
    joint = "&" if url.query else "?"
    return [place if name is None else f"{place}{joint}study={name}" for name in found]


def _names(connection: Connection) -> list[str | None]:
    here = connection.execute(text("SELECT current_schema()")).scalar()
    names: list[str | None] = []
    for schema in connection.execute(text(SCHEMAS)).scalars().all():
        name = None if schema == here else schema.removeprefix(SCHEMA)
        if name is not None and not (schema.startswith(SCHEMA) and NAME.fullmatch(name)):
            continue
        first = text(f'SELECT body FROM "{schema}".goalward_events WHERE seq = 1')
        body = connection.execute(first).scalar()
        # Teams are kept in the same tables.
        if body is not None and json.loads(body)["kind"] == "created":
            names.append(name)
    return names

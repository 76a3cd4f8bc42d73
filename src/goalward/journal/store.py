"""The journal on disk: append-only, each event chained to the one before.

A transaction takes the lock first, reads what others appended, and then decides: two processes
on one study take turns, and an answer that `append` returned for survives `kill -9`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Engine, insert, select, update
from sqlalchemy.exc import DatabaseError

from goalward.errors import Damaged, NotAStudy, StudyExists
from goalward.journal import schema
from goalward.journal.backup import keep_backup
from goalward.journal.engine import APPLICATION, connect, file_of, located, readable, translated
from goalward.journal.events import Event, canonical, chained, parsed
from goalward.journal.schema import BLOBS, EVENTS, STUDY

__all__ = ["Recorded", "Store", "Transaction"]


class Recorded(NamedTuple):
    """An event with its number, from 1."""

    seq: int
    event: Event


class Store:
    """A study's events and arrays in a database.

    Parameters
    ----------
    place
        The path of a file, sqlite:///path, or postgresql://user@host/database.
    timeout
        Seconds to wait for another process's transaction.
    """

    def __init__(self, place: str | Path, *, timeout: float = 30.0) -> None:
        self.url = located(place)
        self.path = file_of(self.url)
        self.name = (
            self.url.render_as_string(hide_password=True) if not self.path else str(self.path)
        )
        self._engine: Engine = connect(self.url, timeout)
        self._process = os.getpid()
        # A study that is dropped lets go of its connections too; nothing waits to be saved.
        weakref.finalize(self, _release, self._engine, self._process).atexit = False
        self._left: list[object] = []
        self._seq, self._digest = 0, ""

    @classmethod
    def create(cls, place: str | Path, *, timeout: float = 30.0) -> Store:
        """Return an empty store; `StudyExists` where there is something already."""
        store = cls(place, timeout=timeout)
        with translated(store.name):
            if store.path is not None:
                _claim(store)
            with store._connection(writing=True) as connection:
                if schema.version_of(connection, store.name) is None:
                    schema.create(connection)
                elif connection.execute(select(STUDY.c.head_seq)).scalar_one() > 0:
                    raise StudyExists(
                        f"There is a study at {store.name} already; a free place was expected. Open "
                        "it with Study.open, or give another path."
                    )
        return store

    @classmethod
    def open(cls, place: str | Path, *, timeout: float = 30.0) -> Store:
        """Return the store of a study, brought to the current version after a backup."""
        store = cls(place, timeout=timeout)
        with translated(store.name):
            if store.path is not None and not readable(store.path):
                raise _nothing(store.name)
            with store._connection() as connection:
                version = schema.version_of(connection, store.name)
            if version is None:
                raise _nothing(store.name)
            if version < schema.VERSION:
                store._upgrade(version)
        return store

    def read(self) -> list[Recorded]:
        """Return the events that were appended since the last call, checked."""
        with translated(self.name), self._connection() as connection:
            return self._tail(connection)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Hold the study: what is appended inside is stored whole when the block ends, or not."""
        before = self._seq, self._digest
        try:
            with translated(self.name), self._connection(writing=True) as connection:
                # On PostgreSQL this line is the lock; SQLite's BEGIN IMMEDIATE has it already.
                connection.execute(select(STUDY.c.head_seq).with_for_update())
                news = self._tail(connection)
                before = self._seq, self._digest
                transaction = Transaction(connection, news, self._seq, self._digest)
                yield transaction
                if transaction.seq > self._seq:
                    transaction.seal()
            self._seq, self._digest = transaction.seq, transaction.digest
        except BaseException:
            self._seq, self._digest = before
            raise

    def blob(self, digest: str) -> bytes:
        """Return stored bytes, checked."""
        with translated(self.name), self._connection() as connection:
            found = connection.execute(
                select(BLOBS.c.content).where(BLOBS.c.digest == digest)
            ).scalar_one_or_none()
        content = b"" if found is None else bytes(found)
        if found is None or sha256(content).hexdigest() != digest:
            raise Damaged(
                f"An array of {self.name} is missing or damaged ({digest[:12]}); the one that was "
                "stored was expected. Restore a backup of the study."
            )
        return content

    def salvage(self) -> tuple[list[Event], list[bytes]]:
        """Return the events up to the first damaged one, and all arrays that are whole."""
        events: list[Event] = []
        blobs: list[bytes] = []
        seq, digest = 0, ""
        with translated(self.name), self._connection() as connection:
            with suppress(DatabaseError, Damaged):
                query = select(EVENTS.c.seq, EVENTS.c.body, EVENTS.c.digest)
                for number, body, stored in connection.execute(query.order_by(EVENTS.c.seq)):
                    if number != seq + 1 or chained(digest, number, body) != stored:
                        break
                    seq, digest = number, stored
                    events.append(parsed(number, body))
            with suppress(DatabaseError):
                for stored, content in connection.execute(select(BLOBS.c.digest, BLOBS.c.content)):
                    if sha256(content).hexdigest() == stored:
                        blobs.append(bytes(content))
        return events, blobs

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    def _upgrade(self, version: int) -> None:
        with self._connection(writing=True) as connection:
            if schema.version_of(connection, self.name) != version:
                return  # another process was faster
            keep_backup(connection, self.path, version)
            self._seq, self._digest = 0, ""
            schema.migrate(connection, version)
            # Checked before it is committed: what is damaged is not upgraded.
            self._tail(connection)
        self._seq, self._digest = 0, ""

    def _tail(self, connection: Connection) -> list[Recorded]:
        head_seq, head_digest = connection.execute(
            select(STUDY.c.head_seq, STUDY.c.head_digest)
        ).one()
        news = []
        seq, digest = self._seq, self._digest
        if head_seq != seq:
            rows = connection.execute(
                select(EVENTS.c.seq, EVENTS.c.body, EVENTS.c.digest)
                .where(EVENTS.c.seq > seq)
                .order_by(EVENTS.c.seq)
            )
            for number, body, stored in rows:
                if number != seq + 1 or chained(digest, number, body) != stored:
                    raise self._broken(seq + 1)
                seq, digest = number, stored
                news.append(Recorded(number, parsed(number, body)))
        if (seq, digest) != (head_seq, head_digest):
            raise self._broken(seq + 1)
        self._seq, self._digest = seq, digest
        return news

    def _broken(self, seq: int) -> Damaged:
        return Damaged(
            f"Event {seq} of {self.name} is not what was written: its digest does not follow from "
            "the events before it. Nothing was changed. Restore a backup, or save the events "
            f"before it with Study.recover({self.name!r}, 'rescued.db')."
        )

    @contextmanager
    def _connection(self, *, writing: bool = False) -> Iterator[Connection]:
        if os.getpid() != self._process:
            # Connections do not survive a fork: the parent's are left alone, not closed.
            self._left.append(self._engine.pool)
            self._engine.dispose(close=False)
            self._process = os.getpid()
        engine = self._engine.execution_options(writing=writing)
        with engine.connect() as connection, connection.begin():
            yield connection


class Transaction:
    """A study held: what others appended before, and room for more."""

    def __init__(self, connection: Connection, news: list[Recorded], seq: int, digest: str) -> None:
        self._connection = connection
        self.news, self.seq, self.digest = news, seq, digest

    def append(self, event: Event) -> Recorded:
        """Write an event; it is stored when the transaction ends."""
        self.seq += 1
        body = canonical(event)
        self.digest = chained(self.digest, self.seq, body)
        values = {"seq": self.seq, "body": body, "digest": self.digest}
        self._connection.execute(insert(EVENTS).values(**values))
        return Recorded(self.seq, event)

    def keep(self, content: bytes) -> str:
        """Write bytes, once however often they come, and return the digest they go by."""
        digest = sha256(content).hexdigest()
        there = select(BLOBS.c.digest).where(BLOBS.c.digest == digest)
        if self._connection.execute(there).first() is None:
            self._connection.execute(insert(BLOBS).values(digest=digest, content=content))
        return digest

    def seal(self) -> None:
        """Write the number and digest of the last event, so that a cut at the end is seen."""
        self._connection.execute(update(STUDY).values(head_seq=self.seq, head_digest=self.digest))


def _release(engine: Engine, process: int) -> None:
    if os.getpid() == process:
        engine.dispose()


def _claim(store: Store) -> None:
    """Make the file a study's before anything is in it: a killed creation can be repeated."""
    assert store.path is not None
    try:
        fresh = not readable(store.path)
    except NotAStudy as error:
        raise StudyExists(
            f"{store.path} holds something that is not a study; a free place was expected. It was "
            "left as it is: give another path."
        ) from error
    if not fresh:
        return
    with store._engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        cursor = raw.cursor()
        cursor.execute(f"PRAGMA application_id={APPLICATION}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.close()


def _nothing(name: str) -> NotAStudy:
    return NotAStudy(
        f"There is no study at {name}; one was expected. Check the address, or make one with "
        "Study.create or `goalward label`."
    )

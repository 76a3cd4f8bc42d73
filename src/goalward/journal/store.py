"""The journal on disk: append-only, each event chained to the one before.

A transaction takes the lock first, reads what others appended, and then decides: two processes
on one study take turns, and an answer that `append` returned for survives `kill -9`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, event, select, text

from goalward.errors import Damaged, NotWritten, StudyExists
from goalward.journal import schema
from goalward.journal.engine import (
    APPLICATION,
    claim,
    connect,
    file_of,
    leave_write_ahead,
    located,
    readable,
)
from goalward.journal.events import chained, parsed
from goalward.journal.schema import BLOBS, EVENTS, STUDY
from goalward.journal.transaction import START, Mark, Recorded, Transaction, Written
from goalward.journal.trouble import broken, no_study, replaced, translated

__all__ = ["Store"]

T = TypeVar("T")


class Store:
    """A study's events and arrays in a database.

    It remembers nothing of what it read: who reads says how far they are (`Mark`), so that a call
    that is cut short, wherever, leaves nothing that could disagree with the disk.

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
        # The connection that each thread is using: what is cut short is rolled back by it.
        self._using = threading.local()
        using = self._using
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
            claim(store.path)

        def made(connection: Connection) -> None:
            store._begin(connection)
            transaction = Transaction(connection, [], START, schema.LAYOUT)
            fill(transaction)
            transaction.seal()

        store._run(made, purpose="write")
        return store

    @classmethod
    def open(cls, place: str | Path, *, timeout: float = 30.0) -> Store:
        """Return the store of a study, brought to the current version after a backup."""
        store = cls.found(place, timeout=timeout)
        if store.path is not None:
            with translated(store.name):
                leave_write_ahead(store.path, timeout)
        version = store.version()
        if version < schema.LAYOUT:
            store._run(lambda connection: store._upgrade(connection, version), purpose="write")
        return store

    @classmethod
    def found(cls, place: str | Path, *, timeout: float = 30.0) -> Store:
        """Return the store of a study as it is, of whatever version; nothing is changed."""
        store = cls(place, timeout=timeout)
        if store.path is not None and not readable(store.path):
            raise no_study(store.name)
        return store

    def version(self) -> int:
        """Return the version of the study's journal; `NewerVersion` for one yet to come."""
        version = self._run(lambda connection: schema.version_of(connection, self.name))
        if version is None:
            raise no_study(self.name)
        return version

    def read(self, after: Mark = START) -> list[Recorded]:
        """Return the events that were appended after a mark, checked."""
        if after.seq and self._run(_head, purpose="peek") == after:
            return []
        return self._run(lambda connection: self._tail(connection, after))

    def written(self) -> list[Written]:
        """Return all events as they stand on disk, checked."""
        return self._run(lambda connection: self._bodies(connection, START))

    def write(self, after: Mark, decide: Callable[[Transaction], T]) -> T:
        """Hold the study and decide: what is appended then is stored whole, or not at all."""

        def held(connection: Connection) -> T:
            # On PostgreSQL this line is the lock; SQLite's BEGIN IMMEDIATE has it already.
            version, *head = connection.execute(select(STUDY).with_for_update()).one()
            news = self._tail(connection, after, Mark(*head))
            at = Mark(news[-1].seq, news[-1].digest) if news else after
            transaction = Transaction(connection, news, at, version)
            decided = decide(transaction)
            if transaction.mark != at:
                transaction.seal()
            return decided

        return self._run(held, purpose="write")

    def blob(self, digest: str) -> bytes:
        """Return stored bytes, checked."""
        query = select(BLOBS.c.content).where(BLOBS.c.digest == digest)
        stored = self._run(lambda connection: connection.execute(query).scalar_one_or_none())
        content = b"" if stored is None else bytes(stored)
        if stored is None or sha256(content).hexdigest() != digest:
            raise Damaged(
                f"An array of {self.name} is missing or damaged ({digest[:12]}); the one that was "
                "stored was expected. Restore a backup of the study."
            )
        return content

    def blobs(self) -> list[str]:
        """Return the digests of all stored bytes."""
        query = select(BLOBS.c.digest).order_by(BLOBS.c.digest)
        return self._run(lambda connection: list(connection.execute(query).scalars()))

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    def _begin(self, connection: Connection) -> None:
        """Make the tables in a place that is free; one that was begun and holds no event is."""
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION}")
        else:
            # Two that make tables at once would both fail; this lock ends with the transaction.
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": APPLICATION})
        if schema.version_of(connection, self.name) is None:
            schema.create(connection)
        elif connection.execute(select(STUDY.c.head_seq)).scalar_one() > 0:
            raise StudyExists(
                f"There is a study at {self.name} already; a free place was expected. Open it with "
                "Study.open, or give another path."
            )

    def _upgrade(self, connection: Connection, version: int) -> None:
        if schema.version_of(connection, self.name) != version:
            return  # another process was faster
        schema.keep_backup(connection, self.path, version)
        schema.migrate(connection, version)
        # Checked before it is committed: what is damaged is not upgraded.
        self._tail(connection, START)

    def _tail(
        self, connection: Connection, after: Mark, head: Mark | None = None
    ) -> list[Recorded]:
        bodies = self._bodies(connection, after, head)
        return [Recorded(seq, parsed(seq, body), digest) for seq, body, digest in bodies]

    def _bodies(
        self, connection: Connection, after: Mark, head: Mark | None = None
    ) -> list[Written]:
        head = head or _head(connection)
        if head == after:
            return []
        # The last known event is read again: another study, or an older copy of this one, may
        # stand in its place now.
        rows = connection.execute(
            select(EVENTS.c.seq, EVENTS.c.body, EVENTS.c.digest)
            .where(EVENTS.c.seq >= after.seq)
            .order_by(EVENTS.c.seq)
        )
        if after.seq:
            known = rows.fetchone()
            if known is None or (known[0], known[2]) != after:
                raise replaced(self.name)
        bodies = []
        seq, digest = after
        for number, body, stored in rows:
            if number != seq + 1 or chained(digest, number, body) != stored:
                raise broken(self.name, seq + 1)
            seq, digest = number, stored
            bodies.append(Written(number, body, stored))
        if Mark(seq, digest) != head:
            raise broken(self.name, seq + 1)
        return bodies

    def _run(self, work: Callable[[Connection], T], *, purpose: str = "read") -> T:
        """Return what `work` does in one transaction ("read", "write"), which ends here in any case.

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
        engine = self._engine.execution_options(purpose=purpose)
        try:
            with translated(self.name), engine.connect() as connection, connection.begin():
                return work(connection)
        except BaseException as error:
            self._let_go()
            if (struck := _interrupt_behind(error)) is not None:
                raise struck from None
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
    while isinstance(error, Exception) and error.__context__ is not None:
        error = error.__context__
        if not isinstance(error, Exception):
            return error
    return None


def _release(engine: Engine, process: int) -> None:
    if os.getpid() == process:
        engine.dispose()

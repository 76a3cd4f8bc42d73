"""The journal on disk: append-only, each event chained to the one before.

A transaction takes the lock, reads what others appended, and then decides: processes take turns, and
what `append` returned for survives `kill -9`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from goalward.errors import Damaged, NewerVersion, NotAStudy, NotWritten, Replaced, StudyExists
from goalward.studio.store import database
from goalward.studio.store.database import NAME, SCHEMA, file_of, located, schema_of
from goalward.studio.store.events import START, Event, Mark, Recorded, canonical, chained, parsed
from goalward.studio.store.tables import BLOBS, EVENTS, METADATA, STUDY

T = TypeVar("T")
VERSION = 1
"""The format of the tables and events; a study of another one is refused."""
_HEAD = sa.select(STUDY.c.head_seq, STUDY.c.head_digest)


@dataclass
class Transaction:
    """A journal held by one process for a moment: how far it goes, its header, and room for more."""

    connection: sa.Connection
    mark: Mark
    header: str = ""

    def append(self, event: Event, body: str = "") -> Recorded:
        """Write an event, as it stood elsewhere if so; it is stored when the transaction ends."""
        seq, body = self.mark.seq + 1, body or canonical(event)
        digest = chained(self.mark.digest, seq, body)
        self.connection.execute(sa.insert(EVENTS).values(seq=seq, body=body, digest=digest))
        self.mark = Mark(seq, digest)
        return Recorded(seq, event, digest, body)

    def save(self) -> None:
        """Write how far the journal goes, and its header."""
        seq, digest = self.mark
        values = {"head_seq": seq, "head_digest": digest, "header": self.header}
        self.connection.execute(sa.update(STUDY).values(values))

    def keep(self, content: bytes) -> None:
        """Write bytes, once however often they come; they go by their digest."""
        digest = sha256(content).hexdigest()
        there = sa.select(BLOBS.c.digest).where(BLOBS.c.digest == digest)
        if self.connection.execute(there).first() is None:
            self.connection.execute(sa.insert(BLOBS).values(digest=digest, content=content))


def version_of(connection: sa.Connection, name: str) -> int | None:
    """Return the version of the study in a database; None where there is none."""
    tables = sa.inspect(connection).get_table_names()
    if STUDY.name not in tables:
        if not tables or connection.dialect.name != "sqlite":
            return None
        raise NotAStudy(
            f"{name} has the tables {', '.join(sorted(tables)[:5])} and is not a study. It was left "
            "as it is: give another path."
        )
    version: int | None = connection.execute(sa.select(STUDY.c.version)).scalar_one_or_none()
    if version not in (None, VERSION):
        raise NewerVersion(
            f"{name} has format version {version}, this goalward reads version {VERSION}. It was left "
            "as it is: use the version of goalward that made it, or upgrade with `pip install "
            "--upgrade goalward`."
        )
    return version


class Store:
    """A study's events and arrays in a database; `timeout` is in seconds, for the lock.

    The reader passes a `Mark`: a call that is cut short leaves nothing that disagrees with the disk.
    """

    def __init__(self, place: str | Path, *, timeout: float = 30.0) -> None:
        url = located(place)
        self.path, self._schema = file_of(url), schema_of(url)
        self.name = str(self.path or url.render_as_string(hide_password=True))
        self.address = str(self.path or url.render_as_string(hide_password=False))
        """The place with its password."""
        self._engine: sa.Engine = database.connect(url, timeout)
        self._process = os.getpid()
        # The connection that each thread is using: what is cut short is rolled back by it.
        self._using = using = threading.local()
        sa.event.listen(self._engine, "checkout", lambda raw, *_: setattr(using, "raw", raw))
        sa.event.listen(self._engine, "checkin", lambda *_: setattr(using, "raw", None))
        # A study that is dropped lets go of its connections too; nothing waits to be saved.
        weakref.finalize(self, _release, self._engine, self._process).atexit = False
        self._left: list[object] = []
        self._file: tuple[int, int] | None = None

    @classmethod
    def create(
        cls, place: str | Path, fill: Callable[[Transaction], object], *, timeout: float = 30.0
    ) -> Store:
        """Return a new store, filled in one transaction: of two at one place the first wins."""
        store = cls(place, timeout=timeout)
        if store.path is not None:
            database.claim(store.path)

        def made(connection: sa.Connection) -> None:
            if store.path is not None:
                connection.exec_driver_sql(f"PRAGMA application_id={database.APPLICATION}")
            else:
                # Two that make tables at once would both fail; on SQLite a writer holds the file.
                lock = sa.text("SELECT pg_advisory_xact_lock(:key)")
                connection.execute(lock, {"key": database.APPLICATION})
                if store._schema is not None:
                    connection.execute(sa.text(f'CREATE SCHEMA IF NOT EXISTS "{store._schema}"'))
            if version_of(connection, store.name) is None:
                METADATA.create_all(connection)
                first = {"version": VERSION, "head_seq": 0, "head_digest": "", "header": ""}
                connection.execute(sa.insert(STUDY).values(first))
            elif connection.execute(_HEAD).one() != START:
                raise StudyExists(
                    f"There is a study at {store.name} already. Open it with Study.open, or give "
                    "another path."
                )
            transaction = Transaction(connection, START)
            fill(transaction)
            transaction.save()

        store.run(made, purpose="write")
        return store

    @classmethod
    def open(
        cls,
        place: str | Path,
        *,
        timeout: float = 30.0,
        damaged: bool = False,
        through: Callable[..., Any] | None = None,
    ) -> Store:
        """Return the store of a study of this version; one that may be `damaged` is not looked into."""
        store = cls(place, timeout=timeout)
        there = store.path is None or database.readable(store.path, timeout)
        if there and (damaged or store.run(lambda c: version_of(c, store.name)) is not None):
            if through is not None:
                store.run = partial(through, store.run)  # type: ignore[method-assign]
            return store
        raise NotAStudy(
            f"There is no study at {store.name}. Check the address, or create one with Study.create or "
            "`goalward label`."
        )

    def head(self, after: Mark, *, patience: float | None = None) -> tuple[Mark, str] | None:
        """Return how far the journal goes and its header; None if no further than `after`."""
        news = sa.select(STUDY.c.head_seq, STUDY.c.head_digest, STUDY.c.header)
        news = news.where(STUDY.c.head_digest != after.digest)
        row = self.run(lambda c: c.execute(news).first(), purpose="peek", patience=patience)
        if row is None:
            return None
        self.run(lambda connection: self._known(connection, after), patience=patience)
        return Mark(row[0], row[1]), row[2]

    def read(
        self, after: Mark = START, *, most: int | None = None, patience: float | None = None
    ) -> list[Recorded]:
        """Return the first `most` events after a mark, checked; `patience` is the timeout, if shorter."""
        if after.seq and self.head(after, patience=patience) is None:
            return []
        return self.run(lambda c: self.events(c, after, most), patience=patience)

    def write(self, after: Mark, decide: Callable[[Transaction], T]) -> T:
        """Hold the journal and decide: what is appended then is stored whole, or not at all."""

        def held(connection: sa.Connection) -> T:
            # On PostgreSQL this line is the lock; SQLite's BEGIN IMMEDIATE has it already.
            _, seq, digest, header = connection.execute(sa.select(STUDY).with_for_update()).one()
            transaction = Transaction(connection, Mark(seq, digest), header)
            if transaction.mark != after:
                self._known(connection, after)
            decided = decide(transaction)
            if transaction.mark.seq != seq:
                transaction.save()
            return decided

        return self.run(held, purpose="write")

    def blob(self, digest: str) -> bytes:
        """Return stored bytes, checked."""
        query = sa.select(BLOBS.c.content).where(BLOBS.c.digest == digest)
        stored = self.run(lambda connection: connection.execute(query).scalar_one_or_none())
        content = b"" if stored is None else bytes(stored)
        if stored is None or sha256(content).hexdigest() != digest:
            raise Damaged(
                f"An array of {self.name} is missing or damaged ({digest[:12]}). Restore a backup of the "
                "study."
            )
        return content

    def digests(self) -> list[str]:
        """Return the digests of all stored bytes."""
        query = sa.select(BLOBS.c.digest).order_by(BLOBS.c.digest)
        return self.run(lambda connection: list(connection.execute(query).scalars()))

    def close(self) -> None:
        self._engine.dispose()

    def _known(self, connection: sa.Connection, after: Mark) -> None:
        """Raise unless the journal still has a known event: another one may stand at its place."""
        query = sa.select(EVENTS.c.digest).where(EVENTS.c.seq == after.seq)
        if after.seq and connection.execute(query).scalar() != after.digest:
            raise Replaced(
                f"{self.name} is now another study, or an older copy, than the one that was opened. "
                "Nothing was stored: put the study back, or open what is there now."
            )

    def events(
        self, connection: sa.Connection, after: Mark, most: int | None = None
    ) -> list[Recorded]:
        """Return the first `most` events after a mark in a transaction, checked."""
        return self.checked(after, *self.read_on(connection, after, most))

    def read_on(
        self, connection: sa.Connection, after: Mark, most: int | None = None
    ) -> tuple[list[Any], Mark | None]:
        """Return lines of the first `most` events after a mark, and where the journal ends if so few are left."""
        self._known(connection, after)
        query = sa.select(EVENTS.c.seq, EVENTS.c.body, EVENTS.c.digest)
        query = query.where(EVENTS.c.seq > after.seq).order_by(EVENTS.c.seq).limit(most)
        lines = list(connection.execute(query).cursor.fetchall())
        return lines, None if len(lines) == most else Mark(*connection.execute(_HEAD).one())

    def checked(self, after: Mark, lines: Sequence[Any], end: Mark | None) -> list[Recorded]:
        """Return events after a mark, or raise if they do not follow from it, or stop before the end."""
        events, at = [], after
        for seq, body, digest in lines:
            if seq != at.seq + 1 or chained(at.digest, seq, body) != digest:
                break
            at = Mark(seq, digest)
            events.append(Recorded(seq, parsed(seq, body), digest, body))
        else:
            # With number and digest of the last event a cut at the end is seen.
            if end is None or at == end:
                return events
        raise Damaged(
            f"Event {at.seq + 1} of {self.name} is not what was written: its digest does not follow "
            "from the events before it. Nothing was changed. Restore a backup, or save every event "
            f"that verifies with `goalward restore --recover` or Study.recover({self.name!r}, 'rescued.db')."
        )

    def run(
        self,
        work: Callable[[sa.Connection], T],
        purpose: str = "read",
        patience: float | None = None,
    ) -> T:
        """Return what `work` does in one transaction, which ends here, wherever an interrupt strikes."""
        if os.getpid() != self._process:
            # Connections do not survive a fork: the parent's are left alone, not closed.
            self._left.append(self._engine.pool)
            self._engine.dispose(close=False)
            self._process = os.getpid()
        if self.path is not None:
            try:
                file = self.path.stat()
            except FileNotFoundError as error:
                raise NotWritten(
                    f"{self.path} is gone: it was moved or deleted while it was in use. Nothing was "
                    "stored: put it back, or restore a backup."
                ) from error
            if (file.st_dev, file.st_ino) != self._file:  # another file has the name now
                self._engine.dispose()
                self._file = (file.st_dev, file.st_ino)
        waits = {} if patience is None else {"patience": patience}
        engine = self._engine.execution_options(purpose=purpose, **waits)
        try:
            with engine.connect() as connection, connection.begin():
                return work(connection)
        except BaseException as error:
            self._let_go()
            if (struck := _interrupt_behind(error)) is not None:
                raise struck from None
            if isinstance(error, (DBAPIError, sqlite3.Error)):
                raise database.meaning(self.name, getattr(error, "orig", error)) from error
            raise

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


def _interrupt_behind(error: BaseException) -> BaseException | None:
    """Return the interrupt that led to an error: half-made objects fail in ways of their own."""
    cause: BaseException | None = error
    while isinstance(cause, Exception):
        cause = cause.__context__
    return cause if cause is not error else None


def _release(engine: sa.Engine, process: int) -> None:
    if os.getpid() == process:
        engine.dispose()


SCHEMAS = (
    "SELECT table_schema FROM information_schema.tables "
    "WHERE table_name = 'goalward_events' ORDER BY table_schema"
)


def studies_at(place: str) -> list[str]:
    """Return the address of every study in a database, or in a folder; of one study, its own."""
    if "://" not in place and Path(place).is_dir():
        return [str(path) for path in sorted(Path(place).glob("*.labels.db"))]
    url = located(place)
    if file_of(url) is not None or "study" in url.query:
        return [place]
    store = Store(place)
    names = store.run(_names)
    store.close()
    joint = "&" if url.query else "?"
    return [place if name is None else f"{place}{joint}study={name}" for name in names]


def _names(connection: sa.Connection) -> list[str | None]:
    here = connection.execute(sa.text("SELECT current_schema()")).scalar()
    names: list[str | None] = []
    for schema in connection.execute(sa.text(SCHEMAS)).scalars().all():
        name = None if schema == here else schema.removeprefix(SCHEMA)
        if name is not None and not (schema.startswith(SCHEMA) and NAME.fullmatch(name)):
            continue
        first = sa.text(f'SELECT body FROM "{schema}".goalward_events WHERE seq = 1')
        body = connection.execute(first).scalar()
        # Teams are kept in the same tables.
        if body is not None and json.loads(body)["kind"] == "created":
            names.append(name)
    return names

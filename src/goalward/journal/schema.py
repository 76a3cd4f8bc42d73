"""Tables of a study, what is written to them, and how older ones are brought up to date.

Version 1 had no head: events cut off at the end went unnoticed.
Version 2 keeps the number and the digest of the last event beside the version.
Version 3 has the same tables; its rankings may carry a stop set, which older programs cannot read.
Version 4 has the same tables; its journal may hold lost events and changes of the settings. A study
is of version 3 until the first of these is written, so that older programs can read what they know.
Version 5 has the same tables; its journal may hold descriptions of classes, and more rows, likewise.
Version 6 has the same tables; its journal may hold exports, or be that of a team, likewise.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)

from goalward.core.whole_file import whole_file
from goalward.errors import NewerVersion, NotAStudy
from goalward.journal.engine import opened
from goalward.journal.events import Event, Mark, Recorded, canonical, chained, since

__all__ = [
    "BLOBS",
    "EVENTS",
    "LAYOUT",
    "STUDY",
    "VERSION",
    "Transaction",
    "create",
    "keep_backup",
    "migrate",
    "version_of",
]

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

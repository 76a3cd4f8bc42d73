"""What the events add up to, kept in parts beside them: bytes that this room does not understand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    delete,
    insert,
    inspect,
    select,
)

from goalward.studio.store.store import EVENTS, STUDY

PARTS = Table(
    "goalward_parts",
    # Older programs do not look for it, and a study without it lacks nothing.
    MetaData(),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("digest", String(64), nullable=False),
    Column("checksum", String(64), nullable=False),
    Column("content", LargeBinary, nullable=False),
)


class Kept(NamedTuple):
    """What came up to an event, with its number and digest; the checksum is of the content."""

    seq: int
    digest: str
    checksum: str
    content: bytes


def found(connection: Connection) -> list[Kept]:
    """Return all parts, in order."""
    if not inspect(connection).has_table(PARTS.name):
        return []
    rows = connection.execute(select(PARTS).order_by(PARTS.c.seq))
    return [Kept(row.seq, row.digest, row.checksum, bytes(row.content)) for row in rows]


def digest(connection: Connection, seq: int) -> str | None:
    """Return the digest of an event; None where there is none."""
    query = select(EVENTS.c.digest).where(EVENTS.c.seq == seq)
    return connection.execute(query).scalar_one_or_none()


def keep(connection: Connection, parts: Sequence[Kept]) -> bool:
    """Keep parts and return whether others stood in their place; what follows such a one goes too."""
    # On PostgreSQL this line is the lock; SQLite's BEGIN IMMEDIATE has it already.
    connection.execute(select(STUDY).with_for_update())
    PARTS.create(connection, checkfirst=True)
    query = select(PARTS).where(PARTS.c.seq.between(parts[0].seq, parts[-1].seq))
    there = {
        row.seq: Kept(row.seq, row.digest, row.checksum, bytes(row.content))
        for row in connection.execute(query)
    }
    wrong = [part.seq for part in parts if there.get(part.seq, part) != part]
    if wrong:
        connection.execute(delete(PARTS).where(PARTS.c.seq >= wrong[0]))
    for part in parts:
        if part.seq not in there or (wrong and part.seq >= wrong[0]):
            connection.execute(insert(PARTS), part._asdict())
    return bool(wrong)

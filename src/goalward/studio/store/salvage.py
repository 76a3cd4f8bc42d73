"""What a damaged journal still holds: every event that verifies by itself.

An event's digest is over its text and the digest before it. So an event is whole if its digest
follows from its text and the digest stored before it, whatever happened to the text before it; and
one whose digest was damaged is whole if the event after it follows from the digest it should have.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DatabaseError

from goalward.errors import Damaged
from goalward.studio.store.events import Event, Lost, chained, parsed
from goalward.studio.store.store import BLOBS, EVENTS, STUDY, Store

GAP = 1000
"""Numbers looked up in vain, one after another, before a table without a readable end is over."""
LONGEST = 2000
"""Characters kept of a damaged event."""


@dataclass(frozen=True)
class Salvaged:
    """The events of a damaged study in order, `Lost` where one was, and its whole arrays."""

    events: list[Event]
    blobs: list[bytes]

    @property
    def lost(self) -> list[tuple[int, str]]:
        """(number, what could be read of it) of each event that is lost."""
        numbered = enumerate(self.events, start=1)
        return [(seq, event.text) for seq, event in numbered if isinstance(event, Lost)]


def salvage(store: Store) -> Salvaged:
    """Return what a study still holds; it is only read."""
    found: list[Salvaged] = []
    try:
        store.run(lambda connection: found.append(_salvaged(connection)))
    except Damaged:
        # SQLite says it once more when the reading ends.
        if not found:
            raise
    return found[0]


def _salvaged(connection: Connection) -> Salvaged:
    if connection.dialect.name == "sqlite":
        raw = connection.connection.dbapi_connection
        assert raw is not None
        # Bytes that are no text must not hide the digest beside them.
        raw.text_factory = lambda content: content.decode("utf-8", "backslashreplace")
    head_seq, head_digest = _head(connection)
    rows = dict(_rows(connection, head_seq))
    last = max([head_seq, *rows])
    whole = _verified(rows, last, head_digest)
    events: list[Event] = []
    for seq in range(1, last + 1):
        body = rows.get(seq, ("", ""))[0]
        if seq in whole:
            with suppress(Damaged):
                events.append(parsed(seq, body))
        if len(events) < seq:
            events.append(Lost(at=time.time(), text=body[:LONGEST]))
    return Salvaged(events, list(_blobs(connection)))


def _verified(rows: dict[int, tuple[str, str]], last: int, head_digest: str) -> set[int]:
    """Return the numbers of the events that are whole."""
    whole: set[int] = set()
    # Digests that the event before may have: as stored, or as its text says it should be.
    stored, computed = "", ""
    for seq in range(1, last + 1):
        if seq not in rows:
            stored, computed = "unknown", "unknown"
            continue
        body, digest = rows[seq]
        follows = {before: chained(before, seq, body) for before in (stored, computed)}
        if digest in follows.values():
            whole.add(seq)
            if follows[stored] != digest:
                whole.add(seq - 1)
        stored, computed = digest, digest if seq in whole else follows[computed]
    if stored != computed == head_digest:
        whole.add(last)
    return whole


def _head(connection: Connection) -> tuple[int, str]:
    """Return the number and digest of the last event; none where that cannot be read."""
    with suppress(DatabaseError, ValueError, TypeError):
        row = connection.execute(select(STUDY.c.head_seq, STUDY.c.head_digest)).first()
        if row is not None:
            return int(row[0]), str(row[1])
    with suppress(DatabaseError, ValueError, TypeError):
        return int(connection.execute(select(func.max(EVENTS.c.seq))).scalar() or 0), ""
    return 0, ""


def _rows(connection: Connection, last: int) -> Iterator[tuple[int, tuple[str, str]]]:
    """Give (number, (text, digest)) of every row that can be read, around those that cannot."""
    query = select(EVENTS.c.seq, EVENTS.c.body, EVENTS.c.digest)
    seq = 0
    with suppress(DatabaseError):
        for number, body, digest in connection.execute(query.order_by(EVENTS.c.seq)):
            yield int(number), (str(body), str(digest))
            seq = int(number)
        return
    # A page is damaged: the rows on the others are found one by one.
    missed = 0
    while seq < last or missed < GAP:
        seq, missed = seq + 1, missed + 1
        with suppress(DatabaseError):
            row = connection.execute(query.where(EVENTS.c.seq == seq)).first()
            if row is not None:
                yield seq, (str(row[1]), str(row[2]))
                missed = 0


def _blobs(connection: Connection) -> Iterator[bytes]:
    names: list[str] = []
    with suppress(DatabaseError):
        names.extend(connection.execute(select(BLOBS.c.digest)).scalars())
    for name in names:
        with suppress(DatabaseError):
            query = select(BLOBS.c.content).where(BLOBS.c.digest == name)
            content = connection.execute(query).scalar_one_or_none()
            if isinstance(content, (bytes, memoryview)) and sha256(content).hexdigest() == name:
                yield bytes(content)

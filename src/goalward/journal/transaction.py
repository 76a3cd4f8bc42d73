"""A study held by one process for a moment: what others wrote before, and room for more."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import Connection, insert, select, update

from goalward.journal.events import SINCE, Event, canonical, chained, parsed
from goalward.journal.schema import BLOBS, EVENTS, STUDY

__all__ = ["START", "Mark", "Recorded", "Transaction", "Written"]


class Mark(NamedTuple):
    """How far somebody has read: the number and the digest of the last event they know."""

    seq: int = 0
    digest: str = ""


START = Mark()
"""Before the first event."""


class Recorded(NamedTuple):
    """An event with its number, from 1, and its digest, which stands for all before it too."""

    seq: int
    event: Event
    digest: str = ""


class Written(NamedTuple):
    """An event as it stands on disk."""

    seq: int
    body: str
    digest: str


class Transaction:
    """A study held: what others appended before, and room for more."""

    def __init__(
        self, connection: Connection, news: list[Recorded], mark: Mark, version: int
    ) -> None:
        self._connection, self._version = connection, version
        self.news, self.mark = news, mark

    def append(self, event: Event) -> Recorded:
        """Write an event; it is stored when the transaction ends."""
        seq, body = self.mark.seq + 1, canonical(event)
        self._insert(seq, body, chained(self.mark.digest, seq, body), event)
        return Recorded(seq, event, self.mark.digest)

    def copy(self, written: Iterable[Written]) -> None:
        """Write events as they stood elsewhere, to the letter."""
        for seq, body, digest in written:
            self._insert(seq, body, digest, parsed(seq, body))

    def _insert(self, seq: int, body: str, digest: str, event: Event) -> None:
        self._connection.execute(insert(EVENTS).values(seq=seq, body=body, digest=digest))
        self._version = max(self._version, SINCE.get(type(event), 0))
        self.mark = Mark(seq, digest)

    def keep(self, content: bytes) -> str:
        """Write bytes, once however often they come, and return the digest they go by."""
        digest = sha256(content).hexdigest()
        there = select(BLOBS.c.digest).where(BLOBS.c.digest == digest)
        if self._connection.execute(there).first() is None:
            self._connection.execute(insert(BLOBS).values(digest=digest, content=content))
        return digest

    def seal(self) -> None:
        """Write the number and digest of the last event, so that a cut at the end is seen."""
        head = {"head_seq": self.mark.seq, "head_digest": self.mark.digest}
        self._connection.execute(update(STUDY).values(version=self._version, **head))

"""Reading a study's tables: single queries, blocks of lines, and answers as arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import sqlalchemy as sa

from goalward.studio.store.events import Ranked, parsed
from goalward.studio.store.tables import EVENTS, RANKINGS
from goalward.studio.study.settings import Settings

SKIPPED, WITHDRAWN = "skipped", "withdrawn"
"""In place of an answer's text."""
BLOCK = 20_000
"""Lines read at once: an answer in the same moment waits for it."""


class Reader:
    """Queries on a study, each of one moment; events, which never change, are read once."""

    def __init__(self, run: Callable[[Callable[[sa.Connection], Any]], Any]) -> None:
        self.run = run
        self._events: dict[int, Any] = {}
        self._rounds: list[tuple[int, Ranked]] = []
        self._view: tuple[int, dict[str, Any]] = (0, {})
        self._settings: Settings | None = None

    def on(self, connection: sa.Connection) -> Reader:
        """Return a reader within a transaction."""
        reader = Reader(lambda work: work(connection))
        reader._events, reader._rounds = self._events, self._rounds
        return reader

    def rows(self, query: sa.Select[Any]) -> list[Any]:
        # As the driver gives them: wrapping a million rows would take twice as long.
        return list(self.run(lambda connection: connection.execute(query).cursor.fetchall()))

    def event(self, seq: int) -> Any:
        if seq not in self._events:
            found = self.rows(sa.select(EVENTS.c.body).where(EVENTS.c.seq == seq))
            if len(self._events) > 8:
                self._events.clear()
            self._events[seq] = parsed(seq, found[0][0] if found else "")
        return self._events[seq]

    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = Settings.from_json(self.event(1).settings)
        return self._settings

    def view(self, seq: int) -> dict[str, Any]:
        """Return what pages look up of the newest ranking; nothing of earlier ones."""
        if self._view[0] != seq:
            query = sa.select(RANKINGS.c.view).where(RANKINGS.c.seq == seq)
            content = b"".join(part for row in self.rows(query) for part in row if part)
            digest, text = content[:64], content[64:]
            # What was damaged is made again with the next ranking.
            whole = sha256(text).hexdigest().encode() == digest
            self._view = seq, json.loads(text) if whole else {}
        return self._view[1]

    def rounds(self, last: int) -> Sequence[tuple[int, Ranked]]:
        """Return number and summary of the rankings up to one."""
        known, table = self._rounds, RANKINGS.c
        if last and (not known or known[-1][0] < last):
            # Those with a stop set again: it may be forgotten by now.
            since = next((seq for seq, r in known if r.stop_set), last)
            query = sa.select(table.seq, table.summary).order_by(table.seq)
            query = query.where(table.seq >= (since if known else 0))
            new: list[tuple[int, Any]] = [
                (seq, parsed(seq, body)) for seq, body in self.rows(query)
            ]
            known = self._rounds = [*(r for r in known if r[0] < new[0][0]), *new]
        while known and known[-1][0] > last:
            known = known[:-1]
        return known

    def blocks(self, query: sa.Select[Any], key: sa.Column[Any], last: int) -> Iterator[list[Any]]:
        """Give the lines of a query up to a number of its key, in blocks: others can write between."""
        for first in range(0, last + 1, BLOCK):
            yield self.rows(query.where(key >= first, key < min(first + BLOCK, last + 1)))


class Columns:
    """Answers and skips that stand, by row and then by number; codes of `people` and `texts`."""

    def __init__(self, lines: Iterable[list[Any]]) -> None:
        codes: tuple[dict[str, int], dict[str, int]] = ({}, {})
        parts = []
        for block in lines:
            row, by, label, seq, at = zip(*block, strict=True) if block else ((),) * 5
            coded = [
                [known.setdefault(word, len(known)) for word in column]
                for known, column in zip(codes, (by, label), strict=True)
            ]
            parts.append([np.array(c, dtype=np.int64) for c in (row, *coded, seq)])
            parts[-1].append(np.array(at, dtype=np.float64))
        columns = [np.concatenate(c) for c in zip(*parts, strict=True)]
        order = np.lexsort((columns[3], columns[0]))
        self.row, self.by, self.label, self.seq, self.at = (c[order] for c in columns)
        self.people, self.texts = tuple(codes[0]), list(codes[1])
        skipped = codes[1].get(SKIPPED, -1)
        self.answers = np.flatnonzero(self.label != skipped)

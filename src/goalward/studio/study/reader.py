"""Reading a study's tables: single queries, blocks of lines, and answers as arrays."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from goalward.studio.store.events import Ranked, parsed
from goalward.studio.store.tables import ANSWERS, EVENTS, RANKINGS, ROWS
from goalward.studio.study.settings import Settings

SKIPPED, WITHDRAWN = "skipped", "withdrawn"
"""In place of an answer's text."""
NAMES = ("by", "label", "id", "row", "seq", "before", "undoes", "at")
BLOCK = 1000
"""Lines read at once: an answer in the same moment waits for it."""
PACK = 20_000
"""Lines that the database makes one text of: faster, and Python's lock is taken once."""
_ROW, _N, _NEWEST = (sa.cast(column, sa.Text) for column in (ROWS.c.row, ROWS.c.n, ROWS.c.newest))
PACKED = sa.select(sa.func.aggregate_strings(_ROW + "," + _N + "," + _NEWEST, ","))
"""Row, answers and newest number of rows."""


class Reader:
    """Queries on a study, each of one moment; events, which never change, are read once."""

    def __init__(self, run: Callable[[Callable[[sa.Connection], Any]], Any]) -> None:
        self.run = run
        self._events: dict[int, Any] = {}
        self._rounds: list[tuple[int, Ranked]] = []
        self._views: dict[int, dict[str, Any]] = {}
        self._settings: Settings | None = None
        self._said: Said | None = None
        self._counting = threading.Lock()
        self._counted: tuple[NDArray[Any], NDArray[Any], int] = (np.empty(0), np.empty(0), 0)

    def on(self, connection: sa.Connection) -> Reader:
        """Return a reader within a transaction."""
        reader = Reader(lambda work: work(connection))
        reader._events, reader._rounds, reader._said = self._events, self._rounds, self._said
        reader._views = self._views
        return reader

    def rows(self, query: sa.Select[Any], **values: Any) -> list[Any]:
        # As the driver gives them: wrapping a million rows would take twice as long.
        return list(self.run(lambda c: c.execute(query, values).cursor.fetchall()))

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
        found = self._views.get(seq)
        if found is None:
            query = sa.select(RANKINGS.c.view).where(RANKINGS.c.seq == seq)
            content = b"".join(part for row in self.rows(query) for part in row if part)
            digest, text = content[:64], content[64:]
            # What was damaged is made again with the next ranking.
            found = json.loads(text) if sha256(text).hexdigest().encode() == digest else {}
            self._views.clear()
            self._views[seq] = found
        return found

    def rounds(self, last: int) -> Sequence[tuple[int, Ranked]]:
        """Return number and summary of the rankings up to one."""
        known, table = self._rounds, RANKINGS.c
        if last and (not known or known[-1][0] < last):
            # Those with a stop set again: it may be forgotten by now.
            since = next((seq for seq, r in known if r.stop_set), last)
            query = sa.select(table.seq, table.summary).order_by(table.seq)
            query = query.where(table.seq >= (since if known else 0))
            new: list[tuple[int, Any]] = [(s, parsed(s, body)) for s, body in self.rows(query)]
            known = self._rounds = [*(r for r in known if r[0] < new[0][0]), *new]
        while known and known[-1][0] > last:
            known = known[:-1]
        return known

    def blocks(
        self,
        query: sa.Select[Any],
        key: sa.Column[Any],
        last: int,
        first: int = 0,
        size: int = BLOCK,
    ) -> Iterator[list[Any]]:
        """Give the lines of a query up to a number of its key, in blocks: others can write between."""
        for at in range(first, last + 1, size):
            yield self.rows(query.where(key >= at, key < min(at + size, last + 1)))

    def counted(self, n_rows: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return of every row how many answers it has, and the newest number; 0 where nobody spoke.

        They are kept: of rows that somebody spoke of since, they are read again.
        """
        with self._counting:
            n, newest, at = self._counted
            if len(n) != n_rows:
                n, newest = np.zeros(n_rows, dtype=np.int32), np.zeros(n_rows, dtype=np.int64)
                parts = self.blocks(PACKED, ROWS.c.row, n_rows - 1, size=PACK)
            elif last > at:
                touched = sa.select(ANSWERS.c.row).where(ANSWERS.c.id > at, ANSWERS.c.row < n_rows)
                again = sorted({row for (row,) in self.rows(touched)})
                n, newest = n.copy(), newest.copy()
                n[again] = newest[again] = 0
                some = (again[first : first + BLOCK] for first in range(0, len(again), BLOCK))
                parts = (self.rows(PACKED.where(ROWS.c.row.in_(part))) for part in some)
            else:
                return n, newest
            for ((text,),) in parts:
                rows, k, number = (
                    np.fromstring(text or "", sep=",", dtype=np.int64).reshape(-1, 3).T
                )
                n[rows], newest[rows] = k, number
            self._counted = n, newest, last
            return n, newest

    def said(self, last: int) -> Said:
        """Return everything that was said up to an event, or further; only what is new is read."""
        known = self._said or Said()
        if last > known.last:
            first, table = known.last + 1, ANSWERS.c
            query = sa.select(*(table[name] for name in NAMES))
            known = self._said = known.grown(self.blocks(query, table.id, last, first), last)
        return known


@dataclass
class Said:
    """Lines of answers as arrays, in the order of their numbers; codes of `people` and `texts`."""

    last: int = 0
    people: dict[str, int] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    columns: Sequence[NDArray[Any]] = tuple(np.empty(0, float if n == "at" else int) for n in NAMES)

    def grown(self, blocks: Iterable[list[Any]], last: int) -> Said:
        """Return them with more lines, up to an event."""
        people, texts, parts = dict(self.people), dict(self.texts), [self.columns]
        for block in filter(None, blocks):
            by, label, *others = zip(*block, strict=True)
            who = [people.setdefault(word, len(people)) for word in by]
            what = [texts.setdefault(word, len(texts)) for word in label]
            columns = zip((who, what, *others), self.columns, strict=True)
            parts.append([np.array(values, dtype=own.dtype) for values, own in columns])
        return Said(last, people, texts, [np.concatenate(c) for c in zip(*parts, strict=True)])


class Columns:
    """Answers and skips that stand at an event, by row and then by number."""

    def __init__(self, said: Said, seq: int) -> None:
        end = np.searchsorted(said.columns[2], seq, side="right")
        by, label, id, row, number, before, _, at = (column[:end] for column in said.columns)
        stands = label != said.texts.get(WITHDRAWN, -1)
        stands[np.searchsorted(id, before[before > 0])] = False
        kept = np.flatnonzero(stands)
        order = kept[np.lexsort((number[kept], row[kept]))]
        self.row, self.seq, self.at = row[order], number[order], at[order]
        # Only those people and texts that are there.
        heard, self.by = np.unique(by[order], return_inverse=True)
        given, self.label = np.unique(label[order], return_inverse=True)
        people, texts = list(said.people), list(said.texts)
        self.people, self.texts = [people[k] for k in heard], [texts[k] for k in given]
        skipped = self.texts.index(SKIPPED) if SKIPPED in self.texts else -1
        self.answers = np.flatnonzero(self.label != skipped)

"""The journal of a study and its state, in one process; and a check of both."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from goalward.errors import Damaged, Locked, NotAStudy
from goalward.studio.store import Event, Mark, Recorded, Store, Transaction
from goalward.studio.store.tables import FOLDED, METADATA, RANKINGS, STUDY
from goalward.studio.study.fold import folded
from goalward.studio.study.reader import Reader
from goalward.studio.study.state import State

Decision = Callable[[State, float], tuple[Any, Sequence[Event]]]
"""From the state and the time to what the caller gets, and the events to store."""
PATIENCE = 0.3
"""Seconds that a read waits for others; answers wait longer."""
WAIT = 5.0
"""Seconds that an answer waits where a person sits before it: a page gives up after 15."""
FEW = 4096
"""Events that are checked whenever a study is opened; longer journals are in the background."""
GLANCE = 200
"""Events or lines that a check reads at once: an answer in the same moment waits for it."""

ALONE = nullcontext()
"""The turn of a check that nothing else runs beside."""


class Ledger:
    """A store, and the state of what was read of it."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.store, self.clock = store, clock
        self._lock = threading.RLock()
        self.reader = Reader(store.run)
        self.known = State(reader=self.reader)
        """The state at the last read."""
        self.behind: str | None = None
        """Why the last read was not of the study itself; None where it was."""
        self._look_again = 0.0
        self._catch_up()
        if self.known.seq == 0:
            raise NotAStudy(
                f"The study at {store.name} was never finished and holds no answers. Delete it and "
                "create it again."
            )
        self.checked = self.known.seq <= FEW
        """Whether every event was read and compared with the tables."""
        if self.checked:
            self.check()

    @property
    def state(self) -> State:
        """The state now; while another process holds the study, at the last read (see `behind`)."""
        if self.behind is not None and time.monotonic() < self._look_again:
            return self.known
        try:
            return self._catch_up(PATIENCE)
        except Locked as error:
            self.behind, self._look_again = str(error), time.monotonic() + 1.0
        return self.known

    def _catch_up(self, patience: float | None = None) -> State:
        known = self.known
        if (news := self.store.head(known.mark, patience=patience)) is not None:
            # State and mark are one value, set once: nothing that strikes between can part them.
            self.known = known = State.of(*news, self.reader)
        # What a status needs is looked up now: later somebody may hold the study.
        _ = known.leases, known.ranking, known.rounds
        self.behind = None
        return known

    def write(
        self,
        *steps: Decision,
        blobs: Sequence[bytes] = (),
        view: dict[str, Any] | None = None,
    ) -> list[Any]:
        """Hold the study, decide one step after the other, store their events and return their results."""
        text = json.dumps(view).encode()
        page_view = sha256(text).hexdigest().encode() + text

        def held(transaction: Transaction) -> tuple[State, list[Any]]:
            connection = transaction.connection
            # What is looked up now is read in this transaction.
            reader = self.reader.on(connection)
            if self.known.mark == transaction.mark:
                state = replace(self.known, reader=reader)
            else:
                state = State.of(transaction.mark, transaction.header, reader)
            results: list[Any] = []
            for step in steps:
                result, events = step(state, self.clock())
                results.append(result)
                for content in blobs if events else ():
                    transaction.keep(content)
                if events:
                    state = folded(connection, state, map(transaction.append, events))
            if view is not None:
                newest = RANKINGS.c.seq == state.ranked
                connection.execute(sa.update(RANKINGS).where(newest).values(view=page_view))
            transaction.header = state.header()
            if state.pool_seq != self.known.pool_seq:  # as it is read again, here too
                state = State.of(state.mark, transaction.header, reader)
            return replace(state, reader=self.reader), results

        with self._lock:
            # Only what is on disk counts.
            self.known, results = self.store.write(self.known.mark, held)
            return results

    def check(self, pause: float = 0.0, turn: AbstractContextManager[Any] = ALONE) -> int:
        """Verify every event and table, and return how many events there are; see `verify`."""
        events = verify(self.store, pause, turn)
        self.checked = True
        return events


class Replica:
    """What events add up to, made anew in a database of its own, which is gone with it."""

    def __init__(self) -> None:
        engine = sa.create_engine(
            "sqlite://",
            # A file that SQLite deletes: a long journal does not fit into memory.
            creator=lambda: sqlite3.connect("", check_same_thread=False),
            poolclass=sa.StaticPool,
        )
        self.connection = engine.connect()
        METADATA.create_all(self.connection)
        self.reader = Reader(lambda work: work(self.connection))
        self.state = State(reader=self.reader)

    def take(self, news: Sequence[Recorded]) -> State:
        """Take in more events."""
        self.state = replace(folded(self.connection, self.state, news), reader=self.reader)
        return self.state


def verify(store: Store, pause: float = 0.0, turn: AbstractContextManager[Any] = ALONE) -> int:
    """Verify every event, compare the tables with a replay of them, and return how many there are.

    Each block is read in its `turn`; after it this waits `pause` times as long as it took.
    """
    replica, tables = Replica(), list(FOLDED)
    last, more = -1, True
    while more:
        began = time.perf_counter()
        moment = partial(_moment, store, replica.state.mark, tables[:1], last)
        with turn:
            found, header, lines = store.run(moment)
        news = store.checked(replica.state.mark, *found)
        replica.take(news)
        if len(news) < GLANCE:  # then all of it is of one moment
            if header != replica.state.header():
                _refuse(store, "The header")
            if lines != _lines(replica.connection, tables[:1], last):
                _refuse(store, f"The table {tables[0].name}")
            if lines:
                last = lines[-1][0]
            else:
                tables, last = tables[1:], -1
            more = bool(tables)
        time.sleep(pause * (time.perf_counter() - began))
    replica.connection.close()
    return replica.state.seq


def _moment(
    store: Store, mark: Mark, tables: Sequence[sa.Table], last: int, connection: sa.Connection
) -> tuple[Any, str, list[Any]]:
    """Return some events and lines as they are, with the header: whoever answers waits until this ends."""
    news = store.read_on(connection, mark, GLANCE)
    header = connection.execute(sa.select(STUDY.c.header)).scalar_one()
    return news, header, _lines(connection, tables, last)


def _lines(connection: sa.Connection, tables: Sequence[sa.Table], last: int) -> list[Any]:
    """Return some lines of a table after one; the first column is the key."""
    found: list[Any] = []
    for table in tables:
        key, *_ = columns = [column for column in table.c if column is not RANKINGS.c.view]
        query = sa.select(*columns).where(key > last).order_by(key).limit(GLANCE)
        found += connection.execute(query).cursor.fetchall()
    return found


def _refuse(store: Store, what: str) -> None:
    raise Damaged(
        f"{what} of {store.name} is not what its events add up to, which are whole. Save them, and "
        "make the tables anew, with `goalward restore --recover` or Study.recover."
    )

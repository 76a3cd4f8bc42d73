"""Studies as files: created, copied, restored, and recovered from a damaged one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, islice, starmap
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import DatabaseError

from goalward.core.files import refuse_existing, refuse_inputs, same_file, whole_file
from goalward.errors import Damaged, WouldOverwrite
from goalward.studio.store import Created, Event, Recorded, Store, Transaction
from goalward.studio.store.database import file_of, files_of_database, located
from goalward.studio.store.events import START, Lost, Mark, chained, parsed
from goalward.studio.store.tables import BLOBS, EVENTS, STUDY
from goalward.studio.study import pools
from goalward.studio.study.exchange import answers_table
from goalward.studio.study.fold import folded
from goalward.studio.study.guesses import Guesses
from goalward.studio.study.ledger import Replica, verify
from goalward.studio.study.ranking import versions
from goalward.studio.study.reader import Reader
from goalward.studio.study.settings import Settings
from goalward.studio.study.state import State
from goalward.studio.tables.cells import write_table
from goalward.studio.tables.encoder import Tick
from goalward.studio.tables.table import named_table

LONGEST = 2000
"""Characters kept of a damaged event."""
BLOCK = 5000
"""Events that are copied at once."""


def create(
    url: str | Path,
    settings: Settings,
    pool: Any,
    given: tuple[Any, Any],
    *,
    clock: Callable[[], float],
    tick: Tick,
    timeout: float,
) -> None:
    """Create a study of settings, a pool, and guesses `given` with their probabilities."""
    home = file_of(located(url))
    if given[0] is not None:
        settings.answer.need("guesses=")
    pool, beside = Guesses.given(pool, *given)
    # Features first: a table that cannot be read leaves nothing behind.
    table = named_table(pool) if settings.costs else None
    pools.prices(table.read() if table else None, settings.costs)
    kept, blobs = pools.store(pool, home.parent if home else None, tick)
    if beside is not None:
        kept, content = beside.stored(kept)
        blobs = [*blobs, *content]
    created = Created(at=clock(), settings=settings.to_json(), pool=kept, versions=versions())
    _write(url, blobs, [(created, "")], timeout).close()


def backup(
    source: Store, path: str | Path, *, inputs: Iterable[Path] = (), force: bool = False
) -> int:
    """Write a study, of whatever database, as one SQLite file and return its number of events."""
    refuse_inputs(Path(path), inputs)
    with whole_file(path, force=force) as partial:
        return _copied(source, partial)


def restore(
    source: str | Path, place: str | Path, *, force: bool = False, timeout: float = 30.0
) -> tuple[int, Path | None]:
    """Restore a backup; return its number of events, and where the replaced file is now."""
    store = Store.open(source, timeout=timeout)
    path = file_of(located(place))
    if path is None:
        return _copied(store, place, timeout), None
    if store.path is not None and same_file(store.path, path):
        raise WouldOverwrite(f"{path} is the backup itself. Give another place.")
    if not force:
        refuse_existing(path)
    with whole_file(path, force=force) as partial:
        return _copied(store, partial, timeout), _put_aside(path)


def _put_aside(path: Path) -> Path | None:
    """Rename a file, and what SQLite keeps beside it; None where there is none."""
    if not os.path.lexists(path):
        return None
    names = (path.with_name(f"{path.name}.replaced-{n}") for n in count(1))
    aside = next(free for free in names if not os.path.lexists(free))
    beside = zip(files_of_database(path)[1:], files_of_database(aside)[1:], strict=True)
    for source, target in beside:
        if os.path.lexists(source):
            source.rename(target)
    try:
        # Both names until the new file takes one: there is a study at the path at any moment.
        os.link(path, aside, follow_symlinks=False)
    except OSError:  # a file system without links
        path.rename(aside)
    return aside


def _write(
    place: str | Path,
    blobs: Iterable[bytes],
    events: Iterable[tuple[Event, str]],
    timeout: float,
    *,
    folds: bool = True,
) -> Store:
    """Create a store of arrays and events; those of a study fold into tables, those of a team do not."""

    def fill(transaction: Transaction) -> None:
        state, every = State(reader=Reader(lambda work: work(transaction.connection))), iter(events)
        while some := list(islice(every, BLOCK)):
            news = list(starmap(transaction.append, some))
            if folds:
                state = folded(transaction.connection, state, news)
        # After the events, which are copied while others work: no array that they name is missing.
        for content in blobs:
            transaction.keep(content)
        transaction.header = state.header() if folds else ""

    return Store.create(place, fill, timeout=timeout)


def _copied(source: Store, place: str | Path, timeout: float = 30.0) -> int:
    written: list[Mark] = [START]

    def events() -> Iterator[tuple[Event, str]]:
        # In blocks, up to the end: what is appended meanwhile comes along.
        while news := source.read(written[-1], most=BLOCK):
            written[-1] = Mark(news[-1].seq, news[-1].digest)
            yield from ((recorded.event, recorded.body) for recorded in news)

    def blobs() -> Iterator[bytes]:
        yield from map(source.blob, source.digests())

    _, header = source.head(START) or (START, "")
    copy = _write(place, blobs(), events(), timeout, folds=header != "")
    # Read back from the disk, digest by digest, before anybody relies on it.
    read = verify(copy) if header else len(copy.read())
    if read != written[-1].seq or copy.head(written[-1]) is not None:
        raise Damaged(f"The copy of {source.name} is not what was written. Try another disk.")
    for digest in copy.digests():
        copy.blob(digest)
    copy.close()
    return written[-1].seq


# Recovery. An event's digest covers its text and the digest before it. So an event is whole if its
# digest follows from its text and the digest stored before it; and one whose digest was damaged is
# whole if the next event follows from the digest it should have.


@dataclass(frozen=True)
class Salvaged:
    """The events of a damaged study in order, `Lost` in place of damaged ones, and its whole arrays."""

    events: list[Event]
    blobs: list[bytes]

    @property
    def lost(self) -> list[tuple[int, str]]:
        numbered = enumerate(self.events, start=1)
        return [(seq, event.text) for seq, event in numbered if isinstance(event, Lost)]


def recover(damaged: str | Path, place: str | Path, *, timeout: float = 30.0) -> Salvaged:
    """Create a study of every whole event of a damaged one; the events keep their numbers."""
    source = Store.open(damaged, timeout=timeout, damaged=True)
    salvaged = _salvage(source)
    if not salvaged.events or not isinstance(salvaged.events[0], Created):
        whole = len(salvaged.events) - len(salvaged.lost)
        raise Damaged(
            f"The first event of {source.name}, which describes the study, is damaged; {whole} others "
            "are whole. Restore a backup; or save the answers with `goalward restore --recover STUDY "
            "answers.csv`, make a new study, and `goalward import` them."
        )
    _write(place, salvaged.blobs, [(event, "") for event in salvaged.events], timeout).close()
    return salvaged


def recover_answers(damaged: str | Path, path: str | Path) -> Salvaged:
    """Write the answers of a damaged study, its first event lost, as a table for `goalward import`."""
    salvaged = _salvage(Store.open(damaged, damaged=True))
    events = list(starmap(Recorded, enumerate(salvaged.events, start=1)))
    write_table(answers_table(Replica().take(events)), path)
    return salvaged


def _salvage(store: Store) -> Salvaged:
    read: list[Salvaged] = []
    try:
        store.run(lambda connection: read.append(_salvaged(connection)))
    except Damaged:
        if not read:  # SQLite raises once more when the transaction ends
            raise
    return read[0]


def _salvaged(connection: Connection) -> Salvaged:
    if connection.dialect.name == "sqlite":
        raw = connection.connection.dbapi_connection
        assert raw is not None
        # Bytes that are no text must not hide the digest beside them.
        raw.text_factory = lambda content: content.decode("utf-8", "backslashreplace")
    head = (0, "")
    with suppress(DatabaseError, ValueError, TypeError):
        seq, digest = connection.execute(select(STUDY.c.head_seq, STUDY.c.head_digest)).one()
        head = int(seq), str(digest)
    rows = dict(_rows(connection, head[0]))
    last = max([head[0], *rows])
    whole = _verified(rows, last, head[1])
    events: list[Event] = []
    for seq in range(1, last + 1):
        body = rows.get(seq, ("", ""))[0]
        if seq in whole:
            with suppress(Damaged):
                events.append(parsed(seq, body))
        if len(events) < seq:
            events.append(Lost(at=time.time(), text=body[:LONGEST]))
    return Salvaged(events, list(_blobs(connection)))


def _rows(connection: Connection, last: int) -> Iterator[tuple[int, tuple[str, str]]]:
    """Give (number, (text, digest)) of every readable row."""
    query = select(EVENTS.c.seq, EVENTS.c.body, EVENTS.c.digest)
    seq = 0
    with suppress(DatabaseError):
        for number, body, digest in connection.execute(query.order_by(EVENTS.c.seq)):
            seq = int(number)
            yield seq, (str(body), str(digest))
        return
    # The database cannot read on: it looks up the other numbers one by one.
    for number in range(seq + 1, last + 1):
        with suppress(DatabaseError):
            row = connection.execute(query.where(EVENTS.c.seq == number)).first()
            if row is not None:
                yield number, (str(row[1]), str(row[2]))


def _verified(rows: dict[int, tuple[str, str]], last: int, head_digest: str) -> set[int]:
    """Return the numbers of the whole events."""
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


def _blobs(connection: Connection) -> Iterator[bytes]:
    names: list[str] = []
    with suppress(DatabaseError):
        names.extend(connection.execute(select(BLOBS.c.digest)).scalars())
    for name in names:
        with suppress(DatabaseError):
            query = select(BLOBS.c.content).where(BLOBS.c.digest == name)
            content = connection.execute(query).scalar_one_or_none()
            if content is not None and sha256(content).hexdigest() == name:
                yield bytes(content)

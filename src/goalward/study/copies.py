"""Copies of a study: a backup, a backup put back, and what is left of a damaged one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from goalward.core.whole_file import refuse_existing, refuse_inputs, same_file, whole_file
from goalward.errors import Damaged, WouldOverwrite
from goalward.journal import Created, Recorded, Store
from goalward.journal.engine import file_of, located
from goalward.journal.salvage import Salvaged, salvage
from goalward.journal.schema import LAYOUT
from goalward.journal.transaction import Transaction
from goalward.study.exchange import answers_table
from goalward.study.state import State, folded
from goalward.tables.write import write_table

__all__ = ["BESIDE", "backup", "recover", "recover_answers", "restore"]

BESIDE = ("", "-journal", "-wal", "-shm")
"""Endings of the files that SQLite may keep for one database."""


def backup(
    source: Store, path: str | Path, *, inputs: Iterable[Path] = (), force: bool = False
) -> int:
    """Write a study, of whatever database, as one SQLite file and return how many events it has.

    Others may go on meanwhile: it is the study of one moment. It is read back and every digest is
    checked before it gets its name.
    """
    refuse_inputs(Path(path), inputs)
    with whole_file(path, force=force) as partial:
        return _copied(source, partial)


def restore(
    source: str | Path, place: str | Path, *, force: bool = False, timeout: float = 30.0
) -> tuple[int, Path | None]:
    """Put a backup to a place; return how many events it has, and where what was there is now.

    Parameters
    ----------
    force
        Take the place of a file that is there, which is kept under another name.
    """
    store = Store.found(source, timeout=timeout)
    path = file_of(located(place))
    if path is not None and store.path is not None and same_file(store.path, path):
        raise WouldOverwrite(f"{path} is the backup itself; another place was expected.")
    if path is not None and not force:
        refuse_existing(path)
    with _of_today(store) as current:
        if path is None:
            return _copied(current, place, timeout), None
        with whole_file(path, force=force) as partial:
            events = _copied(current, partial, timeout)
            return events, _put_aside(path)


@contextmanager
def _of_today(store: Store) -> Iterator[Store]:
    """Give a store of the present version: a backup of an older one is not changed itself."""
    if store.version() >= LAYOUT or store.path is None:
        yield store
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "older.db"
        for ending in BESIDE:
            beside = store.path.with_name(store.path.name + ending)
            if beside.exists():
                shutil.copyfile(beside, copy.with_name(copy.name + ending))
        yield Store.open(copy)


def recover(damaged: str | Path, place: str | Path, *, timeout: float = 30.0) -> Salvaged:
    """Make a study of every event of a damaged one that is whole, and return what was found.

    The numbers of the events stay; `Lost` stands where one was.
    """
    source = Store.found(damaged, timeout=timeout)
    found = salvage(source)
    if not found.events or not isinstance(found.events[0], Created):
        whole = len(found.events) - len(found.lost)
        raise Damaged(
            f"The first event of {source.name}, which says what the study is about, is damaged; {whole} "
            "others are whole. Restore a backup; or save the answers with `goalward recover STUDY "
            "answers.csv`, make a new study, and `goalward import` them."
        )

    def fill(transaction: Transaction) -> None:
        for content in found.blobs:
            transaction.keep(content)
        for event in found.events:
            transaction.append(event)

    Store.create(place, fill, timeout=timeout).close()
    return found


def recover_answers(damaged: str | Path, path: str | Path) -> Salvaged:
    """Write the answers of a damaged study as a table that `goalward import` takes.

    For studies whose first event is lost: what is left says who answered what, and no more.
    """
    found = salvage(Store.found(damaged))
    numbered = enumerate(found.events, start=1)
    state = folded(State(), (Recorded(seq, event) for seq, event in numbered))
    write_table(answers_table(state), path)
    return found


def _put_aside(path: Path) -> Path | None:
    """Give a file, and what SQLite keeps beside it, another name; None where there is none."""
    if not os.path.lexists(path):
        return None
    aside = next(
        free
        for n in count(1)
        if not os.path.lexists(free := path.with_name(f"{path.name}.replaced-{n}"))
    )
    for ending in reversed(BESIDE):
        beside = path.with_name(path.name + ending)
        if os.path.lexists(beside):
            beside.rename(aside.with_name(aside.name + ending))
    return aside


def _copied(source: Store, place: str | Path, timeout: float = 30.0) -> int:
    written = source.written()
    if not written:
        raise Damaged(f"{source.name} holds no event; a study was expected.")

    def fill(transaction: Transaction) -> None:
        for digest in source.blobs():
            transaction.keep(source.blob(digest))
        transaction.copy(written)

    copy = Store.create(place, fill, timeout=timeout)
    # Read back from the disk, digest by digest, before anybody relies on it.
    if copy.written() != written or copy.blobs() != source.blobs():
        raise Damaged(f"The copy of {source.name} is not what was written. Try another disk.")
    for digest in copy.blobs():
        copy.blob(digest)
    copy.close()
    return len(written)

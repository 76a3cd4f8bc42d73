"""Studies as files: made, copied, put back, and what is left of a damaged one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from itertools import count, starmap
from pathlib import Path
from typing import Any

from goalward.core.files import refuse_existing, refuse_inputs, same_file, whole_file
from goalward.errors import Damaged, EventsLost, WouldOverwrite
from goalward.studio.store import Created, Event, Recorded, Store, Transaction
from goalward.studio.store.engine import files_of_database
from goalward.studio.store.places import file_of, located
from goalward.studio.store.salvage import Salvaged, salvage
from goalward.studio.study import pools
from goalward.studio.study.exchange import answers_table
from goalward.studio.study.fold import folded
from goalward.studio.study.guesses import Guesses
from goalward.studio.study.prices import check_prices
from goalward.studio.study.ranking import versions
from goalward.studio.study.settings import Settings
from goalward.studio.study.state import State
from goalward.studio.tables.cells import write_table
from goalward.studio.tables.encoder import Tick


def create(
    url: str | Path,
    settings: Settings,
    pool: Any,
    *,
    guesses: Any,
    guess_probabilities: Any,
    clock: Callable[[], float],
    tick: Tick,
    timeout: float,
) -> None:
    """Make a study: its settings and its pool, and no answers."""
    home = file_of(located(url))
    if guesses is not None:
        settings.answer.need("guesses=")
    pool, said = Guesses.given(pool, guesses, guess_probabilities)
    # Features first: a table that cannot be read leaves nothing behind, and the place is held only
    # for as long as it takes to write.
    check_prices(pool, settings.costs)
    kept, blobs = pools.store(pool, home.parent if home else None, tick)
    if said is not None:
        kept, content = said.stored(kept)
        blobs = [*blobs, *content]
    created = Created(at=clock(), settings=settings.to_json(), pool=kept, versions=versions())
    _write(url, blobs, [created], timeout)


def backup(
    source: Store, path: str | Path, *, inputs: Iterable[Path] = (), force: bool = False
) -> int:
    """Write a study, of whatever database, as one SQLite file and return how many events it has."""
    refuse_inputs(Path(path), inputs)
    with whole_file(path, force=force) as partial:
        return _copied(source, partial)


def restore(
    source: str | Path, place: str | Path, *, force: bool = False, timeout: float = 30.0
) -> tuple[int, Path | None]:
    """Put a backup to a place; return how many events it has, and where what was there is now."""
    store = Store.found(source, timeout=timeout)
    store.version()  # a newer one is refused
    path = file_of(located(place))
    if path is not None and store.path is not None and same_file(store.path, path):
        raise WouldOverwrite(f"{path} is the backup itself; another place was expected.")
    if path is not None and not force:
        refuse_existing(path)
    if path is None:
        return _copied(store, place, timeout), None
    with whole_file(path, force=force) as partial:
        events = _copied(store, partial, timeout)
        return events, _put_aside(path)


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
            "others are whole. Restore a backup; or save the answers with `goalward restore --recover "
            "STUDY answers.csv`, make a new study, and `goalward import` them."
        )
    _write(place, found.blobs, found.events, timeout)
    return found


def warn_of_lost(found: Salvaged, damaged: str | Path) -> None:
    """Warn where some events of a damaged study could not be saved."""
    if found.lost:
        warnings.warn(
            f"{len(found.lost)} of {len(found.events)} events of {damaged} are damaged and were left "
            f"out, the first of them number {found.lost[0][0]}; study.state.lost has what could be read "
            "of them.",
            EventsLost,
            stacklevel=3,
        )


def _write(
    place: str | Path, blobs: Iterable[bytes], events: Iterable[Event], timeout: float
) -> None:
    def fill(transaction: Transaction) -> None:
        for content in blobs:
            transaction.keep(content)
        for event in events:
            transaction.append(event)

    Store.create(place, fill, timeout=timeout).close()


def recover_answers(damaged: str | Path, path: str | Path) -> Salvaged:
    """Write the answers of a damaged study as a table that `goalward import` takes.

    For studies whose first event is lost: what is left says who answered what, and no more.
    """
    found = salvage(Store.found(damaged))
    write_table(answers_table(folded(State(), starmap(Recorded, enumerate(found.events, 1)))), path)
    return found


def _put_aside(path: Path) -> Path | None:
    """Give a file, and what SQLite keeps beside it, another name; None where there is none."""
    if not os.path.lexists(path):
        return None
    names = (path.with_name(f"{path.name}.replaced-{n}") for n in count(1))
    aside = next(free for free in names if not os.path.lexists(free))
    beside = zip(files_of_database(path)[1:], files_of_database(aside)[1:], strict=True)
    for source, target in beside:
        if os.path.lexists(source):
            source.rename(target)
    try:
        # It keeps its name, until the new one takes it: there is a study at the path at any moment.
        os.link(path, aside, follow_symlinks=False)
    except OSError:  # a file system without links
        path.rename(aside)
    return aside


def _copied(source: Store, place: str | Path, timeout: float = 30.0) -> int:
    written, digests = source.contents()
    if not written:
        raise Damaged(f"{source.name} holds no event; a study was expected.")

    def fill(transaction: Transaction) -> None:
        for digest in digests:
            transaction.keep(source.blob(digest))
        for recorded in written:
            transaction.append(recorded.event, recorded.body)

    copy = Store.create(place, fill, timeout=timeout)
    # Read back from the disk, digest by digest, before anybody relies on it.
    if copy.contents() != (written, digests):
        raise Damaged(f"The copy of {source.name} is not what was written. Try another disk.")
    for digest in digests:
        copy.blob(digest)
    copy.close()
    return len(written)

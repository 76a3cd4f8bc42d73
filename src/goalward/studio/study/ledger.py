"""The journal of a study and what it adds up to, in one process: read, and held to be written."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from goalward.errors import Locked, NotAStudy, NotWritten
from goalward.studio.store import Event, Store, Transaction
from goalward.studio.store.parts import Kept, keep
from goalward.studio.study.fold import advance, folded
from goalward.studio.study.snapshots import load
from goalward.studio.study.state import State

T = TypeVar("T")
PATIENCE = 0.3
"""Seconds that a look waits for others; answers wait longer."""
WAIT = 5.0
"""Seconds that an answer waits where a person sits before it: a page gives up after 15."""
MOST = 20_000
"""Events that are read at once: a long journal is never in memory whole."""
GLANCE = 100
"""Events that a check reads at once: an answer in the same moment waits for it."""


class Ledger:
    """A store, and the state of what was read of it.

    Parameters
    ----------
    clock
        Seconds since 1970.
    """

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.store, self.clock = store, clock
        self._lock = threading.RLock()
        self.known = load(store)
        """Where the study stood at the last look."""
        self.checked = self.known.seq == 0
        """Whether every event was read, not only those after what was kept."""
        self.suspect = False
        self.behind: str | None = None
        """Why the last look was not into the study itself; None where it was."""
        self._look_again = 0.0
        self._catch_up()
        if self.known.seq == 0:
            raise NotAStudy(
                f"The study at {store.name} was never finished being made and holds no answers; a whole "
                "one was expected. Delete it and make it again."
            )

    @property
    def state(self) -> State:
        """Where the study stands now, with what other processes did.

        While another process holds it, and nothing can be read, where it stood at the last look:
        `behind` says so.
        """
        if self.behind is not None and time.monotonic() < self._look_again:
            return self.known
        # Whoever writes holds the lock as long as they wait themselves.
        mine = self._lock.acquire(timeout=PATIENCE)
        try:
            if mine:
                return self._catch_up(PATIENCE)
            self.store.read(self.known.mark, most=1, patience=0.0)
            return self.known
        except Locked as error:
            return self._held(str(error))
        finally:
            if mine:
                self._lock.release()

    def _held(self, why: str) -> State:
        self.behind, self._look_again = why, time.monotonic() + 1.0
        return self.known

    def _catch_up(self, patience: float | None = None) -> State:
        while news := self.store.read(self.known.mark, most=MOST, patience=patience):
            # State and mark are one value, set once: nothing that strikes between can part them.
            self.known = folded(self.known, news)
            self._keep()
        self.behind = None
        return self.known

    def _keep(self) -> None:
        """Keep what need not be read again; where that cannot be written, it is read again."""
        if parts := self.known.unsaved:
            self.known = self.known.moved(unsaved=())
            with suppress(Locked, NotWritten):
                self._kept(parts)

    def _kept(self, new: Sequence[Kept]) -> bool:
        return self.store.run(partial(keep, parts=new), purpose="write", patience=PATIENCE)

    def check(self, pause: float = 0.0) -> int:
        """Read every event again, and compare what was kept with what they add up to.

        Raises `Damaged` where an event is not what was written; what was kept and does not fit is
        made anew. Returns how many events there are.

        Parameters
        ----------
        pause
            How many times as long to wait as it takes, after every glance: while others answer.
        """
        state = State()
        began = time.perf_counter()
        while news := self.store.read(state.mark, most=GLANCE):
            state = folded(state, news)
            if state.unsaved:
                wrong = self._kept(state.unsaved)
                state = state.moved(unsaved=())
                self.suspect = self.suspect or wrong
            time.sleep(pause * (time.perf_counter() - began))
            began = time.perf_counter()
        with self._lock:
            if self.suspect:
                self.known, self.suspect = state, False
            self.checked = True
        return state.seq

    def write(
        self,
        decide: Callable[..., tuple[T, Sequence[Event]]],
        *,
        blobs: Sequence[bytes] = (),
        **given: Any,
    ) -> T:
        """Hold the study, decide on what is known then, store the events and return the rest.

        Parameters
        ----------
        decide
            Called with the state, the time and what else was given.
        blobs
            Bytes that the events go by.
        """

        def held(transaction: Transaction) -> tuple[State, T]:
            state = folded(self.known, transaction.news)
            result, events = decide(state, self.clock(), **given)
            for content in blobs if events else ():
                transaction.keep(content)
            for event in events:
                # Folded before it is stored: what cannot be read again is never written.
                state = advance(state, transaction.append(event))
            return state, result

        with self._lock:
            # Only what is on disk counts.
            self.known, result = self.store.write(self.known.mark, held)
            self._keep()
            return result

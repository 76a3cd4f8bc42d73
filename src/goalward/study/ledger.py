"""The journal of a study and what it adds up to, in one process: read, and held to be written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from goalward.errors import NotAStudy
from goalward.journal import Event, Store, Transaction
from goalward.study.fold import advance, folded
from goalward.study.state import State

__all__ = ["Ledger"]

T = TypeVar("T")


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
        self.known = folded(State(), store.read())
        """Where the study stood at the last look."""
        if self.known.seq == 0:
            raise NotAStudy(
                f"The study at {store.name} was never finished being made and holds no answers; a whole "
                "one was expected. Delete it and make it again."
            )

    @property
    def state(self) -> State:
        """Where the study stands now, with what other processes did."""
        with self._lock:
            # State and mark are one value, set once: nothing that strikes between can part them.
            self.known = folded(self.known, self.store.read(self.known.mark))
            return self.known

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
            return result

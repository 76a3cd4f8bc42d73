"""The journal of a study and its state, in one process; a checkpoint that does not fit is not used."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from goalward.errors import Locked, NotAStudy, NotWritten
from goalward.studio.store import Event, Store, Transaction
from goalward.studio.store.events import START
from goalward.studio.study.fold import folded
from goalward.studio.study.state import State, packed, unpacked

T = TypeVar("T")
Decision = Callable[[State, float], tuple[Any, Sequence[Event]]]
"""From the state and the time to what the caller gets, and the events to store."""
PATIENCE = 0.3
"""Seconds that a read waits for others; answers wait longer."""
WAIT = 5.0
"""Seconds that an answer waits where a person sits before it: a page gives up after 15."""
EVERY = 4096
"""Events that are worth a checkpoint; in a long journal a 32nd of it."""
MOST = 20_000
"""Events that are read at once: a long journal is never in memory whole."""
GLANCE = 100
"""Events that a check reads at once: an answer in the same moment waits for it."""


class Ledger:
    """A store, and the state of what was read of it."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.store, self.clock = store, clock
        self._lock = threading.RLock()
        kept = store.checkpoint()
        self.known = State() if kept is None else unpacked(*kept)
        """The state at the last read."""
        self.checked = kept is None
        """Whether every event was read, not only those after the checkpoint."""
        self.behind: str | None = None
        """Why the last read was not of the study itself; None where it was."""
        self._look_again = 0.0
        self._saved = self.known.seq
        self._catch_up()
        if self.known.seq == 0:
            raise NotAStudy(
                f"The study at {store.name} was never finished and holds no answers. Delete it and "
                "create it again."
            )
        self.save()

    @property
    def state(self) -> State:
        """The state now; while another process holds the study, at the last read (see `behind`)."""
        if self.behind is not None and time.monotonic() < self._look_again:
            return self.known
        # Whoever writes holds the lock as long as they wait themselves.
        mine = self._lock.acquire(timeout=PATIENCE)
        try:
            if mine:
                return self._catch_up(PATIENCE)
            self.store.read(self.known.mark, most=1, patience=0.0)
        except Locked as error:
            self.behind, self._look_again = str(error), time.monotonic() + 1.0
        finally:
            if mine:
                self._lock.release()
        return self.known

    def _catch_up(self, patience: float | None = None) -> State:
        while news := self.store.read(self.known.mark, most=MOST, patience=patience):
            # State and mark are one value, set once: nothing that strikes between can part them.
            self.known = folded(self.known, news)
        self.behind = None
        return self.known

    def save(self) -> None:
        """Keep a checkpoint, where many events came since the last one."""
        state = self.known
        if state.seq - self._saved >= max(EVERY, state.seq // 32):
            with suppress(Locked, NotWritten):  # without one, more is read again
                self.store.save_checkpoint(state.mark, packed(state), PATIENCE)
                self._saved = state.seq

    def check(self, pause: float = 0.0) -> int:
        """Verify every event and return how many there are; a checkpoint that does not fit is replaced."""
        mark, content = self.store.checkpoint() or (START, b"")
        state, wrong = State(), False
        while True:
            began, left = time.perf_counter(), mark.seq - state.seq
            news = self.store.read(state.mark, most=min(left, GLANCE) if left > 0 else GLANCE)
            if not news:
                break
            state = folded(state, news)
            if state.seq == mark.seq and packed(state) != content:
                wrong = True
                self.store.save_checkpoint(state.mark, packed(state))
            time.sleep(pause * (time.perf_counter() - began))
        with self._lock:
            if wrong:
                self.known = state
            self.checked = True
        return state.seq

    def write(
        self,
        decide: Callable[..., tuple[T, Sequence[Event]]],
        *,
        then: Decision | None = None,
        blobs: Sequence[bytes] = (),
        **given: Any,
    ) -> T:
        """Hold the study, decide, store the events and return the result; with `then`, both results."""

        def held(transaction: Transaction) -> tuple[State, Any]:
            state = folded(self.known, transaction.news) if transaction.news else self.known
            results: list[Any] = []
            steps: list[Decision] = [partial(decide, **given), *([then] if then else [])]
            for step in steps:
                result, events = step(state, self.clock())
                results.append(result)
                for content in blobs if events else ():
                    transaction.keep(content)
                # Folded before it is stored: what cannot be read again is never written.
                if events:
                    state = folded(state, [transaction.append(event) for event in events])
            return state, results if then else results[0]

        with self._lock:
            # Only what is on disk counts.
            self.known, stored = self.store.write(self.known.mark, held)
            return stored  # type: ignore[no-any-return]

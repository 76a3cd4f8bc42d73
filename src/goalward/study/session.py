"""A study in the hands of a process: made, opened, rescued, read and held."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from goalward.errors import BadParameter, EventsLost, NotAStudy, UnknownLabel
from goalward.journal import Created, Event, Recorded, Store
from goalward.journal.engine import file_of, located
from goalward.journal.events import Label
from goalward.journal.transaction import Transaction
from goalward.study import copies, pools
from goalward.study.dealing import Dealer
from goalward.study.rounds import QUEUE, Round, ready, versions
from goalward.study.settings import Settings
from goalward.study.state import State, folded

__all__ = ["Session"]


class Session:
    """The journal of a study and what it adds up to, for one process."""

    def __init__(
        self,
        store: Store,
        *,
        pool: Any = None,
        clock: Callable[[], float] = time.time,
        tick: Callable[[str], None] = lambda message: None,
    ) -> None:
        self._store, self._moved, self._clock, self._tick = store, pool, clock, tick
        self._lock = threading.RLock()
        self._state = folded(State(), store.read())
        if self._state.seq == 0:
            raise NotAStudy(
                f"The study at {store.name} was never finished being made and holds no answers; a whole "
                "one was expected. Delete it and make it again."
            )
        self._dealer = Dealer(int(self._state.pool["n_rows"]), self._state.settings)
        self._pool: pools.Pool | None = None
        self._round: Round | None = None
        if pool is not None:
            self.pool  # noqa: B018 - a file that was moved is checked at once

    @classmethod
    def create(
        cls,
        url: str | Path,
        *,
        pool: Any,
        classes: Sequence[Any],
        learner: Any = None,
        strategy: Any = "auto",
        dev: float = 0.0,
        label: str = "latest",
        answers: int = 1,
        lease: float = 600.0,
        refit: int = 10,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
        tick: Callable[[str], None] = lambda message: None,
        timeout: float = 30.0,
    ) -> Self:
        """Return a new study.

        Parameters
        ----------
        url
            The path of a file, sqlite:///path, or postgresql://user@host/database.
        pool
            Rows to label: an array or sparse matrix, a list of texts (both stored inside), the
            path of a table or a `tables.Table` (kept by path and fingerprint).
        classes
            All classes: texts or numbers. More can be added later, by name only.
        learner
            `gw.Logistic(...)`; stored as its parameters.
        strategy
            A recipe such as "dev/spread", a baseline, or "auto"; stored as text.
        dev, label, answers, lease, refit, seed
            See `Settings`.
        clock
            Seconds since 1970.
        tick
            Told what is being done while features are computed.
        """
        options = {"dev": dev, "label": label, "answers": answers, "lease": lease}
        settings = Settings.checked(classes, learner, strategy, refit=refit, seed=seed, **options)
        home = file_of(located(url))
        # Features first: a table that cannot be read leaves nothing behind, and the place is
        # held only for as long as it takes to write.
        kept, blobs = pools.store(pool, home.parent if home else None, tick)
        created = Created(at=clock(), settings=settings.to_json(), pool=kept, versions=versions())

        def fill(transaction: Transaction) -> None:
            for content in blobs:
                transaction.keep(content)
            transaction.append(created)

        Store.create(url, fill, timeout=timeout).close()
        return cls.open(url, clock=clock, tick=tick, timeout=timeout)

    @classmethod
    def open(
        cls,
        url: str | Path,
        *,
        pool: Any = None,
        clock: Callable[[], float] = time.time,
        tick: Callable[[str], None] = lambda message: None,
        timeout: float = 30.0,
    ) -> Self:
        """Return a study that exists, every event of it checked.

        Parameters
        ----------
        pool
            Where the pool's file is now, if it was moved; its content must be the same.
        """
        return cls(Store.open(url, timeout=timeout), pool=pool, clock=clock, tick=tick)

    @classmethod
    def recover(cls, damaged: str | Path, url: str | Path, *, timeout: float = 30.0) -> Self:
        """Return a new study with every whole event of a damaged one, which is left as it is.

        `state.lost` says which events could not be saved, and a warning how many.
        """
        copies.recover(damaged, url, timeout=timeout)
        study = cls.open(url, timeout=timeout)
        lost = study.state.lost
        if lost:
            warnings.warn(
                f"{len(lost)} of {study.state.seq} events of {damaged} are damaged and were left out, the "
                f"first of them number {lost[0][0]}; study.state.lost has what could be read of them.",
                EventsLost,
                stacklevel=2,
            )
        return study

    @classmethod
    def restore(
        cls, backup: str | Path, url: str | Path, *, force: bool = False, timeout: float = 30.0
    ) -> Self:
        """Return the study that a backup was made of, put to a place.

        Parameters
        ----------
        force
            Take the place of a file that is there, which is kept beside it as .replaced-1.
        """
        copies.restore(backup, url, force=force, timeout=timeout)
        return cls.open(url, timeout=timeout)

    @property
    def url(self) -> str:
        """Where the study is, without a password."""
        return self._store.name

    @property
    def state(self) -> State:
        """Where the study stands now, with what other processes did."""
        with self._lock:
            # State and mark are one value, set once: nothing that strikes between can part them.
            self._state = folded(self._state, self._store.read(self._state.mark))
            return self._state

    @property
    def identity(self) -> str:
        """What tells this study from any other, also at the same place; copies share it."""
        return self._state.identity

    @property
    def pool(self) -> pools.Pool:
        """The rows, loaded when they are first needed and checked."""
        with self._lock:
            if self._pool is None:
                home = self._store.path.parent if self._store.path else None
                self._pool = pools.load(
                    self._store, self._state.pool, home, self._moved, self._tick
                )
            return self._pool

    @property
    def n_rows(self) -> int:
        """How many rows the pool has."""
        return int(self._state.pool["n_rows"])

    def due(self) -> bool:
        """Return whether new answers are worth a new ranking, for those who rank in the background.

        Sooner than `refit` while there are few labels: a quarter of what the model knows.
        """
        state = self.state
        if not ready(state):
            return False
        return state.news >= min(state.settings.refit, max(1, len(state.training) // 4))

    def close(self) -> None:
        """Let go of the database; nothing needs to be saved."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self._state
        return f"Study({self.url!r}, {self.n_rows} rows, {len(state.labels)} labels)"

    def _write(self, decide: Callable[[State], Sequence[Event]]) -> list[Recorded]:
        """Hold the study, decide on what is known then, store it."""

        def held(transaction: Transaction) -> tuple[State, list[Recorded]]:
            state = folded(self._state, transaction.news)
            recorded = [transaction.append(event) for event in decide(state)]
            # Folded before it is stored: what cannot be read again is never written.
            return folded(state, recorded), recorded

        with self._lock:
            # Only what is on disk counts.
            self._state, recorded = self._store.write(self._state.mark, held)
            return recorded

    def _present(self, state: State) -> Round:
        """Return the round of a state, with the model of the last one if no answer changed."""
        known = self._round
        if (
            known is None
            or known.state.moves != state.moves
            or known.state.settings != state.settings
            or known.state.classes != state.classes
        ):
            known = self._round = Round(state, self.pool)
        return known

    def _stale(self, n: int, by: str, *, always: bool) -> bool:
        state = self._state
        if not ready(state):
            return False
        ranking = state.ranking
        if ranking is None:
            return True
        used_up = self._dealer.queued(state, by, self._clock()) < n
        # A queue shorter than usual held every open row: ranking again would find no more.
        return state.news >= (1 if always else state.settings.refit) or (
            used_up and len(ranking.queue) >= QUEUE
        )

    def _row(self, row: Any) -> int:
        fits = not isinstance(row, bool) and isinstance(row, Integral)
        if not fits or not 0 <= int(row) < self.n_rows:
            raise BadParameter(
                f"row={row!r}; the number of a row, from 0 to {self.n_rows - 1}, was expected."
            )
        return int(row)

    @staticmethod
    def _label(state: State, label: Any) -> Label:
        value = label.item() if hasattr(label, "item") else label
        for known in state.classes:
            # 1 and True are equal to Python, and different answers.
            if known == value and isinstance(known, bool) == isinstance(value, bool):
                return known
        raise UnknownLabel(
            f"The label {label!r} came; one of {', '.join(map(repr, state.classes[:12]))} was expected. "
            "Correct it, or declare it with add_class."
        )

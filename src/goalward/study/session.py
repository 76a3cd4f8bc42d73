"""A study in the hands of a process: made, opened, rescued, read and held."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from goalward.errors import BadParameter, Damaged, NotAStudy, UnknownLabel
from goalward.journal import Created, Event, Recorded, Store
from goalward.journal.events import Label
from goalward.study import pools
from goalward.study.dealing import Dealer
from goalward.study.rounds import QUEUE, Round, ready, versions
from goalward.study.settings import Settings
from goalward.study.state import State, advance

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
        self._state = State()
        self._fold(store.read())
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
        store = Store.create(url, timeout=timeout)
        try:
            with store.writing() as transaction:
                home = store.path.parent if store.path else None
                kept = pools.store(transaction, pool, home, tick)
                created = Created(
                    at=clock(), settings=settings.to_json(), pool=kept, versions=versions()
                )
                transaction.append(created)
        except BaseException:
            empty = not store.read()
            store.close()
            if store.path and empty:
                # A table that could not be read leaves no half a study behind.
                store.path.unlink(missing_ok=True)
            raise
        store.close()
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
        """Return a new study with the intact events of a damaged one, which is left as it is."""
        source = Store.open(damaged, timeout=timeout)
        events, blobs = source.salvage()
        if not events or not isinstance(events[0], Created):
            raise Damaged(
                f"Nothing of {source.name} could be saved: its first event is damaged. Restore a backup."
            )
        target = Store.create(url, timeout=timeout)
        with target.writing() as transaction:
            for content in blobs:
                transaction.keep(content)
            for event in events:
                transaction.append(event)
        source.close()
        target.close()
        return cls.open(url, timeout=timeout)

    @property
    def url(self) -> str:
        """Where the study is, without a password."""
        return self._store.name

    @property
    def state(self) -> State:
        """Where the study stands now, with what other processes did."""
        with self._lock:
            self._fold(self._store.read())
            return self._state

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
        ranking = state.ranking
        if ranking is None:
            return True
        enough = min(state.settings.refit, max(1, len(state.training) // 4))
        return state.moves - ranking.moves >= enough

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
        with self._lock:
            with self._store.writing() as transaction:
                self._fold(transaction.news)
                recorded = [transaction.append(event) for event in decide(self._state)]
            # Only what is on disk counts.
            self._fold(recorded)
            return recorded

    def _fold(self, news: Sequence[Recorded]) -> None:
        for recorded in news:
            self._state = advance(self._state, recorded)

    def _present(self, state: State) -> Round:
        """Return the round of a state, with the model of the last one if no answer changed."""
        known = self._round
        if (
            known is None
            or known.state.moves != state.moves
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
        news = state.moves - ranking.moves
        used_up = self._dealer.queued(state, by, self._clock()) < n
        # A queue shorter than usual held every open row: ranking again would find no more.
        return news >= (1 if always else state.settings.refit) or (
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

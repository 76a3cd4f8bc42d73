"""Ask and tell: rows out, labels in, everything on disk when a call returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from rpds import HashTrieMap

from goalward.errors import BadParameter, PoolExhausted
from goalward.journal import (
    Asked,
    Changed,
    ClassAdded,
    Event,
    Noted,
    Ranked,
    Recorded,
    Skipped,
    Told,
    Undone,
    Withdrawn,
)
from goalward.journal.events import Label
from goalward.study.exchange import Imported, matched_labels
from goalward.study.reports import Reports
from goalward.study.rounds import QUEUE, Round, ready
from goalward.study.settings import RECOMMENDED, checked_strategy, plain_label, plain_text
from goalward.study.state import State, folded

__all__ = ["Study"]


class Study(Reports):
    """A pool being labelled: durable, shared, and the same after a crash.

    Make one with `Study.create`, come back to it with `Study.open`. Several threads and processes
    may use the same study at once; each call is one short transaction, and what it returned for is
    on disk.

    Examples
    --------
    >>> import tempfile, goalward as gw
    >>> place = f"sqlite:///{tempfile.mkdtemp()}/labels.db"
    >>> study = gw.Study.create(place, pool=[[0.0], [0.2], [0.8], [1.0]], classes=["low", "high"])
    >>> rows = study.ask(2)
    >>> for row in rows:
    ...     _ = study.tell(row, "low" if row < 2 else "high", by="ann")
    >>> len(study.state.labels)
    2
    """

    def ask(
        self,
        n: int = 1,
        *,
        by: str = "me",
        resume: bool = False,
        at_most: bool = False,
        refresh: bool | None = None,
    ) -> list[int]:
        """Return n rows worth a label, best first; they are `by`'s until the lease ends.

        Parameters
        ----------
        resume
            Rows that `by` already has in hand come first, instead of n new ones.
        at_most
            Return fewer rows where fewer are left; otherwise that is `PoolExhausted`.
        refresh
            None: fit and rank first if there is no ranking, it is used up, or `refit` new labels
            came. True: if any new label came. False: never; take what there is, at once.
        """
        by = plain_text(by, "by")
        if not is_count(n):
            raise BadParameter(f"n={n!r}; a whole number of at least 1 was expected.")
        held = self._dealer.held(self.state, by, self._clock()) if resume else []
        if len(held) >= n:
            return held[:n]
        if refresh is not False and self._stale(n - len(held), by, always=refresh is True):
            self.refresh(force=True, size=max(QUEUE, n))
        asked: list[int] = []

        def decide(state: State) -> list[Event]:
            rows, events = self._dealt(state, n, by, resume=resume)
            if len(rows) < n and not at_most:
                raise PoolExhausted(
                    f"{n} rows were asked for and {len(rows)} are left ({len(state.labels)} "
                    f"labelled, {len(state.skipped)} skipped, {len(state.pending)} pending). Ask "
                    "for fewer, or tell or withdraw the pending rows."
                )
            asked[:] = rows
            return events

        self._write(decide)
        return asked

    def _dealt(
        self, state: State, n: int, by: str, *, resume: bool
    ) -> tuple[list[int], list[Event]]:
        """Return up to n rows for an annotator, and the event that makes the new ones theirs."""
        now = self._clock()
        known = self._dealer.held(state, by, now)[:n] if resume else []
        dealt = self._dealer.deal(state, n - len(known), by, now)
        rows = [*known, *(question.row for question in dealt)]
        if not dealt:
            return rows, []
        event = Asked(
            at=now,
            rows=tuple(question.row for question in dealt),
            by=by,
            until=now + state.settings.lease,
            utilities=tuple(question.utility for question in dealt),
            ranking=state.rounds[-1][0] if state.rounds else None,
            dev=sum(question.dev for question in dealt),
        )
        return rows, [event]

    def tell(self, row: int, label: Any, *, by: str = "me") -> int:
        """Store an answer and return its number; the same answer again changes nothing."""
        return self.tell_many([(row, label)], by=by)[0]

    def tell_many(self, answers: Iterable[tuple[int, Any]], *, by: str = "me") -> list[int]:
        """Store many answers at once, all or none, and return their numbers."""
        by = plain_text(by, "by")
        return self._tell([(row, label, by) for row, label in answers])[0]

    def import_labels(
        self, path: str | Path, *, label: str = "label", key: str = "row", by: str = "import"
    ) -> Imported:
        """Store labels made elsewhere and say what did not fit; a `by` column names annotators.

        Parameters
        ----------
        label, key
            Columns of the label and of what says which row is meant: "row" for row numbers, or
            a column of the pool's table with distinct values.
        """
        fits, refused = matched_labels(
            path, self.state, lambda: self.pool, label=label, key=key, by=by
        )
        # One transaction: a file is taken in whole, or not.
        _, taken = self._tell(fits)
        return Imported(taken, len(fits) - taken, tuple(refused))

    def tell_and_ask(self, row: int, label: Any, n: int, *, by: str) -> tuple[int, list[int]]:
        """Store an answer and take up to n rows in hand, at once; return its number and the rows.

        For pages: one transaction instead of two, and never a fit.
        """
        by = plain_text(by, "by")
        numbers: list[int] = []
        asked: list[int] = []

        def decide(state: State) -> list[Event]:
            numbers[:], told = self._told(state, [(row, label, by)])
            numbered = enumerate(told, start=state.seq + 1)
            after = folded(state, (Recorded(seq, event) for seq, event in numbered))
            asked[:], events = self._dealt(after, n, by, resume=True)
            return [*told, *events]

        self._write(decide)
        return numbers[0], asked

    def _tell(self, answers: Sequence[tuple[int, Any, str]]) -> tuple[list[int], int]:
        """Store (row, label, annotator); return the number of each and how many were news."""
        numbers: list[int] = []

        def decide(state: State) -> list[Event]:
            numbers[:], events = self._told(state, answers)
            return events

        return numbers, len(self._write(decide))

    def _told(
        self, state: State, answers: Sequence[tuple[int, Any, str]]
    ) -> tuple[list[int], list[Event]]:
        """Return the number that each answer has or will have, and those that are news."""
        numbers: list[int] = []
        events: list[Event] = []
        known: dict[tuple[int, str], tuple[Label | None, int]] = {}
        for place, said, by in answers:
            row, label = self._row(place), self._label(state, said)
            before = state.standings.get(row, HashTrieMap()).get(by)
            stands = known.get((row, by), (before.label, before.seq) if before else (None, 0))
            if stands[0] != label:
                events.append(Told(at=self._clock(), row=row, label=label, by=by))
                stands = (label, state.seq + len(events))
            known[row, by] = stands
            numbers.append(stands[1])
        return numbers, events

    def skip(self, row: int, *, by: str = "me") -> None:
        """Leave a row unanswered; it is not asked again, of anybody."""
        row, by = self._row(row), plain_text(by, "by")

        def decide(state: State) -> list[Event]:
            before = state.standings.get(row, HashTrieMap()).get(by)
            done = before is not None and before.label is None
            return [] if done else [Skipped(at=self._clock(), row=row, by=by)]

        self._write(decide)

    def withdraw(self, row: int, *, by: str = "me") -> bool:
        """Take back `by`'s answer or skip of a row, or the question itself; False: they had none."""
        row, by = self._row(row), plain_text(by, "by")

        def decide(state: State) -> list[Event]:
            said = by in state.standings.get(row, HashTrieMap())
            held = by in state.leases.get(row, HashTrieMap())
            return [Withdrawn(at=self._clock(), row=row, by=by)] if said or held else []

        return bool(self._write(decide))

    def undo(self, *, by: str = "me") -> int | None:
        """Undo `by`'s last answer, skip or withdrawal and return its row, which is theirs again."""
        by = plain_text(by, "by")

        def decide(state: State) -> list[Event]:
            last = state.changes.get(by)
            if last is None:
                return []
            now = self._clock()
            until = now + state.settings.lease
            return [Undone(at=now, row=last.row, by=by, until=until)]

        undone = self._write(decide)
        return undone[0].event.row if undone else None  # type: ignore[attr-defined]

    def note(self, row: int, text: str, *, by: str = "me") -> None:
        """Write something about a row."""
        row, text = self._row(row), plain_text(text, "The note", longest=100_000)
        self._write(
            lambda state: [Noted(at=self._clock(), row=row, by=plain_text(by, "by"), text=text)]
        )

    def add_class(self, label: Any) -> None:
        """Declare one more class; known ones stay as they are."""
        label = plain_label(label)
        self._write(
            lambda state: (
                [] if label in state.classes else [ClassAdded(at=self._clock(), label=label)]
            )
        )

    def upgrade(self, strategy: Any = None) -> dict[str, tuple[Any, Any]]:
        """Take up what is recommended now; return each setting that changed, before and after.

        Nothing else changes how a study chooses: it goes on with what it was made with.

        Parameters
        ----------
        strategy
            Another recipe, or "auto"; None leaves it as it is.
        """
        changes: dict[str, tuple[Any, Any]] = {}

        def decide(state: State) -> list[Event]:
            changes.clear()
            now = state.settings
            wanted = {"auto": RECOMMENDED}
            if strategy is not None:
                wanted["strategy"] = checked_strategy(strategy, now.dev)
            changes.update(
                {k: (getattr(now, k), v) for k, v in wanted.items() if getattr(now, k) != v}
            )
            after = {name: value for name, (_, value) in changes.items()}
            return [Changed(at=self._clock(), settings=after)] if after else []

        self._write(decide)
        return changes

    def refresh(self, *, force: bool = False, size: int = QUEUE) -> Ranked | None:
        """Fit the model of the present labels, rank the pool and store the ranking.

        Safe to run in another thread while answers go on: the study is held only to read and to
        store. Returns None while no model can be fitted, or where nothing is left to ask.
        """
        state = self.state
        if not ready(state):
            return None
        if state.news == 0 and not force:
            return state.ranking
        self.pool.check()
        ranked = Round(state, self.pool).rank(size + len(state.leases), self._clock())
        if ranked is not None:
            self._write(lambda state: [ranked])
        return ranked


def is_count(n: Any) -> bool:
    """Return whether `n` is a whole number of at least 1."""
    return not isinstance(n, bool) and isinstance(n, Integral) and int(n) >= 1

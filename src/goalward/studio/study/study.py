"""Ask and tell: rows out, labels in, everything on disk when a call returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeAlias, Unpack

from goalward.core.arguments import in_place
from goalward.errors import BadParameter
from goalward.studio.store import Ranked, Store
from goalward.studio.study import copies, decisions, exchange
from goalward.studio.study.findings import Place, StudyFindings
from goalward.studio.study.ledger import Ledger
from goalward.studio.study.pools import PoolLoader, grown
from goalward.studio.study.questions import QUEUE, Questions, queue_used_up, rows_held
from goalward.studio.study.ranking import rank
from goalward.studio.study.rounds import StudyRound, When, ready, refit_due
from goalward.studio.study.settings import Options, Settings, is_whole
from goalward.studio.tables.encoder import Tick, silent

Clock: TypeAlias = Callable[[], float]


class Study(StudyFindings):
    """A pool being labelled: durable, shared, and the same after a crash.

    Several threads and processes may use a study at once; each call is one short transaction, and
    what it returned for is on disk.

    Examples
    --------
    >>> import tempfile, goalward as gw
    >>> place = f"sqlite:///{tempfile.mkdtemp()}/labels.db"
    >>> study = gw.Study.create(place, pool=[[0.0], [0.2], [0.8], [1.0]], classes=["low", "high"])
    >>> for row in study.ask(2):
    ...     _ = study.tell(row, "low" if row < 2 else "high", by="ann")
    >>> len(study.state.labels)
    2
    """

    def __init__(self, ledger: Ledger, rows: PoolLoader) -> None:
        super().__init__(ledger, rows)
        self.identity = ledger.known.identity
        """What tells this study from any other, also at the same place; copies share it."""
        self._asking: Questions | None = None

    @classmethod
    def create(
        cls,
        url: Place,
        *,
        pool: Any,
        classes: Sequence[Any],
        learner: Any = None,
        strategy: Any = "auto",
        guesses: Any = None,
        guess_probabilities: Any = None,
        clock: Clock = time.time,
        tick: Tick = silent,
        timeout: float = 30.0,
        **options: Unpack[Options],
    ) -> Self:
        """Return a new study: at a path, sqlite:///path or postgresql://user@host/database.

        Parameters
        ----------
        pool
            Rows to label: an array, a sparse matrix, a list of texts, a frame of numbers or of one
            column of texts, lazy or a Hugging Face dataset too (stored inside), the path of a table or
            a `tables.Table` (kept by path and fingerprint).
        classes
            All classes: texts or numbers; or names of labels, or of one number. `add_class` adds more.
        learner, strategy
            `gw.Logistic`, `gw.MultiLabel` where several labels may hold at once, or `gw.Ridge` for
            numbers, stored as parameters; and a recipe, a baseline or "auto", stored as text.
        guesses, guess_probabilities
            A second opinion: a column of the table, or one for each row (None where there is none),
            or a function that makes them of `pool`; and how sure each is. Used where answers bear
            it out.
        clock, tick, options
            Seconds since 1970; what hears of the work while features are computed; see `Settings`.
        """
        settings = Settings.checked(classes, learner, strategy, **options)
        given = {"guesses": guesses, "guess_probabilities": guess_probabilities}
        copies.create(url, settings, pool, **given, clock=clock, tick=tick, timeout=timeout)
        return cls.open(url, clock=clock, tick=tick, timeout=timeout)

    @classmethod
    def open(
        cls,
        url: Place,
        *,
        pool: Any = None,
        timeout: float = 30.0,
        clock: Clock = time.time,
        tick: Tick = silent,
    ) -> Self:
        """Return a study, checked as `check` says; `pool` says where its file is, if it was moved."""
        if not isinstance(url, str):
            in_place(url, "The place of a study", "'labels.db' or a Path", "__fspath__")
        ledger = Ledger(Store.open(url, timeout=timeout), clock)
        return cls(ledger, PoolLoader(ledger.store, lambda: ledger.known.pool, pool, tick))

    @classmethod
    def recover(cls, damaged: Place, url: Place, *, timeout: float = 30.0) -> Self:
        """Return a new study with every whole event of a damaged one; `state.lost` has the others."""
        copies.warn_of_lost(copies.recover(damaged, url, timeout=timeout), damaged)
        return cls.open(url, timeout=timeout)

    @classmethod
    def restore(
        cls, backup: Place, url: Place, *, force: bool = False, timeout: float = 30.0
    ) -> Self:
        """Return the study of a backup; `force` keeps what is at its place as .replaced-1."""
        copies.restore(backup, url, force=force, timeout=timeout)
        return cls.open(url, timeout=timeout)

    @property
    def n_rows(self) -> int:
        """How many rows the pool has."""
        return self._ledger.known.n_rows

    @property
    def _questions(self) -> Questions:
        if self._asking is None or self._asking.n_rows != self.n_rows:
            settings = self._ledger.known.settings
            self._asking = Questions(self.n_rows, settings, self._rows.load)
        return self._asking

    def close(self) -> None:
        """Let go of the database; nothing needs to be saved."""
        self._ledger.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Study({self.url!r}, {self.n_rows} rows, {len(self._ledger.known.labels)} labels)"

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

        With `resume`, rows that `by` has in hand come first. With `at_most`, fewer are returned
        where fewer are left; otherwise that is `PoolExhausted`. `refresh` None fits and ranks first
        if there is none, it is used up, or `refit` new labels came; True if any came; False never.
        """
        if not is_whole(n, least=1):
            raise BadParameter(f"n={n!r}; a whole number of at least 1 was expected.")
        state, now = self.state, self._ledger.clock()
        held = rows_held(state, by, now) if resume else []
        if len(held) >= n:
            return held[:n]
        if refresh is not False:
            used_up = queue_used_up(state, n - len(held), by, now)
            if refit_due(state, "any" if refresh else "refit", used_up=used_up):
                self.refresh(force=True, size=max(QUEUE, n))
            elif state.ranking is None:
                self._rows.load().prepared()
        given: dict[str, Any] = {"questions": self._questions, "n": n, "by": by}
        return self._ledger.write(decisions.asked, **given, resume=resume, at_most=at_most)

    def tell(self, row: int, label: Any, *, by: str = "me") -> int:
        """Store an answer: a class, a number, or the labels that hold; return its number."""
        return self.tell_many([(row, label)], by=by)[0]

    def tell_many(self, answers: Iterable[tuple[int, Any]], *, by: str = "me") -> list[int]:
        """Store many answers at once, all or none, and return their numbers."""
        said = [(row, label, by) for row, label in answers]
        return self._ledger.write(decisions.told, answers=said)

    def tell_and_ask(self, row: int, label: Any, n: int, *, by: str) -> tuple[int, list[int]]:
        """Store an answer, take up to n rows in hand, and return both; for pages: never a fit."""
        answer, questions = (row, label, by), self._questions
        return self._ledger.write(decisions.told_and_asked, answer=answer, n=n, questions=questions)

    def import_labels(
        self, path: Place, *, label: str = "label", key: str = "row", by: str = "import"
    ) -> exchange.Imported:
        """Store labels made elsewhere and say what did not fit; a `by` column names annotators.

        `label` and `key` are columns: of the label, and of what says which row is meant, by its
        number ("row") or by its value in that column of the pool's table.
        """
        columns = {"label": label, "key": key, "by": by}
        fits, refused = exchange.matched_labels(path, self.state, self._rows.load, **columns)
        # One transaction: a file is taken in whole, or not.
        taken = self._ledger.write(decisions.imported, answers=fits)
        return exchange.Imported(taken, len(fits) - taken, tuple(refused))

    def skip(self, row: int, *, by: str = "me") -> None:
        """Leave a row unanswered; it is not asked again, of anybody."""
        self._ledger.write(decisions.skipped, row=row, by=by)

    def withdraw(self, row: int, *, by: str = "me") -> bool:
        """Take back `by`'s answer or skip of a row, or the question itself; False: they had none."""
        return self._ledger.write(decisions.withdrawn, row=row, by=by)

    def undo(self, *, by: str = "me") -> int | None:
        """Undo `by`'s last answer, skip or withdrawal and return its row, which is theirs again."""
        return self._ledger.write(decisions.undone, by=by)

    def note(self, row: int, text: str, *, by: str = "me") -> None:
        """Write something about a row."""
        self._ledger.write(decisions.noted, row=row, by=by, text=text)

    def exported(self, what: str, *, by: str) -> None:
        """Write down that somebody takes something out: "labels.csv", say."""
        self._ledger.write(decisions.exported, what=what, by=by)

    def add_class(self, label: Any) -> None:
        """Declare one more class; known ones stay as they are."""
        self._ledger.write(decisions.class_added, label=label)

    def describe(
        self,
        label: Any = None,
        *,
        name: Any = None,
        colour: str | None = None,
        text: str | None = None,
    ) -> None:
        """Give a class another name, a colour ("#1b9e77") or a text that says what belongs to it.

        Without a class the text is the guidelines, shown beside every row. Answers go with their
        class; whoever still says the old name means the new one.
        """
        given = {"name": name, "colour": colour, "text": text}
        self._ledger.write(decisions.described, label=label, **given)

    def extend(self, rows: Any = None) -> int:
        """Take in rows after those there are, and return how many; answers and numbers stay.

        A table that was appended to is read again, without `rows`; `PoolChanged` if its first rows
        are not those of the study. To rows inside the study, texts or an array are added.
        """
        before, pool, blobs = grown(self._rows, rows)
        given = {"before": before, "pool": pool}
        return self._ledger.write(decisions.extended, blobs=blobs, **given)

    def due(self, when: When = "soon") -> bool:
        """Return whether new answers are worth a new ranking; see `rounds.refit_due`."""
        return refit_due(self.state, when)

    def refresh(self, *, force: bool = False, size: int = QUEUE) -> Ranked | None:
        """Fit the model of the present labels, rank the pool and store the ranking.

        Safe in another thread while answers go on: the study is held only to read and to store.
        Returns None while no model can be fitted, or where nothing is left to ask.
        """
        state = self._ledger.state
        if not ready(state):
            return None
        if not force and not refit_due(state, "any"):
            return state.ranking
        now = self._round = StudyRound(state, self._rows.load().checked())
        ranked = rank(now, size + len(state.leases), self._ledger.clock())
        if ranked is not None:
            self._ledger.write(lambda *_: (None, [ranked]))
        return ranked

    def backup(self, path: Place, *, force: bool = False) -> int:
        """Write all of the study, as it is at this moment, to a file, and return its events.

        The file is itself a study, checked digest by digest before it gets its name; others may
        go on answering meanwhile. A table that the study only points to is not in it.
        """
        return copies.backup(self._ledger.store, path, inputs=self._rows.files(), force=force)

    def widget(self, *, by: str = "me", render: Callable[[Any], Any] | None = None) -> Any:
        """Return what asks for labels in a notebook, by keys: `notebook.Widget`.

        `render` makes HTML, or anything that a notebook can draw, of what `show(row)` gives.
        """
        from goalward.studio.notebook import Widget
        from goalward.studio.study.refitter import Refitter

        return Widget(self, Refitter(self), by=by, render=render)

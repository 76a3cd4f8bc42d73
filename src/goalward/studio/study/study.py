"""Ask and tell: rows out, labels in, everything on disk when a call returns."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar, Unpack

import numpy as np
import polars as pl
from sklearn.metrics import pairwise_distances_argmin_min

from goalward.core.arguments import in_place
from goalward.core.card import card
from goalward.errors import BadInput, BadParameter, EventsLost, GoalwardError, PoolChanged
from goalward.studio.stopping import PRICE, Criterion
from goalward.studio.store import Ranked, Store
from goalward.studio.store.events import Event, Label
from goalward.studio.study import advice, copies, decisions, exchange
from goalward.studio.study.agreement import Agreement, Reliability, agreements, reliabilities
from goalward.studio.study.answers import Doubts, steps
from goalward.studio.study.kind import Scores
from goalward.studio.study.ledger import ALONE, WAIT, Ledger
from goalward.studio.study.model_file import Predictions, StudyModel
from goalward.studio.study.one_number import NumberScores
from goalward.studio.study.pools import PoolLoader, StudyPool, as_table, grown, prices
from goalward.studio.study.questions import QUEUE, Questions, queue_used_up, rows_held
from goalward.studio.study.ranking import rank, surest, viewed
from goalward.studio.study.rounds import StudyRound, When, ready, refit_due
from goalward.studio.study.settings import Options, Settings, is_whole
from goalward.studio.study.several_labels import LabelScores
from goalward.studio.study.state import State
from goalward.studio.study.why import Why, explain
from goalward.studio.tables.cells import check_target, texts, write_table
from goalward.studio.tables.encoder import Tick, silent
from goalward.studio.tables.read import Format
from goalward.studio.tables.table import Table
from goalward.utility.known_labels import Todo

T = TypeVar("T")
Clock: TypeAlias = Callable[[], float]
Place: TypeAlias = str | Path


class Study:
    """A pool being labelled: durable, shared, and the same after a crash.

    Several threads and processes may use a study; when a call returns, its result is on disk.

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
        self._ledger, self._rows = ledger, rows
        self._round: StudyRound | None = None
        self._asking: Questions | None = None
        self.url = ledger.store.name
        """Where the study is, without a password."""
        self.identity = ledger.known.identity
        """What tells this study from any other, also at the same place; copies share it."""

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
            An array, sparse matrix, list of texts, frame or dataset; a path or `tables.Table`.
        classes
            All classes: texts or numbers; or the names of labels, or of one number.
        learner
            `gw.Logistic`, `gw.MultiLabel` for several labels at once, or `gw.Ridge` for numbers.
        strategy
            A recipe, a baseline or "auto", stored as text.
        guesses, guess_probabilities
            A second opinion and how sure it is: a column, a value per row, or a function of `pool`.
        clock, tick, timeout
            Seconds since 1970; called with progress of features; seconds to wait for the lock.
        options
            See `Settings`.
        """
        settings = Settings.checked(classes, learner, strategy, **options)
        given = (guesses, guess_probabilities)
        copies.create(url, settings, pool, given, clock=clock, tick=tick, timeout=timeout)
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
        through: Callable[..., Any] | None = None,
    ) -> Self:
        """Return a study, checked as `check` says; `pool` says where its file is, if it was moved.

        `through` calls the database, on a thread of its own, say; as a rule the caller's does.
        """
        if not isinstance(url, str):
            in_place(url, "The place of a study", "'labels.db' or a Path", "__fspath__")
        ledger = Ledger(Store.open(url, timeout=timeout, through=through), clock)
        return cls(ledger, PoolLoader(ledger.store, lambda: ledger.known.pool, pool, tick))

    @classmethod
    def recover(cls, damaged: Place, url: Place, *, timeout: float = 30.0) -> Self:
        """Return a new study with every whole event of a damaged one; `state.lost` has the others."""
        saved = copies.recover(damaged, url, timeout=timeout)
        if saved.lost:
            warnings.warn(
                f"{len(saved.lost)} of {len(saved.events)} events of {damaged} are damaged and were left "
                f"out, first number {saved.lost[0][0]}. See study.state.lost for what could be read.",
                EventsLost,
                stacklevel=2,
            )
        return cls.open(url, timeout=timeout)

    @classmethod
    def restore(
        cls, backup: Place, url: Place, *, force: bool = False, timeout: float = 30.0
    ) -> Self:
        """Return the study of a backup; `force` keeps what is at its place as .replaced-1."""
        copies.restore(backup, url, force=force, timeout=timeout)
        return cls.open(url, timeout=timeout)

    def place(self) -> tuple[str, Table | None]:
        """Return where the study is, with a password, for another process; and its table, if moved."""
        moved = self._rows.moved
        return self._ledger.store.address, moved if moved is None else as_table(moved)

    def close(self) -> None:
        """Let go of the database; nothing needs to be saved."""
        self._ledger.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Study({self.url!r}, {self.n_rows} rows, {self._ledger.known.n_labels} labels)"

    # State and rows.

    @property
    def state(self) -> State:
        """The state now, with what other processes did."""
        return self._ledger.state

    @property
    def seen(self) -> State:
        """The state when this process last read or wrote; the disk is not read."""
        return self._ledger.known

    @property
    def behind(self) -> str | None:
        """Why `state` is of an earlier moment: another program holds the study. None if it is not."""
        return self._ledger.behind

    @property
    def checked(self) -> bool:
        """Whether every event was read and verified, not only those after the checkpoint."""
        return self._ledger.checked

    @property
    def n_rows(self) -> int:
        """How many rows the pool has."""
        return self._ledger.known.n_rows

    @property
    def pool(self) -> StudyPool:
        """The rows, loaded and checked on first use."""
        return self._rows.load()

    @property
    def pool_notes(self) -> list[str]:
        """What the features are, and what was noticed in the table; for people."""
        stored = self._ledger.known.pool
        features = [f"Features: {stored['says']}."] if stored.get("says") else []
        return [*features, *stored.get("notes", ())]

    def show(self, row: int) -> dict[str, Any]:
        """Return what a person is shown of a row: its text, image or columns."""
        return self.pool.show(decisions.checked_row(self._ledger.known, row))

    def check(self, *, pause: float = 0.0, turn: AbstractContextManager[Any] = ALONE) -> int:
        """Verify every event and return how many there are; `Damaged` if one is not as written.

        Each block is read in its `turn`, a lock if others compute meanwhile: who reads makes answers
        wait. After it this waits `pause` times as long as it took.
        """
        return self._ledger.check(pause, turn)

    # Ask and tell.

    @property
    def _questions(self) -> Questions:
        if self._asking is None or self._asking.n_rows != self.n_rows:
            settings = self._ledger.known.settings
            self._asking = Questions(self.n_rows, settings, self._rows.load)
        return self._asking

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

        With `resume`, rows that `by` has in hand come first. With `at_most`, fewer are returned where
        fewer are left, instead of `PoolExhausted`. `refresh` fits and ranks first: None where `refit`
        new labels came or the ranking is used up, True after any new label, False never.
        """
        if not is_whole(n, least=1):
            raise BadParameter(f"n must be a whole number of at least 1, got {n!r}.")
        state, now = self.state, self._ledger.clock()
        mine = rows_held(state, by, now) if resume else []
        if len(mine) >= n:
            return mine[:n]
        if refresh is not False:
            used_up = queue_used_up(state, n - len(mine), by, now)
            if refit_due(state, "any" if refresh else "refit", used_up=used_up):
                self.refresh(force=True, size=max(QUEUE, n))
            elif state.ranking is None:
                self._rows.load().prepared()
        self._questions.catch_up(state)
        given: dict[str, Any] = {"questions": self._questions, "n": n, "by": by}
        return self._write(decisions.asked, **given, resume=resume, at_most=at_most)

    def _write(self, decide: Callable[..., tuple[T, list[Event]]], **given: Any) -> T:
        result: T = self._ledger.write(partial(decide, **given))[0]
        return result

    def tell(self, row: int, label: Any, *, by: str = "me") -> int:
        """Store an answer: a class, a number, or the labels that hold; return its number."""
        told = partial(decisions.told, answers=[(row, label, by)])
        return int(self._ledger.write(told)[0][0])

    def tell_many(self, answers: Iterable[tuple[int, Any]], *, by: str = "me") -> list[int]:
        """Store many answers at once, all or none, and return their numbers."""
        named = [(row, label, by) for row, label in answers]
        return self._write(decisions.told, answers=named)

    def tell_and_ask(self, row: int, label: Any, n: int, *, by: str) -> tuple[int, list[int]]:
        """Store an answer, take up to n rows in hand, and return both; for pages: never a fit."""
        questions = self._questions
        _, (seq,), rows = self._ledger.write(
            lambda state, _: (questions.catch_up(state), []),
            partial(decisions.told, answers=[(row, label, by)]),
            partial(decisions.asked, questions=questions, n=n, by=by),
        )
        return seq, rows

    def skip(self, row: int, *, by: str = "me") -> None:
        """Leave a row unanswered; it is not asked again, of anybody."""
        self._write(decisions.skipped, row=row, by=by)

    def withdraw(self, row: int, *, by: str = "me") -> bool:
        """Take back `by`'s answer or skip of a row, or the question itself; False: they had none."""
        return self._write(decisions.withdrawn, row=row, by=by)

    def undo(self, *, by: str = "me") -> int | None:
        """Undo `by`'s last answer, skip or withdrawal and return its row, which is theirs again."""
        return self._write(decisions.undone, by=by)

    def note(self, row: int, text: str, *, by: str = "me") -> None:
        """Write something about a row."""
        self._write(decisions.noted, row=row, by=by, text=text)

    def add_class(self, label: Any) -> None:
        """Declare one more class; known ones stay as they are."""
        self._write(decisions.class_added, label=label)

    def describe(
        self,
        label: Any = None,
        *,
        name: Any = None,
        colour: str | None = None,
        text: str | None = None,
    ) -> None:
        """Give a class another name, a colour ("#1b9e77") or a text; without a class, guidelines."""
        given = {"label": label, "name": name, "colour": colour, "text": text}
        self._write(decisions.described, **given)

    def prepare(self) -> None:
        """Do what the first question, and the first search, would wait for."""
        self._questions.prepare(self.seen)

    def first_rows(self) -> list[int]:
        """Return the rows that are asked before there is a ranking: they cover the pool."""
        return [] if self.state.ranked else self._questions.first().tolist()

    def ask_first(self, rows: Sequence[int]) -> None:
        """Ask these rows before there is a ranking: another process found them."""
        self._questions.given = np.array(rows, dtype=np.int64)

    def extend(self, rows: Any = None) -> int:
        """Add rows after the present ones, or those appended to the table, and return how many."""
        before, pool, blobs = grown(self._rows, rows)
        taken_in = partial(decisions.extended, before=before, pool=pool)
        more: int = self._ledger.write(taken_in, blobs=blobs)[0]
        return more

    # Model and ranking.

    def due(self, when: When = "soon") -> bool:
        """Return whether new answers are worth a new ranking; see `rounds.refit_due`."""
        return refit_due(self.state, when)

    def refresh(self, *, force: bool = False, size: int = QUEUE) -> Ranked | None:
        """Fit, rank the pool and store the ranking; None if no model can be fitted or no row is left."""
        state = self._ledger.state
        if not ready(state):
            return None
        if not force and not refit_due(state, "any"):
            return state.ranking
        now = self._round = StudyRound(state, self._rows.load().checked())
        ranked = rank(now, size + len(state.leases), self._ledger.clock())
        if ranked is not None:
            self._ledger.write(lambda *_: (None, [ranked]), view=viewed(now, ranked))
        return ranked

    def _now(self) -> StudyRound:
        """Return the round of the present answers."""
        state, now, pool = self.state, self._round, self.pool.checked()
        same = ("moves", "classes", "pool")
        if now is None or any(getattr(now.state, name) != getattr(state, name) for name in same):
            now = self._round = StudyRound(state, pool)
        return now

    @property
    def model(self) -> StudyModel:
        """The model of all answers, those that measure too, with its encoder."""
        return replace(self._now().exported, encoder=self.pool.reader)

    def predict(self, X: Any = None) -> Predictions:
        """Return labels and probabilities of rows: texts, a frame or numbers; None is the pool."""
        if X is None:
            return self._now().exported.predictions(self.pool.X)
        return self.model.predictions(X)

    def save_model(self, folder: Place, *, force: bool = False) -> Path:
        """Write the model to a folder that `gw.load_model` reads; nothing in it is code."""
        about = {"labels": self.state.n_labels, "accuracy": advice.accuracy(self.state)}
        return self.model.save(folder, force=force, **about)

    def guesses(self, rows: Sequence[int]) -> dict[int, tuple[Label, float]]:
        """Return row -> label and probability: given with the rows, or by the newest ranking for its queue."""
        state = self.seen
        if state.settings.kind != "class":
            return {}
        if (guesses := self.pool.guesses) is not None:
            return guesses.shown(rows, state)
        predicted = state.view.get("predicted", {})
        known = {row: predicted[str(row)] for row in rows if str(row) in predicted}
        return {row: (state.classes[place], share) for row, (place, share, *_) in known.items()}

    def least_similar(self, rows: Sequence[int]) -> list[int]:
        """Return rows, those least like the answered ones first: there a missing class is likeliest."""
        answered = np.flatnonzero(self.state.counted_rows[0])[: len(rows)]
        if not len(answered):
            return list(rows)
        _, distance = pairwise_distances_argmin_min(self.pool.take(rows), self.pool.take(answered))
        return [rows[i] for i in np.argsort(-distance, kind="stable")]

    def doubts(self) -> Doubts:
        """Return the answered rows, most doubted by the model without them first."""
        return self._now().doubts

    def sure(self) -> list[tuple[int, int, float]]:
        """Return open rows the model is sure of: row, number of its class, and probability."""
        return surest(self._now())

    def queue(self, n: int = 20) -> list[Todo]:
        """Return the n things that would raise the goal most: label a row, correct one, drop one."""
        now = self._now()
        state, ranking = now.state, now.state.ranking
        ranked = now.sample if ranking is None else np.array(ranking.queue)
        rows = ranked[~np.isin(ranked, list(state.labels))][:100]
        return steps(now, rows.tolist())[:n]

    def scores(self) -> Scores | LabelScores | NumberScores:
        """Return scores of every class or label, or of numbers."""
        now = self._now()
        scores: Scores | LabelScores | NumberScores = now.state.settings.answer.scores(now)
        return scores

    def why(self, row: int) -> Why:
        """Return what each label of a row would do to the goal, and to which dev rows most."""
        return explain(self._now(), decisions.checked_row(self.state, row))

    # Reports.

    def status(self) -> dict[str, Any]:
        """Return the counts and the last ranking, as plain data."""
        state, spent = self.state, {}
        costs = prices(self.pool.frame, state.settings.costs) if state.settings.costs else None
        if costs is not None:  # each of several answers to a row is paid
            lines = state.columns
            spent = {"spent": math.fsum(costs[lines.row[lines.answers]])}
        return {"study": self.url, **advice.status(state, self._ledger.clock()), **spent}

    def _repr_html_(self) -> str:
        state = self.state
        counts, done = state.settings.answer.per_class(state), state.n_labels
        title = f"{Path(self.url).name}: {done:,} of {state.n_rows:,} rows have a label"
        columns = {"class": list(counts), "labels": list(counts.values())}
        note = advice.headline(state)
        return card(title, columns, bar="labels", note=note, share=done / state.n_rows)

    def curve(self) -> list[dict[str, Any]]:
        """Return one line per ranking: labels, accuracy, log-loss, goal, predicted gain."""
        return advice.curve(self.state)

    def account(self, price: float | None = None) -> dict[str, Any]:
        """Return what was bought and, at a price per answer, what was spent."""
        return advice.account(self.state, price)

    def stop(self, price: float = PRICE, *, budget: int | None = None) -> advice.Advice:
        """Return whether an answer brings its price, a share of all rows; and what other rules say."""
        return advice.stop(self.state, price, budget)

    def criteria(
        self, *, price: float | None = None, budget: int | None = None
    ) -> tuple[Criterion, ...]:
        """Return what every stopping rule says now."""
        return advice.rules(self.state, price, budget)

    def agreement(self) -> list[Agreement]:
        """Return how far every two annotators agree on the rows that both answered."""
        return agreements(self.state)

    def reliability(self) -> list[Reliability]:
        """Return how often each annotator is right, learned from the rows that several answered."""
        return reliabilities(self.state)

    # Tables, copies, notebooks.

    def export(
        self, path: Place, *, raw: bool = False, every: bool = False, force: bool = False
    ) -> int:
        """Write the labels as .csv, .tsv, .xlsx, .jsonl or .parquet and return the number of lines.

        `raw` leaves texts that start like a formula as they are; a spreadsheet may run them. `every`
        gives each annotator's answer and skip a line. `force` replaces a file, never an input.
        """
        check_target(path, force=force, inputs=self._rows.files())
        if every:
            frame = exchange.answers_table(self.state)
        else:
            frame = exchange.labels_table(self.state, self.pool.checked())
        return self._saved(frame, path, raw=raw, force=force)

    def _saved(self, frame: pl.DataFrame, path: Place, **how: Any) -> int:
        known = self.state.pool
        like = Format(known.get("encoding"), known.get("separator"))
        write_table(frame, path, like=like, **how)
        return frame.height

    def exported(self, what: str, *, by: str) -> None:
        """Record that somebody takes something out: "labels.csv", say."""
        self._write(decisions.exported, what=what, by=by)

    def import_labels(
        self, path: Place, *, label: str = "label", key: str = "row", by: str = "import"
    ) -> exchange.Imported:
        """Store labels of a table, all or none, and return what did not fit.

        `key` is the column that names the row: by its number ("row"), or by its value in that column
        of the pool's table. A `by` column names annotators.
        """
        columns = {"label": label, "key": key, "by": by}
        fits, refused = exchange.matched_labels(path, self.state, self._rows.load, **columns)
        taken = self._write(decisions.imported, answers=fits)
        return exchange.Imported(taken, len(fits) - taken, tuple(refused))

    def write_predictions(
        self, path: Place, table: Place | None = None, *, raw: bool = False, force: bool = False
    ) -> int:
        """Write the pool's table, or a new one, with a label for every row; return how many.

        Columns `label`, `probability`, `answered` and `look` (the least certain 5 %, 200 at most) are
        added. `raw` and `force` as in `export`.
        """
        check_target(path, force=force, inputs=[*self._rows.files(), *([table] if table else [])])
        now = self._now()
        if table is None:
            frame = exchange.pool_predictions(now)
        else:
            frame = exchange.table_predictions(self.model, table)
        return self._saved(frame, path, raw=raw, force=force)

    def backup(self, path: Place, *, force: bool = False) -> int:
        """Write the study, without a table it points to, to a file and return its number of events."""
        return copies.backup(self._ledger.store, path, inputs=self._rows.files(), force=force)

    def widget(self, *, by: str = "me", render: Callable[[Any], Any] | None = None) -> Any:
        """Return a `notebook.Widget`; `render` draws what `show(row)` gives."""
        from goalward.studio.notebook import Widget
        from goalward.studio.study.refitter import Refitter

        return Widget(self, Refitter(self), by=by, render=render)


def tell_given(study: Study, column: str) -> None:
    """Store the answers to some rows that a column of the table has already."""
    frame, classes = study.pool.frame, study.seen.classes
    assert frame is not None
    cells = [(cell or "").strip() for cell in texts(frame[column])]
    given: dict[int, Any] = {row: cell for row, cell in enumerate(cells) if cell in classes}
    if study.seen.settings.kind == "numbers":
        numbers = pl.Series(cells).cast(pl.Float64, strict=False)
        given = {row: n for row, n in enumerate(numbers) if n is not None and math.isfinite(n)}
    study.tell_many(given.items(), by="table")


def resumed(place: Place, table: str, tick: Tick = silent) -> tuple[Study, int]:
    """Return the study of a table, and how many rows were appended to the table meanwhile."""
    given: dict[str, Any] = {"tick": tick, "timeout": WAIT}
    try:
        return Study.open(place, pool=as_table(table), **given), 0
    except (PoolChanged, BadInput) as error:
        study = Study.open(place, **given)
        try:
            own = Path(study.state.pool.get("path", table)).name
            if own != Path(table).name:
                raise BadParameter(
                    f"{place} holds answers to {own}, got {Path(table).name}. Rename one of the tables, or "
                    "name another study: --study other.db."
                ) from error
            study._rows.moved = as_table(table)  # not the one at the path that was stored
            return study, study.extend()
        except GoalwardError:
            study.close()
            raise

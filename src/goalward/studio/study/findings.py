"""What a study says of itself, its rows and its model; nothing here changes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from goalward.core.arrays import to_numpy
from goalward.core.card import card
from goalward.studio.advice import PRICE, Criterion
from goalward.studio.store.events import Label
from goalward.studio.study import advice, decisions, exchange, reports
from goalward.studio.study.agreement import Agreement, Reliability, agreements, reliabilities
from goalward.studio.study.answers import Doubts, steps
from goalward.studio.study.exchange import pool_predictions, table_predictions
from goalward.studio.study.judges import JUDGES
from goalward.studio.study.ledger import Ledger
from goalward.studio.study.model import Predictions, StudyModel
from goalward.studio.study.pools import PoolLoader, StudyPool
from goalward.studio.study.prices import spent
from goalward.studio.study.rounds import StudyRound
from goalward.studio.study.scores import LabelScores, NumberScores, Scores
from goalward.studio.study.state import State
from goalward.studio.study.why import Why, explain
from goalward.studio.tables.cells import check_target, write_table
from goalward.utility.known_labels import Todo

Place: TypeAlias = str | Path


class StudyFindings:
    """The verbs of a study that only look."""

    def __init__(self, ledger: Ledger, rows: PoolLoader) -> None:
        self._ledger, self._rows = ledger, rows
        self._round: StudyRound | None = None
        self.url = ledger.store.name
        """Where the study is, without a password."""

    @property
    def state(self) -> State:
        """Where the study stands now, with what other processes did."""
        return self._ledger.state

    @property
    def seen(self) -> State:
        """Where the study stood when this process last read or wrote: no look at the disk."""
        return self._ledger.known

    @property
    def behind(self) -> str | None:
        """Why `state` is of an earlier moment: another program holds the study; None where it is not."""
        return self._ledger.behind

    @property
    def checked(self) -> bool:
        """Whether every event was read, not only those after what was kept of the older ones."""
        return self._ledger.checked

    @property
    def pool(self) -> StudyPool:
        """The rows, loaded when they are first needed and checked."""
        return self._rows.load()

    @property
    def pool_notes(self) -> list[str]:
        """What the features are, and what was noticed in the table; for people."""
        stored = self._ledger.known.pool
        says = [f"Features: {stored['says']}."] if stored.get("says") else []
        return [*says, *stored.get("notes", ())]

    def _now(self) -> StudyRound:
        """Return the model of the present answers, fitted when it is first asked for."""
        state, pool, now = self.state, self.pool.checked(), self._round
        if now is None or not now.models(state):
            now = self._round = StudyRound(state, pool)
        return now

    @property
    def model(self) -> StudyModel:
        """The model of all answers, those that measure too, with what makes numbers of rows."""
        return replace(self._now().exported, encoder=self.pool.reader)

    def predict(self, X: Any = None) -> Predictions:
        """Return labels and probabilities of rows: texts, a frame or numbers; None is the pool."""
        if X is None:
            return self._now().exported.predictions(self.pool.X)
        return self.model.predictions(X)

    def write_predictions(
        self, path: Place, table: Place | None = None, *, raw: bool = False, force: bool = False
    ) -> int:
        """Write the pool's table, or a new one, with a label for every row; return how many.

        Beside the table's own columns stand `label`, its `probability`, whether a person `answered`,
        and whether to `look` at it: the least certain 5 %, 200 at most. `raw` and `force` as in
        `export`.
        """
        check_target(path, force=force, inputs=[*self._rows.files(), *([table] if table else [])])
        now = self._now()
        frame = pool_predictions(now) if table is None else table_predictions(self.model, table)
        write_table(frame, path, raw=raw, force=force)
        return frame.height

    def save_model(self, folder: Place, *, force: bool = False) -> Path:
        """Write the model to a folder that `gw.load_model` reads; nothing in it is code."""
        about = {"labels": len(self.state.labels), "accuracy": advice.accuracy(self.state)}
        return self.model.save(folder, force=force, **about)

    def guesses(self, rows: Sequence[int]) -> dict[int, tuple[Label, float]]:
        """Return row -> label and probability: what was guessed, or by the model of the last ranking.

        A guess that came with the rows has the share of such guesses that answers bore out, and rows
        that measure have none. By the model: never a fit, and empty until this process made a
        ranking, and after classes were added to it.
        """
        if self.state.settings.kind != "class":
            return {}
        if (said := self.pool.guesses) is not None:
            return said.shown(rows, self.state)
        now, classes = self._round, self.state.classes
        if now is None or len(now.state.classes) != len(classes):
            return {}
        known = [row for row in rows if row < now.pool.n_rows]
        proba = to_numpy(now.fitted.predict_proba(now.pool.take(known))) if known else ()
        best = [(int(p.argmax()), float(p.max())) for p in proba]
        return {r: (classes[place], p) for r, (place, p) in zip(known, best, strict=True)}

    def doubts(self, *, last: bool = False) -> Doubts:
        """Return the rows with answers, first those whose answer the model, without it, doubts most.

        `last` as in `scores`.
        """
        now = self._last() if last else self._now()
        # Every page of a list asks for the same.
        if "doubts" not in vars(now):
            vars(now)["doubts"] = JUDGES[now.state.settings.kind].doubts(now)
        found: Doubts = vars(now)["doubts"]
        return found

    def queue(self, n: int = 20) -> list[Todo]:
        """Return the n things that would raise the goal most: label a row, look again at one, drop one.

        Of open rows the first 100 of the ranking are weighed.
        """
        now = self._now()
        state, ranking = now.state, now.state.ranking
        ranked = now.sample if ranking is None else np.array(ranking.queue)
        rows = ranked[~np.isin(ranked, list(state.labels))][:100]
        return steps(now, rows.tolist())[:n]

    def _last(self) -> StudyRound:
        """Return the round of the last ranking made here, where answers only changed since; no fit."""
        state, last = self.state, self._round
        if last is None or (last.state.classes, last.state.pool) != (state.classes, state.pool):
            return self._now()
        return last

    def scores(self, *, last: bool = False) -> Scores | LabelScores | NumberScores:
        """Return precision, recall and F1 of every class, and the confusion matrix.

        Of several labels precision, recall and F1 of each; of numbers R², errors and the largest. On the answers that measure; on all, each left out, while those are too few. `last`: of the
        last ranking made here, if there is one, so that nobody waits for a fit.
        """
        now = self._last() if last else self._now()
        found: Scores | LabelScores | NumberScores = JUDGES[now.state.settings.kind].scores(now)
        return found

    def agreement(self) -> list[Agreement]:
        """Return how far every two annotators agree on the rows that both answered."""
        return agreements(self.state)

    def reliability(self) -> list[Reliability]:
        """Return how often each annotator is right, learned from the rows that several answered."""
        return reliabilities(self.state)

    def check(self, *, pause: float = 0.0) -> int:
        """Read every event again and return how many there are; `Damaged` if one is not as written.

        Opening reads every event too, but those before the newest part that was kept of what they add
        up to, every 4096 events. This compares the parts with them, and makes wrong ones anew. It waits
        `pause` times as long as it takes, for those who answer meanwhile.
        """
        return self._ledger.check(pause)

    def why(self, row: int) -> Why:
        """Return what each label of a row would do to the goal, and to which dev rows most."""
        return explain(self._now(), decisions.checked_row(self.state, row))

    def show(self, row: int) -> dict[str, Any]:
        """Return what a person is shown of a row: its text, image or columns."""
        return self.pool.show(decisions.checked_row(self._ledger.known, row))

    def status(self) -> dict[str, Any]:
        """Return where the study stands, as plain data."""
        state = self.state
        paid = {} if state.settings.costs is None else {"spent": spent(state, self.pool)}
        return {"study": self.url, **reports.status(state, self._ledger.clock()), **paid}

    def _repr_html_(self) -> str:
        state = self.state
        counts, done = advice.labels_per_class(state), len(state.labels)
        title = f"{Path(self.url).name}: {done:,} of {state.n_rows:,} rows have a label"
        columns = {"class": list(counts), "labels": list(counts.values())}
        note = advice.headline(state)
        return card(title, columns, bar="labels", note=note, share=done / state.n_rows)

    def curve(self) -> list[dict[str, Any]]:
        """Return one line per ranking: labels, accuracy, log-loss, goal, predicted gain."""
        return reports.curve(self.state)

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

    def export(
        self, path: Place, *, raw: bool = False, every: bool = False, force: bool = False
    ) -> int:
        """Write the labels as .csv, .tsv, .xlsx, .jsonl or .parquet and return how many lines there are.

        `raw` leaves texts that start like a formula as they are; a spreadsheet may run them.
        `every` gives each annotator's answer and skip a line, instead of the label used. `force`
        takes the place of a file, never of the study, its table and its vectors.
        """
        check_target(path, force=force, inputs=self._rows.files())
        pool = None if every else self.pool.checked()
        return exchange.export(self.state, pool, path, raw=raw, force=force)

"""What a study says of itself, for people and programs alike: page, interface and commands."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from goalward.errors import BadParameter
from goalward.journal.events import Label
from goalward.stopping import Criterion
from goalward.study import advice, copies
from goalward.study.advice import Advice
from goalward.study.exchange import answers_table, labels_table
from goalward.study.rounds import ready
from goalward.study.session import Session
from goalward.study.why import Why, explain
from goalward.tables import Table
from goalward.tables.write import check_target, write_table

__all__ = ["Reports"]

"""Ends of the files that SQLite keeps beside its own."""


class Reports(Session):
    """Reading a study, and its labels as files."""

    def show(self, row: int) -> dict[str, Any]:
        """Return what a person is shown of a row: its text, image or columns."""
        return self.pool.show(self._row(row))

    def curve(self) -> list[dict[str, Any]]:
        """Return one line per ranking: labels, accuracy, log-loss, goal, predicted gain."""
        return advice.curve(self.state)

    def stop(self, price: float, *, budget: int | None = None) -> Advice:
        """Return whether the next label is worth `price`, and what published rules say.

        Parameters
        ----------
        price
            What a label must gain, in nats per row of the goal.
        budget
            Labels that may be bought, dev labels included.
        """
        return advice.stop(self.state, price, budget)

    def criteria(
        self, *, price: float | None = None, budget: int | None = None
    ) -> tuple[Criterion, ...]:
        """Return what every stopping rule says now: value, threshold, verdict, source."""
        return advice.rules(self.state, price, budget)

    def account(self, price: float | None = None) -> dict[str, Any]:
        """Return what was bought and, at a price per answer, what was spent."""
        return advice.account(self.state, price)

    def why(self, row: int) -> Why:
        """Return what each label of a row would do to the goal, and to which dev rows most."""
        row, state = self._row(row), self.state
        if not ready(state):
            raise BadParameter(
                "There is no model yet; labels of two classes were expected. Rows are asked in a "
                "random order until then."
            )
        self.pool.check()
        return explain(self._present(state), row)

    def status(self) -> dict[str, Any]:
        """Return where the study stands, as plain data."""
        state = self.state
        latest = state.ranking
        per_class: dict[Label, int] = dict.fromkeys(state.classes, 0)
        per_class.update(Counter(state.labels.values()))
        now = self._clock()
        return {
            "study": self.url,
            "rows": self.n_rows,
            "labels": len(state.labels),
            "training": len(state.training),
            "dev": len(state.dev),
            "answers": advice.account(state)["answers"],
            "skipped": len(state.skipped),
            "pending": sum(
                any(lease.live(now) for lease in held.values()) for held in state.leases.values()
            ),
            "classes": [{"label": k, "labels": n} for k, n in per_class.items()],
            "annotators": {
                by: sum(by in said for said in state.standings.values()) for by in state.annotators
            },
            "disagreements": sum(
                len({s.label for s in said.values() if s.label is not None}) > 1
                for said in state.standings.values()
            ),
            "events": state.seq,
            "lost": len(state.lost),
            "settings": asdict(state.settings),
            "ranking": latest
            and {
                "labels": latest.labels,
                "metric": latest.metric,
                "accuracy": latest.accuracy,
                "log_loss": latest.log_loss,
                "goal": latest.goal,
                "gain": latest.gain,
                "recipe": latest.recipe,
                "behind": state.moves - latest.moves,
            },
        }

    def export(
        self, path: str | Path, *, raw: bool = False, every: bool = False, force: bool = False
    ) -> int:
        """Write the labels as .csv, .tsv, .jsonl or .parquet and return how many lines there are.

        Parameters
        ----------
        raw
            Leave texts that start like a formula as they are; a spreadsheet may run them.
        every
            Every annotator's answer and skip on a line of its own, instead of the label used.
        force
            Take the place of a file that is there; without it that is `WouldOverwrite`. The study
            itself, its table and its vectors are never written over.
        """
        check_target(path, force=force, inputs=self._files())
        state = self.state
        if not every:
            self.pool.check()
        frame = answers_table(state) if every else labels_table(state, self.pool)
        write_table(frame, path, raw=raw, force=force)
        return frame.height

    def backup(self, path: str | Path, *, force: bool = False) -> int:
        """Write all of the study, as it is at this moment, to a file, and return its events.

        The file is itself a study, checked digest by digest before it gets its name; others may
        go on answering meanwhile. A table that the study only points to is not in it.
        """
        return copies.backup(self._store, path, inputs=self._files(), force=force)

    def _files(self) -> list[Path]:
        """Return the files the study is made of, where they are and where they are looked for."""
        own, kept, moved = self._store.path, self._state.pool, self._moved
        found = [] if own is None else [Path(f"{own}{ending}") for ending in copies.BESIDE]
        for place, relative in (("path", "relative"), ("vectors", "vectors_relative")):
            if kept.get(place):
                found.append(Path(kept[place]))
            if own is not None and kept.get(relative):
                found.append(own.parent / kept[relative])
        if moved is not None:
            table = moved if isinstance(moved, Table) else Table(moved)
            found += [Path(table.path), Path(table.path).with_suffix(".npy")]
            found += [Path(table.embeddings)] if table.embeddings.endswith(".npy") else []
        return found

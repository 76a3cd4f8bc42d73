"""What a study says of itself, for people and programs alike: page, interface and commands."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import select

from goalward.errors import BadParameter
from goalward.journal.events import Label
from goalward.journal.schema import EVENTS
from goalward.stopping import Criterion
from goalward.study import advice
from goalward.study.advice import Advice
from goalward.study.audit import Audit, audit
from goalward.study.exchange import answers_table, labels_table
from goalward.study.rounds import ready
from goalward.study.session import Session
from goalward.study.why import Why, explain
from goalward.tables.write import write_table

__all__ = ["Reports"]


class Reports(Session):
    """Reading a study, and its labels as files."""

    @cached_property
    def identity(self) -> str:
        """What tells this study from every other: the same for its copies, new for a new study."""
        with self._store._connection() as connection:
            body = connection.execute(select(EVENTS.c.body).where(EVENTS.c.seq == 1)).scalar_one()
        return sha256(str(body).encode()).hexdigest()

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

    def audit(self) -> Audit:
        """Return whether labels still serve the task, or only the dev rows that steer."""
        state = self.state
        if not ready(state):
            return Audit(None, (), (), (), "Nothing to audit: there is no model yet.")
        return audit(self._present(state))

    def why(self, row: int) -> Why:
        """Return what each label of a row would do to the goal, and to which dev rows most."""
        row, state = self._row(row), self.state
        if not ready(state):
            raise BadParameter(
                "There is no model yet; labels of two classes were expected. Rows are asked in a "
                "random order until then."
            )
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

    def export(self, path: str | Path, *, raw: bool = False, every: bool = False) -> int:
        """Write the labels as .csv, .tsv, .jsonl or .parquet and return how many lines there are.

        Parameters
        ----------
        raw
            Leave texts that start like a formula as they are; a spreadsheet may run them.
        every
            Every annotator's answer and skip on a line of its own, instead of the label used.
        """
        state = self.state
        frame = answers_table(state) if every else labels_table(state, self.pool)
        write_table(frame, path, raw=raw)
        return frame.height

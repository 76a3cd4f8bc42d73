"""A study and a Label Studio project kept in step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from goalward.errors import BadParameter, LabelStudioError, NotReached, UnknownLabel
from goalward.studio.label_studio.client import Client
from goalward.studio.label_studio.config import LabelConfig
from goalward.studio.label_studio.exchange import (
    Order,
    Refused,
    answers,
    prediction,
    tell,
    version_of,
)
from goalward.studio.label_studio.tasks import from_project, identified, key_of, rows_as_data
from goalward.studio.study import Study

__all__ = ["Bridge", "Synced"]

LONGEST_WAIT, SOON = 60.0, 1.0


@dataclass(frozen=True)
class Synced:
    """What a pass changed.

    Parameters
    ----------
    imported
        Rows that became tasks.
    told, skipped, withdrawn
        Answers of annotators that were new or changed, and those that are gone.
    refused
        Annotations that do not fit the study; they stay in Label Studio.
    strangers
        Tasks that are no rows of the study.
    pushed
        Predictions written.
    version
        The project's model version now.
    """

    imported: int = 0
    told: int = 0
    skipped: int = 0
    withdrawn: int = 0
    refused: tuple[Refused, ...] = field(default=(), repr=False)
    strangers: int = 0
    pushed: int = 0
    version: str = ""

    @property
    def changed(self) -> bool:
        """Whether anything did."""
        return any((self.imported, self.told, self.skipped, self.withdrawn, self.pushed))


class Bridge:
    """A study beside a project; `sync` brings each to what the other knows.

    Annotators keep their names in the study as `label-studio/PROJECT/EMAIL`, so answers given
    elsewhere are never touched.

    Parameters
    ----------
    control
        The Choices or Number tag to work with, where several fit the study.
    top
        How many tasks get a score each round; the others come after them.
    prefill
        Show annotators what the model would say. Quicker, and they agree with it more than they should.
    add_classes
        Take choices that the study does not know as new classes or labels.
    send
        More columns of the table to send with each task.
    """

    def __init__(
        self,
        study: Study,
        client: Client,
        *,
        control: str | None = None,
        top: int = 1000,
        prefill: bool = False,
        add_classes: bool = False,
        send: Sequence[str] = (),
    ) -> None:
        if top < 1:
            raise BadParameter(f"top={top}; at least 1 was expected.")
        self.study, self.client = study, client
        self._top, self._prefill, self._send = top, prefill, send
        project = client.project()
        kind = study.state.settings.kind
        self.config = LabelConfig.parse(project["label_config"], control, kind)
        self._project = key_of(project)
        self.prefix = f"label-studio/{self._project}/"
        if self.config.asks.listed:
            self._match_classes(add_classes)
        # What the last pass saw (task -> row, ...), the newest order, and what was written whole.
        self._rows: dict[int, int] | None = None
        self._strangers = 0
        self._mark: tuple[Any, ...] = ()
        self._refused: tuple[Refused, ...] = ()
        self._order: Order | None = None
        self._pushed = ""

    @property
    def version(self) -> str:
        """The model version of the newest ranking."""
        return version_of(self.study.state, self._top, self._prefill)

    def sync(self, *, refit: bool = False) -> Synced:
        """Do one pass and return what it changed; a second one changes nothing.

        Parameters
        ----------
        refit
            Fit after any new answer, not only after as many as the study's `refit`.
        """
        first, imported, pushed, changes = self._rows is None, 0, 0, {}
        rows = self._identified() if self._rows is None else self._rows
        if first and not from_project(self.study):
            missing = sorted(set(range(self.study.n_rows)) - set(rows.values()))
            imported = len(missing)
            if missing:
                data = rows_as_data(self.study, missing, self.config, self._send)
                self.client.add_tasks(data)
                rows = self._identified()
        mark = self.client.mark()
        if first or mark != self._mark:
            if not first and mark[:1] != self._mark[:1]:
                rows = self._identified()
            changes = self._read(rows, mark)
        self._rows = rows
        if self.study.due("any" if refit else "refit"):
            self.study.refresh(force=True, size=self._top)
        if self._pushed != self.version:
            self._order = Order.of(self.study, self.config, self._top, self._prefill)
            pushed = self._order.push(self.client, rows)
            self._pushed = self._order.version
        return Synced(
            imported=imported,
            refused=self._refused,
            strangers=self._strangers,
            pushed=pushed,
            version=self._pushed,
            **changes,
        )

    def follow(
        self,
        poll: float,
        report: Callable[[Synced], None],
        trouble: Callable[[LabelStudioError], None],
        *,
        stop: threading.Event,
        wake: threading.Event,
        train: threading.Event,
    ) -> None:
        """Sync every `poll` seconds, and when `wake` is set, until `stop`.

        A server that does not answer is waited for, ever longer up to a minute; one that refuses
        twice in a row is not.
        """
        failures, woken = 0, False
        while not stop.is_set():
            wake.clear()
            training = train.is_set()
            train.clear()
            try:
                report(self.sync(refit=training))
                failures = 0
            except LabelStudioError as error:
                if failures and not isinstance(error, NotReached):
                    raise
                failures += 1
                # Something may have been half done: look at everything again.
                self._rows, self._pushed = None, ""
                trouble(error)
            # A webhook may come before what it tells of is stored: look once more soon.
            pause = min(poll, SOON) if woken else poll
            woken = wake.wait(min(pause * 2 ** min(failures, 10), max(LONGEST_WAIT, poll)))

    def predictions(self, tasks: Sequence[Any]) -> list[dict[str, Any]]:
        """Return what is thought of tasks as Label Studio sends them, one line each."""
        order, rows = self._order, self._rows
        if order is None or rows is None:
            return [prediction(self.version) for _ in tasks]
        numbers = [task.get("id") if isinstance(task, dict) else None for task in tasks]
        known = [rows.get(n, -1) if type(n) is int else -1 for n in numbers]
        return [order.predictions.get(row) or prediction(order.version) for row in known]

    def _match_classes(self, add: bool) -> None:
        known, offered = {str(label) for label in self.study.state.classes}, self.config.classes
        for label in offered if add else ():
            if label not in known:
                self.study.add_class(label)
                known.add(label)
        if known != set(offered):
            only_there, only_here = sorted(set(offered) - known), sorted(known - set(offered))
            raise UnknownLabel(
                f"Label Studio offers {only_there or 'nothing'} that the study does not have, and the "
                f"study has {only_here or 'nothing'} that Label Studio does not offer; the same classes "
                "were expected. Correct the label config, or take new choices with --add-classes."
            )

    def _identified(self) -> dict[int, int]:
        rows, self._strangers = identified(self.client.tasks(), self.study, self._project)
        return rows

    def _read(self, rows: dict[int, int], mark: tuple[Any, ...]) -> dict[str, int]:
        """Bring the study to what annotators say and return how many answers changed."""
        classes = self.study.state.classes
        said, refused = answers(self.client, rows, self.config, classes, self.prefix)
        # Pages shift when a task enters or leaves the list between two of them: what is missing
        # from a list that changed meanwhile proves nothing.
        quiet = self.client.mark() == mark
        present = set(rows.values()) if quiet else set()
        changes = tell(self.study, said, self.config, self.prefix, present)
        self._mark, self._refused = mark if quiet else (), tuple(refused)
        return changes

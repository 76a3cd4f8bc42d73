"""A study and a Label Studio project kept in step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from goalward.adapters.label_studio.annotations import Names, Refused, answers, tell
from goalward.adapters.label_studio.client import Client
from goalward.adapters.label_studio.config import LabelConfig
from goalward.adapters.label_studio.plan import Plan, push_columns, push_predictions, version_of
from goalward.adapters.label_studio.tasks import (
    Tasks,
    from_project,
    identified,
    key_of,
    rows_as_data,
)
from goalward.errors import BadParameter, LabelStudioError, NotReached, UnknownLabel
from goalward.study import Study

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
    pushed, columns
        Predictions written, and tasks whose columns changed.
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
    columns: int = 0
    version: str = ""

    @property
    def changed(self) -> bool:
        """Whether anything did."""
        counts = (self.imported, self.told, self.skipped, self.withdrawn, self.pushed, self.columns)
        return any(counts)


class Bridge:
    """A study beside a project; `sync` brings each to what the other knows.

    Annotators keep their names in the study as `label-studio/PROJECT/EMAIL`, so answers given
    elsewhere are never touched.

    Parameters
    ----------
    control
        The Choices tag to work with, where there are several.
    top
        How many tasks get a score each round; the others come after them.
    columns
        How many tasks get the columns goalward_rank and goalward_utility; each costs a request.
    prefill
        Show annotators the model's label. Quicker, and they agree with it more than they should.
    add_classes
        Take choices that the study does not know as new classes.
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
        columns: int = 50,
        prefill: bool = False,
        add_classes: bool = False,
        send: Sequence[str] = (),
    ) -> None:
        if top < 1 or columns < 0:
            raise BadParameter(f"top={top}, columns={columns}; at least 1 and 0 were expected.")
        self.study, self.client = study, client
        self._top, self._columns, self._prefill = top, columns, prefill
        project = client.project()
        self.config = LabelConfig.parse(project["label_config"], control)
        self._project = key_of(project)
        self._send = tuple(send)
        self._match_classes(add_classes)
        self._tasks: Tasks | None = None
        self._mark: tuple[Any, ...] = ()
        self._refused: tuple[Refused, ...] = ()
        # The newest order, and the one that was written whole.
        self._newest: Plan | None = None
        self._plan: Plan | None = None

    @property
    def prefix(self) -> str:
        """What the names of this project's annotators start with in the study."""
        return f"label-studio/{self._project}/"

    def sync(self, *, refit: bool = False) -> Synced:
        """Do one pass and return what it changed; a second one changes nothing.

        Parameters
        ----------
        refit
            Fit after any new answer, not only after as many as the study's `refit`.
        """
        first = self._tasks is None
        imported = self._import() if first else 0
        mark = self.client.mark()
        changes: dict[str, int] = {}
        if first or mark != self._mark:
            if not first and mark[:1] != self._mark[:1]:
                self._tasks = self._identified()
            changes = self._read(mark)
        self._refit(refit)
        pushed, columns = self._push()
        assert self._tasks is not None
        return Synced(
            imported=imported,
            refused=self._refused,
            strangers=self._tasks.strangers,
            pushed=pushed,
            columns=columns,
            version=self._plan.version if self._plan else "",
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
            failure: LabelStudioError | None = None
            try:
                report(self.sync(refit=training))
            except NotReached as error:
                failure = error
            except LabelStudioError as error:
                if failures:
                    raise
                failure = error
            failures = 0 if failure is None else failures + 1
            if failure is not None:
                # Something may have been half done: look at everything again.
                self._tasks = self._plan = None
                trouble(failure)
            # A webhook may come before what it tells of is stored: look once more soon.
            pause = min(poll, SOON) if woken else poll
            woken = wake.wait(min(pause * 2 ** min(failures, 10), max(LONGEST_WAIT, poll)))

    def predictions(self, tasks: Sequence[Any]) -> list[dict[str, Any]]:
        """Return what is thought of tasks as Label Studio sends them, one line each."""
        plan, known = self._newest, self._tasks
        if plan is None or known is None:
            return [{"result": [], "score": 1.0, "model_version": self.version} for _ in tasks]
        numbers = [task.get("id") if isinstance(task, dict) else None for task in tasks]
        rows = [known.rows.get(n) if type(n) is int else None for n in numbers]
        return [plan.prediction(row, self.config) for row in rows]

    @property
    def version(self) -> str:
        """The model version of the newest ranking."""
        return version_of(self.study.state, self._top, self._prefill)

    def _match_classes(self, add: bool) -> None:
        known = {str(label) for label in self.study.state.classes}
        offered = set(self.config.classes)
        if add:
            for label in self.config.classes:
                if label not in known:
                    self.study.add_class(label)
                    known.add(label)
        if known != offered:
            only_there, only_here = sorted(offered - known), sorted(known - offered)
            raise UnknownLabel(
                f"Label Studio offers {only_there or 'nothing'} that the study does not have, and the "
                f"study has {only_here or 'nothing'} that Label Studio does not offer; the same classes "
                "were expected. Correct the label config, or take new choices with --add-classes."
            )

    def _identified(self) -> Tasks:
        return identified(self.client.tasks(), self.study, self._project)

    def _import(self) -> int:
        """Make tasks of the rows that have none and return how many."""
        self._tasks = self._identified()
        if from_project(self.study):
            return 0
        missing = sorted(set(range(self.study.n_rows)) - set(self._tasks.rows.values()))
        if missing:
            data = rows_as_data(self.study, missing, self.config, self._send)
            self.client.add_tasks(data)
            self._tasks = self._identified()
        return len(missing)

    def _read(self, mark: tuple[Any, ...]) -> dict[str, int]:
        assert self._tasks is not None
        names = Names(self.prefix, self.client.emails())
        listed = list(self.client.answered())
        said, refused = answers(listed, self._tasks, self.config, self.study.state.classes, names)
        # Pages shift when a task enters or leaves the list between two of them.
        quiet = self.client.mark() == mark
        present = set(self._tasks.rows.values())
        changes = tell(self.study, said, present, self.prefix, withdraw=quiet)
        self._mark, self._refused = mark if quiet else (), tuple(refused)
        return changes

    def _refit(self, always: bool) -> None:
        if self.study.due("any" if always else "refit"):
            self.study.refresh(force=True, size=self._top)

    def _push(self) -> tuple[int, int]:
        """Write a new round's order, if there is one; return predictions and columns written."""
        assert self._tasks is not None
        if self._plan is not None and self._plan.version == self.version:
            return 0, 0
        plan = self._newest = Plan.of(self.study, self._top, self._prefill)
        pushed = push_predictions(self.client, plan, self._tasks, self.config)
        columns = push_columns(self.client, plan, self._tasks, self._columns)
        self._plan = plan
        return pushed, columns

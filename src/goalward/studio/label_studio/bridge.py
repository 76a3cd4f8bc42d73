"""Keep a study and a Label Studio project in step: rows as tasks, annotations as answers."""

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from goalward.core.arrays import to_numpy
from goalward.core.files import whole_file
from goalward.errors import BadParameter, Empty, LabelStudioError, StudyExists, UnknownLabel
from goalward.studio.label_studio.client import Client
from goalward.studio.label_studio.config import LabelConfig
from goalward.studio.store.database import file_of, located
from goalward.studio.study import Study
from goalward.studio.study.exchange import NoAnswer
from goalward.studio.study.questions import Questions
from goalward.studio.study.rounds import StudyRound
from goalward.studio.study.settings import usual_learner
from goalward.studio.tables import Table

LONGEST_WAIT = 60.0
ROW, POOL = "goalward_row", "goalward_pool"
TASK, PROJECT = "label_studio_task", "label_studio_project"
RESERVED = ("goalward_", TASK, PROJECT)
"""Prefixes of keys that a task's own data cannot have."""
VERSION = "goalward-"
"""Prefix of our model versions; others are left alone."""
NOBODY = "label-studio"
"""Rows are dealt to no annotator in particular: Label Studio decides who gets which."""
BY_SCORE = "Uncertainty sampling"
"""Label Studio's name for serving the lowest score first."""


@dataclass(frozen=True)
class Refused:
    """An annotation that does not fit the study and stays in Label Studio only."""

    task: int
    by: str
    reason: str


@dataclass(frozen=True)
class Synced:
    """What a pass changed; `strangers` are tasks that are not rows, `pushed` predictions written."""

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
        return any((self.imported, self.told, self.skipped, self.withdrawn, self.pushed))


class Bridge:
    """A study and a project; `sync` updates each from the other.

    Annotators are called `label-studio/PROJECT/EMAIL` in the study, so other answers are never touched.
    The first `top` tasks get a score each round. `prefill` shows annotators the model's answers, which
    biases them; `add_classes` accepts new choices, and `send` names more columns for the tasks.
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
            raise BadParameter(f"top must be at least 1, got {top}.")
        self.study, self.client = study, client
        self._top, self._prefill, self._send = top, prefill, send
        project = client.project()
        self.config = LabelConfig.parse(project["label_config"], control, study.state.settings.kind)
        self._project = _project_key(project)
        self.prefix = f"label-studio/{self._project}/"
        if self.config.asks.fewest:
            self._match_classes(add_classes)
        # Of the last pass: task -> row, other tasks, the mark, refusals and the version written.
        self._rows: dict[int, int] | None = None
        self._strangers = 0
        self._mark: tuple[Any, ...] = ()
        self._refused: tuple[Refused, ...] = ()
        self._pushed = ""

    @property
    def version(self) -> str:
        """The model version of the newest ranking: its number, and a digest of it."""
        state = self.study.state
        # The first order is decided by the pool, the seed and the share of dev rows.
        content: list[Any] = [self._top, self._prefill, dict(state.pool)]
        content += [state.settings.seed, state.settings.dev]
        if state.ranking is not None:
            content += [state.ranking.queue, state.ranking.utilities]
        digest = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:6]
        return f"{VERSION}{len(state.rounds):04d}-{digest}"

    def sync(self) -> Synced:
        """Do one pass and return its changes; a second pass changes nothing."""
        first, imported, pushed, changes = self._rows is None, 0, 0, Synced()
        rows = self._rows if self._rows is not None else self._identified()
        if first and not _made_of_project(self.study):
            missing = sorted(set(range(self.study.n_rows)) - set(rows.values()))
            imported = len(missing)
            if missing:
                self.client.add_tasks(self._task_data(missing))
                rows = self._identified()
        mark = self.client.mark()
        if first or mark != self._mark:
            if not first and mark[:1] != self._mark[:1]:
                rows = self._identified()
            answers = self._answers(rows)
            # Pages shift when tasks change meanwhile: then a missing answer proves nothing.
            quiet = self.client.mark() == mark
            changes = self._tell(answers, set(rows.values()) if quiet else set())
            self._mark = mark if quiet else ()
        self._rows = rows
        if self.study.due("refit"):
            self.study.refresh(force=True, size=self._top)
        if self._pushed != self.version:
            pushed = self._push(rows, self.version)
            self._pushed = self.version
        changes = replace(changes, imported=imported, pushed=pushed, version=self._pushed)
        return replace(changes, refused=self._refused, strangers=self._strangers)

    def follow(self, poll: float) -> Iterator[tuple[Synced, LabelStudioError | None]]:
        """Sync every `poll` seconds, longer after failures; yield each result and its error."""
        failures = 0
        while True:
            try:
                outcome: tuple[Synced, LabelStudioError | None] = self.sync(), None
                failures = 0
            except LabelStudioError as error:
                if failures and not error.passes:
                    raise
                failures += 1
                # It may be half done: look at everything again.
                self._rows, self._pushed = None, ""
                outcome = Synced(), error
            yield outcome
            time.sleep(min(poll * 2 ** min(failures, 10), max(LONGEST_WAIT, poll)))

    def _match_classes(self, add: bool) -> None:
        known, offered = {str(label) for label in self.study.state.classes}, self.config.classes
        for label in offered if add else ():
            if label not in known:
                self.study.add_class(label)
                known.add(label)
        if known != set(offered):
            only_there, only_here = sorted(set(offered) - known), sorted(known - set(offered))
            raise UnknownLabel(
                "Study and label config must have the same classes. Only Label Studio has "
                f"{only_there or 'none'}, only the study {only_here or 'none'}. Correct the label "
                "config, or take new choices with --add-classes."
            )

    def _identified(self) -> dict[int, int]:
        """Return task -> row of the tasks that are rows of the study, and count the others."""
        study, known, rows = self.study, None, {}
        if _made_of_project(study):
            frame = study.pool.table.frame  # type: ignore[union-attr]
            if (made_of := str(frame[PROJECT][0])) != self._project:
                raise LabelStudioError(
                    f"The study {study.url} was made of the project {made_of}, and this one is "
                    f"{self._project}. Use another --study for it."
                )
            known = {int(task): row for row, task in enumerate(frame[TASK].to_list())}
        mark, self._strangers = _pool_mark(study), 0
        for task in self.client.tasks():
            number, data = task["id"], task["data"]
            row = data.get(ROW) if data.get(POOL) == mark else None
            if known is not None:
                row = known.get(number)
            # A task's data can be edited in Label Studio.
            if type(row) is int and 0 <= row < study.n_rows:
                rows[number] = row
            else:
                self._strangers += 1
        return rows

    def _task_data(self, rows: Iterable[int]) -> list[dict[str, Any]]:
        """Return the data of tasks: the fields of the label config, and the columns to send."""
        mark, field_ = _pool_mark(self.study), self.config.field
        wanted = dict.fromkeys((field_, *self.config.fields, *self._send))
        tasks = []
        for row in rows:
            shown = self.study.show(row)
            columns = shown["columns"]
            main = shown.get("text", shown.get("image"))
            cells = columns if main is None else {**columns, field_: main}
            absent = [name for name in wanted if name not in cells]
            if absent:
                raise BadParameter(
                    f"The label config shows {', '.join(map(repr, absent))}, which is not in the table "
                    f"(columns: {', '.join(columns) or 'none'}). Name the column with --text, or change "
                    "the label config."
                )
            data = {name: cells[name] for name in wanted}
            tasks.append(_finite(data) | {ROW: row, POOL: mark})
        return tasks

    def _answers(self, rows: Mapping[int, int]) -> dict[tuple[int, str], Any]:
        """Return (row, annotator) -> the newest answer, None for a skip, oldest first."""
        emails, annotations = self.client.emails(), []
        for task in self.client.answered():
            for annotation in task["annotations"] if task["id"] in rows else ():
                user = annotation.get("completed_by")
                user = (user["id"] if isinstance(user, dict) else user) or 0
                by = self.prefix + emails.get(user, f"user-{user}")
                when = str(annotation.get("updated_at")), annotation["id"]
                annotations.append((when, task["id"], by, annotation))
        newest: dict[tuple[int, str], tuple[int, Any]] = {}
        for _, task, by, annotation in sorted(annotations, key=lambda a: a[0], reverse=True):
            newest.setdefault((rows[task], by), (task, annotation))
        answers: dict[tuple[int, str], Any] = {}
        refused = []
        for key, (task, annotation) in reversed(newest.items()):
            result = annotation.get("result")
            answer = self.config.answer([] if result is None else result, self.study.state.classes)
            if annotation.get("was_cancelled"):
                answers[key] = None
            elif isinstance(answer, NoAnswer):
                refused.append(Refused(task, key[1], str(answer)))
            else:
                answers[key] = answer
        self._refused = tuple(refused)
        return answers

    def _tell(self, answers: dict[tuple[int, str], Any], present: set[int]) -> Synced:
        """Store the annotators' answers; withdraw only those of rows `present` as tasks."""
        study, state = self.study, self.study.state
        stored = {
            (row, by): standing.label
            for row, each in state.standings.items()
            for by, standing in each.items()
            if by.startswith(self.prefix)
        }
        news = []
        for key, label in answers.items():
            kept = label
            if label is not None:
                kept = state.settings.answer.checked(label, state.classes, state.renamed)
            if key not in stored or not self.config.asks.unchanged(stored[key], kept):
                news.append((key, label))
        # In the order they were given: of disagreeing annotators the latest counts.
        for (by, skips), group in groupby(news, key=lambda item: (item[0][1], item[1] is None)):
            if skips:
                for (row, _), _ in group:
                    study.skip(row, by=by)
            else:
                study.tell_many([(row, label) for (row, _), label in group], by=by)
        gone = sorted((row, by) for row, by in stored.keys() - answers.keys() if row in present)
        for row, by in gone:
            study.withdraw(row, by=by)
        skipped = sum(label is None for _, label in news)
        return Synced(told=len(news) - skipped, skipped=skipped, withdrawn=len(gone))

    def _push(self, rows: Mapping[int, int], version: str) -> int:
        """Make the project serve tasks as `Study.ask` would; return the number of predictions."""
        client, lines = self.client, []
        project, versions = client.project(), client.versions()
        if project.get("model_version") != version or project.get("sampling") != BY_SCORE:
            if version in versions:
                # A push that was cut short: its predictions would stand twice.
                client.remove_version(version)
            study, state = self.study, self.study.state
            questions = Questions(study.n_rows, state.settings, study.pool.prepared)
            order = [q.row for q in questions.next(state, self._top, NOBODY, time.time())]
            results = self._results(order)
            # The lowest score is served first: the place in the order, since dev rows have no utility.
            # The oldest task where a row was imported twice.
            task_of = {row: task for task, row in sorted(rows.items(), reverse=True)}
            lines = [
                {"task": task_of[row], "result": results.get(row, []), "score": place / len(order)}
                for place, row in enumerate(order)
                if row in task_of
            ]
            client.add_predictions(lines, version)
            # Only now: until all are there, those of the last round serve.
            client.set_project(model_version=version, sampling=BY_SCORE)
        for old in versions:
            # The Data Manager's score may be the mean over all versions, so old ones have to go.
            if old.startswith(VERSION) and old != version:
                client.remove_version(old)
        return len(lines)

    def _results(self, rows: list[int]) -> dict[int, list[dict[str, Any]]]:
        """Return the model's answers to show; none on dev rows, which measure the model."""
        state, pool = self.study.state, self.study.pool
        training = np.array(rows, dtype=np.int64)
        training = training[~state.settings.is_dev(training)]
        if not self._prefill or state.ranking is None or not len(training):
            return {}
        fitted = StudyRound(state, pool).fitted
        outcomes = to_numpy(fitted.predict_proba(pool.take(training)))
        pairs = zip(training.tolist(), outcomes, strict=True)
        return {row: self.config.result(outcome, state.classes) for row, outcome in pairs}


def create_study(
    place: str,
    client: Client,
    *,
    table: Table | None = None,
    numeric: tuple[str, ...] = (),
    embeddings: str = "auto",
    control: str | None = None,
    **options: Any,
) -> Study:
    """Return a new study with the project's choices or number, and its overlap as `answers`.

    The rows of `table` become tasks; without it the project's tasks become a table beside the study.
    """
    project = client.project()
    config = LabelConfig.parse(project["label_config"], control)
    if table is None:
        file = file_of(located(place)) or Path(f"label-studio-{client.number}")
        path = file.with_suffix(".tasks.jsonl")
        _write_tasks(path, client.tasks(), _project_key(project), config.field)
        text = config.field if config.kind in ("HyperText", "Text") else None
        image = config.field if config.kind == "Image" else None
        table = Table(str(path), text, image, numeric, embeddings, alone=True)
    options = {"answers": int(project.get("maximum_annotations") or 1), **options}
    learner = usual_learner(config.asks.kind)
    return Study.create(place, pool=table, classes=list(config.classes), learner=learner, **options)


def _write_tasks(path: Path, tasks: Iterable[Any], project: str, shown: str) -> None:
    lines = []
    for task in tasks:
        data = {k: v for k, v in _finite(task["data"]).items() if not k.startswith(RESERVED)}
        if shown not in data:
            raise LabelStudioError(
                f"Task {task['id']} must have {shown!r}, which the label config shows (keys: "
                f"{', '.join(data)}). Repair or delete it."
            )
        lines.append(json.dumps({TASK: task["id"], PROJECT: project, **data}) + "\n")
    if not lines:
        raise Empty(
            "The project has no tasks. Import some in Label Studio, or give rows with --table."
        )
    content = "".join(lines)
    if not path.exists():
        with whole_file(path) as partial:
            partial.write_text(content, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != content:
        raise StudyExists(f"{path} holds other tasks. Remove it, or name another --study.")


def _project_key(project: Mapping[str, Any]) -> str:
    """Return a name that no other project has, on this server or another."""
    created = sha256(str(project["created_at"]).encode()).hexdigest()[:6]
    return f"{project['id']}-{created}"


def _made_of_project(study: Study) -> bool:
    table = study.pool.table
    return table is not None and {TASK, PROJECT} <= set(table.frame.columns)


def _pool_mark(study: Study) -> str:
    # Features computed on two machines may differ in the last digits; the file does not.
    kept = study.state.pool
    return str(kept["fingerprint"]["table"] if kept["kind"] == "table" else study.pool.digest)[:8]


def _finite(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return cells without NaN and infinite numbers, which JSON does not have."""
    return {
        name: None if isinstance(cell, float) and not math.isfinite(cell) else cell
        for name, cell in cells.items()
    }

"""The order in which Label Studio should serve tasks, and how it is written into a project.

Predictions decide what is served; columns are what people see.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from goalward.adapters.label_studio.client import Client
from goalward.adapters.label_studio.config import LabelConfig
from goalward.adapters.label_studio.tasks import RANK, UTILITY, Tasks
from goalward.core.arrays import to_numpy
from goalward.study import State, Study
from goalward.study.questions import Question, Questions
from goalward.study.rounds import StudyRound

__all__ = ["Plan", "push_columns", "push_predictions", "version_of"]

OURS = "goalward-"
"""How our model versions start; others are left alone."""
NOBODY = "label-studio"
"""Rows are dealt to no annotator in particular: Label Studio decides who gets what."""
BY_SCORE = "Uncertainty sampling"
"""What Label Studio calls serving the lowest score first."""
VIEW = "goalward: next first"


def version_of(state: State, top: int, prefill: bool) -> str:
    """Return the model version of a state's ranking: its number, and what it says."""
    ranking = state.ranking
    # A random order is decided by the pool, the seed and the share of dev rows.
    said: Any = [top, prefill, dict(state.pool), state.settings.seed, state.settings.dev]
    if ranking is not None:
        said += [ranking.queue, ranking.utilities]
    digest = sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:6]
    return f"{OURS}{len(state.rounds):04d}-{digest}"


@dataclass(frozen=True, eq=False)
class Plan:
    """The rows to serve, best first.

    Rows come as `Study.ask` would hand them out: the newest ranking, with the dev set's share of
    questions in between, and a random order until there is a model.
    """

    version: str
    questions: tuple[Question, ...] = field(repr=False)
    labels: dict[int, str] = field(repr=False)

    @classmethod
    def of(cls, study: Study, top: int, prefill: bool) -> Plan:
        """Return the plan of a study now.

        Parameters
        ----------
        prefill
            Say the model's own label too, which annotators are then shown; never that of a dev
            row, since an answer that was suggested measures nothing.
        """
        state = study.state
        order = Questions(study.n_rows, state.settings)
        questions = tuple(order.next(state, top, NOBODY, time.time()))
        labels = {}
        if prefill and state.ranking is not None and questions:
            rows = np.array([question.row for question in questions])
            rows = rows[~state.settings.is_dev(rows)]
            if len(rows):
                fitted = StudyRound(state, study.pool).fitted
                best = to_numpy(fitted.predict_proba(study.pool.take(rows))).argmax(axis=1)
                classes = [str(label) for label in state.classes]
                labels = {int(row): classes[k] for row, k in zip(rows, best, strict=True)}
        return cls(version_of(state, top, prefill), questions, labels)

    def prediction(self, row: int | None, config: LabelConfig) -> dict[str, Any]:
        """Return the prediction of a row; the lowest score is served first.

        A place in the order rather than minus the utility: dev rows have a place and no utility.
        """
        place = self._places.get(row, len(self.questions)) if row is not None else None
        score = 1.0 if place is None else place / max(len(self.questions), 1)
        label = self.labels.get(row) if row is not None else None
        result = config.result(label) if label is not None else []
        return {"result": result, "score": score, "model_version": self.version}

    def columns(self, count: int) -> dict[int, dict[str, Any]]:
        """Return row -> columns of the first `count` rows.

        Ranks have leading zeros, because the Data Manager sorts data as text.
        """
        return {
            question.row: {RANK: f"{place:06d}"}
            | ({} if question.utility is None else {UTILITY: question.utility})
            for place, question in enumerate(self.questions[:count], start=1)
        }

    @cached_property
    def _places(self) -> dict[int, int]:
        return {question.row: place for place, question in enumerate(self.questions)}


def push_predictions(client: Client, plan: Plan, tasks: Tasks, config: LabelConfig) -> int:
    """Make a project serve tasks as planned and return how many predictions that took."""
    project, versions, of_row = client.project(), client.versions(), tasks.of_row
    lines: list[dict[str, Any]] = []
    if project.get("model_version") != plan.version or project.get("sampling") != BY_SCORE:
        if plan.version in versions:
            # A push that was cut short: its predictions would stand twice.
            client.remove_version(plan.version)
        rows = [question.row for question in plan.questions if question.row in of_row]
        lines = [{"task": of_row[row], **plan.prediction(row, config)} for row in rows]
        client.add_predictions(lines)
        # Only now: until all are there, the ones of the last round serve.
        client.set_project(model_version=plan.version, sampling=BY_SCORE)
    for version in versions:
        # The Data Manager's score may be the mean over all versions, so old ones have to go.
        if version.startswith(OURS) and version != plan.version:
            client.remove_version(version)
    return len(lines)


def push_columns(client: Client, plan: Plan, tasks: Tasks, count: int) -> int:
    """Write the columns of the first `count` rows, clear those of others, and return how many changed."""
    of_row = tasks.of_row
    wanted = {of_row[row]: columns for row, columns in plan.columns(count).items() if row in of_row}
    changed = [t for t in {**wanted, **tasks.ranked} if wanted.get(t) != tasks.ranked.get(t)]
    for task in changed:
        # The data of a task is replaced whole: read it at the last moment.
        data = client.task(task)["data"]
        others = {key: value for key, value in data.items() if key not in (RANK, UTILITY)}
        client.set_data(task, others | wanted.get(task, {}))
    tasks.ranked.clear()
    tasks.ranked.update(wanted)
    if wanted:
        client.add_view(VIEW, f"tasks:data.{RANK}")
    return len(changed)

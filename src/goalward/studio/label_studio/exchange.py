"""What goes between a project and a study: annotators' answers, and the order of the tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from typing import Any

import numpy as np

from goalward.core.arrays import to_numpy
from goalward.studio.label_studio.client import Client
from goalward.studio.label_studio.config import LabelConfig
from goalward.studio.store.events import Label
from goalward.studio.study import State, Study
from goalward.studio.study.exchange import NoAnswer
from goalward.studio.study.questions import Questions
from goalward.studio.study.rounds import StudyRound

__all__ = ["Order", "Refused", "answers", "prediction", "tell", "version_of"]

Answers = dict[tuple[int, str], Any]
"""(row, annotator) -> an answer as a study takes it, or None for a skip; oldest first."""

OURS = "goalward-"
"""How our model versions start; others are left alone."""
NOBODY = "label-studio"
"""Rows are dealt to no annotator in particular: Label Studio decides who gets what."""
BY_SCORE = "Uncertainty sampling"
"""What Label Studio calls serving the lowest score first."""
VIEW = "goalward: next first"


@dataclass(frozen=True)
class Refused:
    """An annotation that stays in Label Studio only, and why."""

    task: int
    by: str
    reason: str


def answers(
    client: Client,
    rows: Mapping[int, int],
    config: LabelConfig,
    classes: Sequence[Label],
    prefix: str,
) -> tuple[Answers, list[Refused]]:
    """Return every annotator's newest word on every row, and what does not fit.

    Parameters
    ----------
    rows
        task -> row.
    prefix
        What names start with; who has no email that can be seen goes by a number.
    """
    emails, found = client.emails(), []
    for task in client.answered():
        number = task["id"]
        for annotation in task["annotations"] if number in rows else ():
            user = annotation.get("completed_by")
            user = (user["id"] if isinstance(user, dict) else user) or 0
            by = prefix + emails.get(user, f"user-{user}")
            when = str(annotation.get("updated_at")), annotation["id"]
            found.append((when, number, by, annotation))
    newest: dict[tuple[int, str], tuple[int, Any]] = {}
    for _, number, by, annotation in sorted(found, key=lambda one: one[0], reverse=True):
        newest.setdefault((rows[number], by), (number, annotation))
    said: Answers = {}
    refused = []
    for key, (number, annotation) in reversed(newest.items()):
        result = annotation.get("result")
        answer = config.answer([] if result is None else result, classes)
        if annotation.get("was_cancelled"):
            said[key] = None
        elif isinstance(answer, NoAnswer):
            refused.append(Refused(number, key[1], str(answer)))
        else:
            said[key] = answer
    return said, refused


def tell(
    study: Study, said: Answers, config: LabelConfig, prefix: str, present: set[int]
) -> dict[str, int]:
    """Bring a study to what annotators say; return how many were told, skipped and withdrawn.

    Parameters
    ----------
    config
        Its control knows which answers are news.
    prefix
        What names of this project's annotators start with; nobody else's answer is withdrawn.
    present
        Rows that were seen to have a task. An answer to another row stays: its task can be gone
        for other reasons than its label.
    """
    state = study.state
    standing = {
        (row, by): stands.label
        for row, each in state.standings.items()
        for by, stands in each.items()
        if by.startswith(prefix)
    }
    news = []
    for key, label in said.items():
        kept = label
        if label is not None:
            kept = state.settings.answer.checked(label, state.classes, state.renamed)
        if key not in standing or not config.asks.unchanged(standing[key], kept):
            news.append((key, label))
    # In the order they were given: of disagreeing annotators the latest counts.
    for (by, skips), group in groupby(news, key=lambda one: (one[0][1], one[1] is None)):
        if skips:
            for (row, _), _ in group:
                study.skip(row, by=by)
        else:
            study.tell_many([(row, label) for (row, _), label in group], by=by)
    gone = sorted((row, by) for row, by in standing.keys() - said.keys() if row in present)
    for row, by in gone:
        study.withdraw(row, by=by)
    skipped = sum(label is None for _, label in news)
    return {"told": len(news) - skipped, "skipped": skipped, "withdrawn": len(gone)}


def version_of(state: State, top: int, prefill: bool) -> str:
    """Return the model version of a state's ranking: its number, and what it says."""
    ranking = state.ranking
    # The first order is decided by the pool, the seed and the share of dev rows.
    said: Any = [top, prefill, dict(state.pool), state.settings.seed, state.settings.dev]
    if ranking is not None:
        said += [ranking.queue, ranking.utilities]
    digest = sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:6]
    return f"{OURS}{len(state.rounds):04d}-{digest}"


def prediction(version: str, score: float = 1.0, result: Iterable[Any] = ()) -> dict[str, Any]:
    """Return a prediction as Label Studio takes it; the lowest score is served first."""
    return {"result": list(result), "score": score, "model_version": version}


@dataclass(frozen=True, eq=False)
class Order:
    """The prediction of every row to serve, best first.

    Rows come as `Study.ask` would hand them out: the newest ranking, with the dev set's share of
    questions in between, and rows that cover the pool until there is a model. The score is the place in the
    order rather than minus the utility, since dev rows have a place and no utility.
    """

    version: str
    predictions: dict[int, dict[str, Any]] = field(repr=False)

    @classmethod
    def of(cls, study: Study, config: LabelConfig, top: int, prefill: bool) -> Order:
        """Return the first `top` rows of a study now; `prefill` says the model's labels too."""
        state = study.state
        version = version_of(state, top, prefill)
        questions = Questions(study.n_rows, state.settings, study.pool.prepared)
        rows = [one.row for one in questions.next(state, top, NOBODY, time.time())]
        results = _results(study, config, rows) if prefill and state.ranking is not None else {}
        return cls(
            version,
            {
                row: prediction(version, place / len(rows), results.get(row, ()))
                for place, row in enumerate(rows)
            },
        )

    def push(self, client: Client, rows: Mapping[int, int]) -> int:
        """Make a project serve tasks in this order and return how many predictions that took."""
        project, versions = client.project(), client.versions()
        lines: list[dict[str, Any]] = []
        if project.get("model_version") != self.version or project.get("sampling") != BY_SCORE:
            if self.version in versions:
                # A push that was cut short: its predictions would stand twice.
                client.remove_version(self.version)
            # The oldest task where a row was imported twice.
            of_row = {row: task for task, row in sorted(rows.items(), reverse=True)}
            said = self.predictions.items()
            lines = [{"task": of_row[row], **line} for row, line in said if row in of_row]
            client.add_predictions(lines)
            # Only now: until all are there, the ones of the last round serve.
            client.set_project(model_version=self.version, sampling=BY_SCORE)
        for version in versions:
            # The Data Manager's score may be the mean over all versions, so old ones have to go.
            if version.startswith(OURS) and version != self.version:
                client.remove_version(version)
        client.add_view(VIEW, "tasks:predictions_score")
        return len(lines)


def _results(study: Study, config: LabelConfig, rows: list[int]) -> dict[int, list[dict[str, Any]]]:
    """Return what is believed of rows that are not dev: a suggested answer measures nothing."""
    state = study.state
    training = np.array(rows, dtype=np.int64)
    training = training[~state.settings.is_dev(training)]
    if not len(training):
        return {}
    fitted = StudyRound(state, study.pool).fitted
    outcomes = to_numpy(fitted.predict_proba(study.pool.take(training)))
    return {
        int(row): config.result(one, state.classes)
        for row, one in zip(training, outcomes, strict=True)
    }

"""What a round says of its model and of answers, by what an answer is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from goalward.core.arrays import to_numpy
from goalward.core.draws import drawn_rows
from goalward.labels.operators import deviation
from goalward.studio.advice import seen
from goalward.studio.study.accuracy import (
    ErrorSize,
    commonest,
    leverages,
    measured,
    measured_labels,
    measured_numbers,
)
from goalward.studio.study.answers import Doubts, LeftOut
from goalward.studio.study.rounds import StudyRound
from goalward.studio.study.scores import LabelScores, NumberScores, Scores

STOP_ROWS = 1000
"""Rows whose predictions are followed from round to round, for stopping rules."""
STOP_ANSWERS, LEAST_ROWS = 4000, 200
"""Of several labels: yes and no that are followed, on so many rows at least."""


class Judge:
    """Of classes; others differ in what is written here."""

    def judged(self, now: StudyRound, batch: NDArray[Any]) -> dict[str, Any]:
        """Return what a ranking says of its model; `batch` are the rows that are asked next."""
        rows = _stop_rows(now, STOP_ROWS)
        proba = _said(now, rows)
        return {
            **self._good(now, proba[_unanswered(now, rows)]),
            "goal": now.goal.value(now.fitted) / len(now.goal_rows),
            "gain": float(np.mean(to_numpy(deviation(*now.changes(batch))))),
            "stop_set": _kept(seen(proba, _said(now, batch))),
            "goal_before": now.goal_before(),
        }

    def _good(self, now: StudyRound, pool: NDArray[Any]) -> dict[str, Any]:
        """Return accuracy over rows without an answer, and log-loss on answers the model did not know."""
        answers, left = LeftOut.of(now), now.pool.n_rows - now.state.n_labels
        said, (place, share) = measured(answers, pool, max(left, 1)), commonest(answers)
        log_loss = -float(np.mean(np.log(np.maximum(_counted(now).likelihood, 1e-300))))
        return _metric(now) | {
            "accuracy": said.value if said else None,
            "low": said.low if said else None,
            "high": said.high if said else None,
            "on": len(answers.rows),
            "also": {"commonest": [now.state.classes[place], share]},
            "log_loss": log_loss,
        }

    def scores(self, now: StudyRound) -> Any:
        """Return scores on the answers that measure; on all, each left out, while those are too few."""
        return Scores.of(_counted(now), now.state.classes)

    def doubts(self, now: StudyRound) -> Doubts:
        """Return all answers, those that the model doubts most first."""
        return Doubts.of(now)


class OfLabels(Judge):
    """Of several labels: macro-F1, and the share of right yes and no."""

    def judged(self, now: StudyRound, batch: NDArray[Any]) -> dict[str, Any]:
        """Return the same; goals are watched of classes only."""
        count = max(LEAST_ROWS, min(STOP_ROWS, STOP_ANSWERS // len(now.state.classes)))
        rows = _stop_rows(now, count)
        proba = _said(now, rows)
        f1, right = measured_labels(LeftOut.of(now), proba[_unanswered(now, rows)])
        also = {"right": [right.value, right.low, right.high]}
        return _scored(now, f1, also, seen(proba, _said(now, batch), "labels"))

    def scores(self, now: StudyRound) -> LabelScores:
        """Return the scores of each label."""
        return LabelScores.of(_counted(now), now.state.classes)

    def doubts(self, now: StudyRound) -> Doubts:
        """Return all answers, by the least likely label of each."""
        answers = LeftOut.of(now)
        told, yes = ~np.isnan(answers.truth), answers.proba > 0.5
        doubt = np.where(answers.truth > 0.5, 1.0 - answers.proba, answers.proba)
        doubt = np.where(told, doubt, 0.0).max(axis=1)
        says = [
            {name: bool(yes[i, k]) for k, name in enumerate(now.state.classes) if told[i, k]}
            for i in range(len(doubt))
        ]
        return Doubts.by(answers, doubt, doubt, says)


class OfNumbers(Judge):
    """Of numbers: R², and the typical error."""

    def judged(self, now: StudyRound, batch: NDArray[Any]) -> dict[str, Any]:
        """Return the same; goals are watched of classes only."""
        rows, answers = _stop_rows(now, STOP_ROWS), LeftOut.of(now)
        said, open_rows = _said(now, rows).reshape(-1, 1), _unanswered(now, rows)
        v = leverages(now.fitted, now.pool.take(rows[open_rows]))
        found = measured_numbers(answers, leverages_of(now, answers), said[open_rows], v)
        also = {"error": [found.error.value, found.error.low, found.error.high]}
        return _scored(now, found.r2, also, seen(said, said[:0], "numbers", scale=found.scale))

    def scores(self, now: StudyRound) -> NumberScores:
        """Return how far numbers are off."""
        return NumberScores.of(_counted(now))

    def doubts(self, now: StudyRound) -> Doubts:
        """Return all answers, by how far off they are for a row of their leverage."""
        answers = LeftOut.of(now)
        v, pool = leverages_of(now, answers), leverages(now.fitted, now.pool.take(now.sample))
        errors = (answers.truth - answers.proba)[:, 0]
        variance = ErrorSize.of(errors, v, answers.chosen, pool).variance(v, answers.chosen)
        off = np.abs(errors) / np.maximum(np.sqrt(variance), 1e-150)
        return Doubts.by(answers, off, erf(off / 2**0.5), answers.proba[:, 0].tolist())


def leverages_of(now: StudyRound, answers: LeftOut) -> NDArray[Any]:
    """Return the leverages of a round's answers: those that train, left out, come first."""
    measuring = answers.rows[~answers.chosen]
    found = [leverages(now.fitted)]
    if len(measuring):
        found.append(leverages(now.fitted, now.pool.take(measuring)))
    return np.concatenate(found)


def _scored(
    now: StudyRound, said: Any, also: dict[str, Any], kept: dict[str, Any]
) -> dict[str, Any]:
    values = {name: getattr(said, name) for name in ("low", "high", "on")}
    unknown = dict.fromkeys(("log_loss", "goal", "gain"))
    told = {"accuracy": said.value, "also": also, "stop_set": _kept(kept)}
    return _metric(now) | values | told | unknown


def _counted(now: StudyRound) -> LeftOut:
    answers = LeftOut.of(now)
    return answers.measuring() if now.has_dev else answers


def _metric(now: StudyRound) -> dict[str, Any]:
    return {"metric": "dev" if now.has_dev else "cross-validated"}


def _kept(stop_set: dict[str, Any]) -> dict[str, Any]:
    """Return it as the journal gives it back: with lists."""
    lists = [list(one) if isinstance(one, tuple) else one for one in stop_set["predicted"]]
    return stop_set | {"predicted": lists}


def _stop_rows(now: StudyRound, count: int) -> NDArray[Any]:
    return drawn_rows(now.pool.n_rows, count, now.state.settings.seed, "stop")


def _unanswered(now: StudyRound, rows: NDArray[Any]) -> NDArray[Any]:
    """Return which rows have no answer; all, where each has one."""
    found = ~np.isin(rows, now.state.used[0])
    return found if found.any() else ~found


def _said(now: StudyRound, rows: NDArray[Any]) -> NDArray[Any]:
    return to_numpy(now.fitted.predict_proba(now.pool.take(rows)))


JUDGES: dict[str, Judge] = {"class": Judge(), "labels": OfLabels(), "numbers": OfNumbers()}

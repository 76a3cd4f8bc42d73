"""Studies of several labels and of numbers, played from no answer on beside the truth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score, r2_score

from goalward.core.arrays import to_numpy
from goalward.lab.benchmark.task_sets import task_rows
from goalward.models import Fitted
from goalward.models.multi_label import MultiLabel
from goalward.models.ridge import Ridge
from goalward.studio.study import Study
from goalward.studio.study.rounds import StudyRound
from goalward.studio.study.settings import DEV

__all__ = ["Round", "play_study"]

POOL, TEST = 2000, 1000
"""Rows of a study at most, and of those that it never has."""
STEP = 10
"""Answers between two rankings."""


class Round(NamedTuple):
    """What a study would say after a round, beside the truth.

    Parameters
    ----------
    kept
        Whether a tenth of the answers is kept to measure.
    answers
        All that were given; `labels` of them train the model.
    truth, value, low, high
        Accuracy (macro-F1, R²) on all rows without an answer, and what is shown, the ends in whole
        percents; None where nothing is.
    curve
        The same on rows that are never asked in the whole session: the same in every round.
    most
        The upper end of the gain that is told for the next 100 answers.
    stop
        Whether it says that one could stop.
    """

    kept: bool
    answers: int
    labels: int
    truth: float
    value: float | None
    low: float | None
    high: float | None
    curve: float
    most: float | None
    stop: bool


def play_study(task: str, job: tuple[str, int, int]) -> dict[str, Any]:
    """Return what a study says round by round, with and without answers that measure, and the truth."""
    name, seed, budget = job
    found = [list(one) for kept in (False, True) for one in _rounds(task, name, seed, budget, kept)]
    return {"task": task, "dataset": name, "seed": seed, "budget": budget, "rounds": found}


def _rounds(task: str, name: str, seed: int, budget: int, kept: bool) -> Iterator[Round]:
    """Yield what is said after every 10 answers, and what is true."""
    X, y = task_rows(task, name)
    order = np.random.default_rng([17, seed]).permutation(len(X))
    cut = min(TEST, len(X) // 4)
    test, pool = order[:cut], order[cut : cut + POOL]
    names = [f"label {k}" for k in range(y.shape[1])] if task == "labels" else ["number"]
    learner = MultiLabel() if task == "labels" else Ridge()
    size = min(budget, len(pool) * 7 // 10) // STEP * STEP
    given: Any = {"classes": names, "learner": learner, "dev": DEV * kept, "seed": seed}
    models: list[Fitted] = []
    said: list[tuple[Any, ...]] = []
    with (
        TemporaryDirectory() as folder,
        Study.create(Path(folder) / "played.db", pool=X[pool], **given) as study,
    ):
        for _ in range(size // STEP):
            for row in study.ask(STEP, refresh=False):
                study.tell(row, _answer(task, names, y[pool[row]]))
            if study.refresh() is None:
                continue
            state = study.state
            models.append(StudyRound(state, study.pool).fitted)
            rest = np.concatenate([test, np.delete(pool, list(state.labels))])
            good, advice = study.status()["accuracy"], study.stop()
            ends = math.floor(100 * good["low"]) / 100, math.ceil(100 * good["high"]) / 100
            truth = _score(task, models[-1], X[rest], y[rest])
            stop = "You could stop" in study.status()["headline"]
            counts = kept, state.n_labels, state.n_training
            said.append((*counts, truth, good["value"], *ends, advice.high, stop))
        never = np.concatenate([test, np.delete(pool, list(study.state.labels))])
    for model, told in zip(models, said, strict=True):
        curve = _score(task, model, X[never], y[never])
        yield Round._make((*told[:-2], curve, *told[-2:]))


def _answer(task: str, names: list[str], said: NDArray[Any]) -> Any:
    if task == "numbers":
        return float(said[0])
    return {name for name, holds in zip(names, said, strict=True) if holds}


def _score(task: str, model: Fitted, X: NDArray[Any], y: NDArray[Any]) -> float:
    said = to_numpy(model.predict_proba(X)).reshape(y.shape)
    if task == "numbers":
        return float(r2_score(y, said))
    return float(f1_score(y > 0.5, said > 0.5, average="macro", zero_division=0.0))

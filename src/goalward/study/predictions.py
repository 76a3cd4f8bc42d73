"""The rows of a study, or of a new table, with what its model says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.journal.events import Label
from goalward.study.cells import answer_columns, label_cell, label_kind
from goalward.study.exchange import beside
from goalward.study.model import StudyModel
from goalward.study.pools import StudyPool
from goalward.study.rounds import StudyRound
from goalward.study.settings import Settings

__all__ = ["pool_predictions", "table_predictions"]

LOOK, MOST = 0.05, 200
"""The share of unanswered rows to look at, the least certain ones, and how many at most."""


def pool_predictions(now: StudyRound) -> pl.DataFrame:
    """Return the pool's rows with what is predicted.

    A row that a person answered has that label; the probability is the model's, of the label shown.
    Where answers are weighed, `consensus` is the probability that they give it.
    """
    model, labels = now.exported, now.state.labels
    if model.kind != "class":
        return _joined(
            _own_columns(now.pool), _of_others(now.state.settings, model, now.pool.X, labels)
        )
    codes, confidence = model.likeliest(now.pool.X)
    rows = np.array(list(labels))
    said = np.array([model.classes.index(label) for label in labels.values()])
    codes[rows] = said
    confidence[rows] = model.predict_proba(now.pool.take(rows))[np.arange(len(rows)), said]
    answered = np.zeros(len(codes), dtype=bool)
    answered[rows] = True
    said_of = _predicted(model.classes, codes, confidence, answered)
    if now.state.settings.label == "weighed":
        sure = np.full(len(codes), np.nan)
        sure[rows] = now.state.consensus.at(rows).max(axis=1).round(4)
        said_of = said_of.with_columns(consensus=pl.Series(sure).fill_nan(None))
    return _joined(_own_columns(now.pool), said_of)


def table_predictions(model: StudyModel, table: str | Path) -> pl.DataFrame:
    """Return the rows of another table, like the one the model was made with, with what it says."""
    shown, X = model.encoder.read(table)
    if model.kind != "class":
        settings = Settings(kind=model.kind)
        return _joined(shown, _of_others(settings, model, X, {}))
    codes, confidence = model.likeliest(X)
    nobody = np.zeros(len(codes), dtype=bool)
    return _joined(shown, _predicted(model.classes, codes, confidence, nobody))


def _of_others(
    settings: Settings, model: StudyModel, X: Any, answers: Mapping[int, Any]
) -> pl.DataFrame:
    """Return numbers, or yes or no for each label with its probability, and who was answered.

    What a person said stands; a label that they left out is the model's.
    """
    said = model.predictions(X)
    answered = np.zeros(len(said.labels), dtype=bool)
    answered[list(answers)] = True
    found = said.labels.tolist()
    for row, answer in answers.items():
        if said.probabilities is None:
            found[row] = answer
        else:
            told = ((k, value) for k, value in enumerate(answer) if value is not None)
            for k, value in told:
                found[row][k] = value
    columns = answer_columns(settings, model.classes, found)
    if said.probabilities is None:
        return pl.DataFrame([*columns, pl.Series("answered", answered)])
    chances = [
        pl.Series(f"{column.name}_probability", said.probabilities[:, k].astype(np.float64)).round(
            4
        )
        for k, column in enumerate(columns)
    ]
    sure = np.abs(said.probabilities - 0.5).min(axis=1)
    look = pl.Series("look", _to_look_at(sure, answered))
    return pl.DataFrame([*columns, *chances, pl.Series("answered", answered), look])


def _own_columns(pool: StudyPool) -> pl.DataFrame:
    if pool.table is not None:
        return pool.table.frame
    rows = pl.DataFrame({"row": np.arange(pool.n_rows)})
    return rows if pool.texts is None else rows.with_columns(text=pl.Series(pool.texts))


def _joined(shown: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([beside(shown, said.columns), said], how="horizontal")


def _predicted(
    classes: Sequence[Label],
    codes: NDArray[Any],
    confidence: NDArray[Any],
    answered: NDArray[Any],
) -> pl.DataFrame:
    """Return label, probability, whether a person said so, and whether to look at the row."""
    kind = label_kind(classes)
    names = pl.Series([label_cell(label, kind) for label in classes], dtype=kind)
    return pl.DataFrame(
        {
            "label": names.gather(codes),
            "probability": pl.Series(confidence.astype(np.float64)).round(4),
            "answered": answered,
            "look": _to_look_at(confidence, answered),
        }
    )


def _to_look_at(confidence: NDArray[Any], answered: NDArray[Any]) -> NDArray[Any]:
    """Return which rows that nobody answered are the least certain."""
    open_rows = np.flatnonzero(~answered)
    count = min(MOST, int(np.ceil(LOOK * len(open_rows))))
    look = np.zeros(len(confidence), dtype=bool)
    look[open_rows[np.argsort(confidence[open_rows], kind="stable")[:count]]] = True
    return look

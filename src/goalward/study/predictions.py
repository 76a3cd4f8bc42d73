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
from goalward.tables.columns import without_text
from goalward.tables.encoder import Encoder, joined
from goalward.tables.numbers import SideBySide
from goalward.tables.pictures import Pictures, Pixels
from goalward.tables.words import Sentences, Words

__all__ = ["pool_predictions", "table_predictions"]

LOOK, MOST = 0.05, 200
"""The share of unanswered rows to look at, the least certain ones, and how many at most."""


def pool_predictions(now: StudyRound) -> pl.DataFrame:
    """Return the pool's rows with what is predicted.

    A row that a person answered has that label, and so have its copies; the probability is the
    model's, of the label shown. Rows with nothing to read have none.
    Where answers are weighed, `consensus` is the probability that they give it.
    """
    state, model = now.state, now.exported
    known, copies = state.labels, state.copies
    covered = {row: of for row, of in copies.items() if of in known and row not in known}
    labels = dict(sorted({**known, **{row: known[of] for row, of in covered.items()}}.items()))
    blank = np.isin(np.arange(now.pool.n_rows), list(state.aside - copies.keys()))
    if model.kind != "class":
        others = _of_others(state.settings, model, now.pool.X, labels)
        return _joined(_own_columns(now.pool), _unsaid(others, blank))
    codes, confidence = model.likeliest(now.pool.X)
    rows = np.array(list(labels))
    said = np.array([model.classes.index(label) for label in labels.values()])
    codes[rows] = said
    confidence[rows] = model.predict_proba(now.pool.take(rows))[np.arange(len(rows)), said]
    answered = np.zeros(len(codes), dtype=bool)
    answered[rows] = True
    said_of = _predicted(model.classes, codes, confidence, answered)
    if state.settings.label == "weighed":
        sure = np.full(len(codes), np.nan)
        asked = [covered.get(row, row) for row in rows.tolist()]
        sure[rows] = state.consensus.at(asked).max(axis=1).round(4)
        said_of = said_of.with_columns(consensus=pl.Series(sure).fill_nan(None))
    return _joined(_own_columns(now.pool), _unsaid(said_of, blank))


def table_predictions(model: StudyModel, table: str | Path) -> pl.DataFrame:
    """Return the rows of another table, like the one the model was made with, with what it says."""
    shown, X = model.encoder.read(table)
    blank = _blank(model.encoder, shown, X)
    if model.kind != "class":
        said = _of_others(Settings(kind=model.kind), model, X, {})
    else:
        codes, confidence = model.likeliest(X)
        said = _predicted(model.classes, codes, confidence, np.zeros(len(codes), dtype=bool))
    return _joined(shown, _unsaid(said, blank))


def _blank(encoder: Encoder, shown: pl.DataFrame, X: Any) -> NDArray[Any]:
    """Return which rows of a table hold nothing to read: no text, or a picture that is broken."""
    found = np.zeros(shown.height, dtype=bool)
    for part in encoder.parts if isinstance(encoder, SideBySide) else [encoder]:
        if isinstance(part, (Words, Sentences)):
            found[without_text(joined(shown, part.columns))] = True
        elif part is encoder and isinstance(part, (Pixels, Pictures)):
            found = ~np.any(X, axis=1)
    return found


def _unsaid(said: pl.DataFrame, blank: NDArray[Any]) -> pl.DataFrame:
    """Return what is predicted, and nothing of rows without anything to read: look at those."""
    blank = blank & ~said["answered"].to_numpy()
    kept = ("answered", "look")
    nothing = pl.when(~pl.lit(pl.Series(blank))).then(pl.exclude(kept)).name.keep()
    look = [(pl.col("look") | pl.lit(pl.Series(blank)))] if "look" in said.columns else []
    return said.with_columns(nothing, *look) if blank.any() else said


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

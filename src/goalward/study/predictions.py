"""The rows of a study, or of a new table, with what its model says of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.journal.events import Label
from goalward.study.exchange import beside, label_cell, label_kind
from goalward.study.model import StudyModel
from goalward.study.pools import StudyPool
from goalward.study.rounds import StudyRound
from goalward.tables.read import read_table
from goalward.tables.write import write_table

__all__ = ["write_predictions"]

LOOK, MOST = 0.05, 200
"""The share of unanswered rows to look at, the least certain ones, and how many at most."""


def write_predictions(
    now: StudyRound, path: str | Path, table: str | Path | None, *, raw: bool, force: bool
) -> int:
    """Write the pool's rows, or those of a new table, with what is predicted; return how many.

    A row that a person answered has that label; the probability is the model's, of the label shown.
    """
    model = now.exported
    if table is None:
        shown, (codes, confidence, answered) = _own_columns(now.pool), _of_pool(now, model)
    else:
        shown = read_table(table)
        codes, confidence = model.likeliest(shown)
        answered = np.zeros(len(codes), dtype=bool)
    frame = _predicted(model.classes, codes, confidence, answered)
    whole = pl.concat([beside(shown, frame.columns), frame], how="horizontal")
    write_table(whole, path, raw=raw, force=force)
    return whole.height


def _own_columns(pool: StudyPool) -> pl.DataFrame:
    if pool.table is not None:
        return pool.table.frame
    rows = pl.DataFrame({"row": np.arange(pool.n_rows)})
    return rows if pool.texts is None else rows.with_columns(text=pl.Series(pool.texts))


def _of_pool(now: StudyRound, model: StudyModel) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return label, probability and whether a person answered, of every row of the pool."""
    codes, confidence = model.likeliest(now.pool.X)
    labels = now.state.labels
    rows = np.array(list(labels))
    said = np.array([model.classes.index(label) for label in labels.values()])
    codes[rows] = said
    confidence[rows] = model.predict_proba(now.pool.take(rows))[np.arange(len(rows)), said]
    answered = np.zeros(len(codes), dtype=bool)
    answered[rows] = True
    return codes, confidence, answered


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

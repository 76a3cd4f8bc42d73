"""Labels out of a study and into it, as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.errors import BadInput, DataMissing, DuplicateRows
from goalward.studio.store.events import Label
from goalward.studio.study.model_file import StudyModel
from goalward.studio.study.pools import StudyPool
from goalward.studio.study.rounds import StudyRound
from goalward.studio.study.settings import Settings
from goalward.studio.study.state import State
from goalward.studio.tables.cells import listed, read_labels, rows_meant, short, texts

# Answers as columns of tables: one of classes, one for each label, or one of numbers.


TAKEN = frozenset({"row", "role", "by", "answers", "at", "note", "seq", "label", "consensus"})
"""Names that other columns of an export have."""
YES, NO = frozenset({"yes", "true", "1", "1.0"}), frozenset({"no", "false", "0", "0.0"})


class NoAnswer(str):
    """Why a cell is no answer."""


def column_names(settings: Settings, classes: Sequence[Label]) -> list[str]:
    """Return what columns of answers are called."""
    if settings.kind == "class":
        return ["label"]
    return [f"{name} (label)" if name in TAKEN else str(name) for name in classes]


def answer_columns(
    settings: Settings, classes: Sequence[Label], answers: Sequence[Any]
) -> list[pl.Series]:
    """Return answers as columns; None is a skip. Labels are yes, no, or empty: not answered."""
    names = column_names(settings, classes)
    if settings.kind == "class":
        kind = label_kind(classes)
        return [pl.Series("label", [label_cell(one, kind) for one in answers], dtype=kind)]
    if settings.kind == "numbers":
        return [pl.Series(names[0], answers, dtype=pl.Float64)]
    words = {True: "yes", False: "no", None: None}
    found = []
    for place, name in enumerate(names):
        said = [one[place] if one is not None and place < len(one) else None for one in answers]
        found.append(pl.Series(name, [words[value] for value in said], dtype=pl.String))
    return found


def answers_in(
    settings: Settings, classes: Sequence[Label], frame: pl.DataFrame, label: str
) -> Iterator[Any]:
    """Give what each line of a table says, or `NoAnswer`; `label` is the column of classes or numbers."""
    if settings.kind == "labels":
        return _several(column_names(settings, classes), classes, frame)
    cells = frame[label].to_list()
    return map(_number, cells) if settings.kind == "numbers" else _classes(classes, cells)


def _classes(classes: Sequence[Label], cells: Sequence[Any]) -> Iterator[Any]:
    meant: dict[str, list[Label]] = {}
    kind = label_kind(classes)
    written = texts(pl.Series([label_cell(known, kind) for known in classes], dtype=kind))
    for known, text in zip(classes, written, strict=True):
        # As Python writes a class, and as an export does.
        for name in {str(known), text}:
            meant.setdefault(name, []).append(known)
    for said in cells:
        known_as = meant.get(str(said), [])
        if said is None or said == "":
            yield NoAnswer("no label")
        elif len(known_as) == 1:
            yield known_as[0]
        else:
            among = f"may be any of {', '.join(map(repr, known_as))}"
            yield NoAnswer(f"{short(said)} {among if known_as else 'is not one of the classes'}")


def _number(cell: Any) -> Any:
    if cell is None or cell == "":
        return NoAnswer("no number")
    try:
        value = math.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError):
        value = math.nan
    return value if math.isfinite(value) else NoAnswer(f"{short(cell)} is not a finite number")


def _several(names: Sequence[str], classes: Sequence[Label], frame: pl.DataFrame) -> Iterator[Any]:
    columns = {
        known: frame[n].to_list() for n, known in zip(names, classes, strict=True) if n in frame
    }
    if not columns:
        raise DataMissing(
            f"The table must have a column for each of {', '.join(names[:12])}, with yes, no, or nothing, "
            f"got the columns {listed(frame.columns)}."
        )
    for cells in zip(*columns.values(), strict=True):
        words = [None if cell is None else str(cell).strip().lower() for cell in cells]
        strange = [w for w in words if w and w not in YES | NO]
        if strange:
            yield NoAnswer(f"{short(strange[0])} is neither yes nor no")
        elif not any(words):
            yield NoAnswer("no label")
        else:
            said = zip(columns, words, strict=True)
            yield {known: word in YES if word else None for known, word in said}


def label_kind(classes: Sequence[Label]) -> Any:
    """Return the column type of the labels: texts where types are mixed, or numbers too large."""
    kinds = {type(label) for label in classes}
    types: dict[type, Any] = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64}
    small = all(abs(label) < 2**63 for label in classes if isinstance(label, int))
    return types.get(kinds.pop(), pl.String) if len(kinds) == 1 and small else pl.String


def label_cell(label: Label | None, kind: Any) -> Label | None:
    """Return a label as its column holds it; booleans among texts as tables write them."""
    if label is None or kind != pl.String:
        return label
    return str(label).lower() if isinstance(label, bool) else str(label)


@dataclass(frozen=True)
class Imported:
    """Labels `taken`, those known already, and `refused`: (line, reason), with rows from line 1."""

    taken: int
    same: int
    refused: tuple[tuple[int, str], ...] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.taken} taken, {self.same} known already, {len(self.refused)} refused"


def labels_table(state: State, pool: StudyPool) -> pl.DataFrame:
    """Return one line per labelled row: its label, its role, who said so, and the table's columns."""
    rows, notes = list(state.labels), state.notes
    said_of = answer_columns(state.settings, state.classes, list(state.labels.values()))
    lines = []
    for row, dev in zip(rows, state.settings.is_dev(rows).tolist(), strict=True):
        label, everybody = state.labels[row], state.standings[row]
        said = {by: s for by, s in everybody.items() if s.label == label}
        # Weighed, a label may be nobody's own: an adversary's answer speaks for another.
        newest = max((said or everybody).values(), key=lambda s: s.seq)
        lines.append(
            {
                "row": row,
                "role": "dev" if dev else "train",
                "by": ", ".join(sorted(said)),
                "answers": sum(s.label is not None for s in everybody.values()),
                "at": _when(newest.at),
                "note": "\n".join(note.text for note in notes.get(row, ())),
            }
        )
    schema = {"row": pl.Int64, "role": pl.String, "by": pl.String}
    schema |= {"answers": pl.Int64, "at": pl.String, "note": pl.String}
    frame = pl.DataFrame(lines, schema=schema)
    frame = frame.select("row", *said_of, pl.exclude("row"))
    if state.settings.label == "weighed":
        sure = state.consensus.at(rows).max(axis=1).round(4)
        frame = frame.insert_column(2, pl.Series("consensus", sure, dtype=pl.Float64))
    if pool.table is None and pool.texts is None:
        return frame
    shown = _own_columns(pool)[np.array(rows, dtype=np.int64)]
    shown = shown if pool.table is not None else shown.drop("row")
    return pl.concat([frame, beside(shown, frame.columns)], how="horizontal")


def beside(shown: pl.DataFrame, taken: list[str]) -> pl.DataFrame:
    """Return the table's columns under names that are free: label_of_table, label_of_table_2."""
    used = {*taken, *shown.columns}
    renamed = {}
    for name in set(taken) & set(shown.columns):
        tries = (f"{name}_of_table{f'_{i}' if i > 1 else ''}" for i in count(1))
        renamed[name] = next(free for free in tries if free not in used)
    return shown.rename(renamed)


def answers_table(state: State) -> pl.DataFrame:
    """Return one line per row and annotator; a skip has no label."""
    said = [
        (row, by, standing)
        for row in sorted(state.standings)
        for by, standing in sorted(state.standings[row].items())
    ]
    lines = [{"row": row, "by": by, "at": _when(s.at), "seq": s.seq} for row, by, s in said]
    schema = {"row": pl.Int64, "by": pl.String, "at": pl.String, "seq": pl.Int64}
    columns = answer_columns(state.settings, state.classes, [s.label for _, _, s in said])
    return pl.DataFrame(lines, schema=schema).select("row", "by", *columns, "at", "seq")


def matched_labels(
    path: str | Path, state: State, pool: Callable[[], StudyPool], *, label: str, key: str, by: str
) -> tuple[list[tuple[int, Any, str]], list[tuple[int, str]]]:
    """Return (row, label, annotator) of what fits, and (line, reason) of what does not.

    `key` is "row" for row numbers, or a column of both the file and the pool's table.
    """
    kind = state.settings.kind
    if kind == "numbers" and label == "label":
        label = column_names(state.settings, state.classes)[0]
    frame, first = read_labels(path, label=key if kind == "labels" else label, key=key)
    places = None if key == "row" else _places(pool(), key)
    rows = rows_meant(frame[key], places, int(state.pool["n_rows"]))
    who = texts(frame["by"]) if "by" in frame.columns else [None] * frame.height
    fits: list[tuple[int, Any, str]] = []
    refused: list[tuple[int, str]] = []
    lines = zip(rows, answers_in(state.settings, state.classes, frame, label), who, strict=True)
    for line, (row, said, name) in enumerate(lines, start=first):
        if isinstance(row, str):
            refused.append((line, row))
        elif isinstance(said, NoAnswer):
            refused.append((line, str(said)))
        else:
            fits.append((row, said, (name or by)[:200]))
    return fits, refused


def _places(pool: StudyPool, key: str) -> dict[str, int]:
    if pool.table is None or key not in pool.table.frame.columns:
        raise BadInput(
            f"The pool has no column {key!r} to tell its rows apart. Use --key row with row numbers."
        )
    values = texts(pool.table.frame[key]).to_list()
    places = {value: row for row, value in enumerate(values)}
    if len(places) < len(values):
        raise DuplicateRows(
            f"Values of {key!r} must be distinct in the pool. Use another column, or row numbers."
        )
    places.pop(None, None)
    return places


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


# The rows of a study, or of a new table, with what its model says of them.


LOOK, MOST = 0.05, 200
"""The share of unanswered rows to look at, the least certain ones, and how many at most."""


def pool_predictions(now: StudyRound) -> pl.DataFrame:
    """Return the pool's rows with what is predicted; rows with nothing to read have no label.

    A row that a person answered has that label, and so have its copies; the probability is the model's.
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
    blank = model.encoder.blank(shown, X)
    if model.kind != "class":
        said = _of_others(Settings(kind=model.kind), model, X, {})
    else:
        codes, confidence = model.likeliest(X)
        said = _predicted(model.classes, codes, confidence, np.zeros(len(codes), dtype=bool))
    return _joined(shown, _unsaid(said, blank))


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
    """Return numbers, or yes or no for each label with its probability; what a person said stands."""
    said = model.predictions(X)
    answered = np.zeros(len(said.labels), dtype=bool)
    answered[list(answers)] = True
    predicted = said.labels.tolist()
    for row, answer in answers.items():
        if said.probabilities is None:
            predicted[row] = answer
            continue
        for k, value in enumerate(answer):
            if value is not None:
                predicted[row][k] = value
    columns = answer_columns(settings, model.classes, predicted)
    if said.probabilities is None:
        return pl.DataFrame([*columns, pl.Series("answered", answered)])
    names = [f"{column.name}_probability" for column in columns]
    shares = said.probabilities.astype(np.float64)
    chances = [pl.Series(name, shares[:, k]).round(4) for k, name in enumerate(names)]
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

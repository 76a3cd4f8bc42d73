"""Labels out of a study and into it, as tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl

from goalward.errors import BadInput, DuplicateRows
from goalward.study.cells import NoAnswer, answer_columns, answers_in, column_names
from goalward.study.pools import StudyPool
from goalward.study.state import State
from goalward.tables.cells import texts
from goalward.tables.labels import read_labels, rows_meant
from goalward.tables.write import write_table

__all__ = [
    "Imported",
    "answers_table",
    "beside",
    "export",
    "labels_table",
    "matched_labels",
]


@dataclass(frozen=True)
class Imported:
    """What became of a file of labels.

    Parameters
    ----------
    taken, same
        Answers stored, and those that were known already.
    refused
        (line, reason) of each that did not fit; the first line of rows is 1.
    """

    taken: int
    same: int
    refused: tuple[tuple[int, str], ...] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.taken} taken, {self.same} known already, {len(self.refused)} refused"


def labels_table(state: State, pool: StudyPool) -> pl.DataFrame:
    """Return one line per labelled row: its label, its role, who said so, and the table's columns."""
    rows = list(state.labels)
    said_of = answer_columns(state.settings, state.classes, list(state.labels.values()))
    lines = []
    for row, dev in zip(rows, state.settings.is_dev(rows).tolist(), strict=True):
        label, everybody = state.labels[row], state.said(row)
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
                "note": "\n".join(note.text for note in state.notes.get(row, ())),
            }
        )
    schema = {"row": pl.Int64, "role": pl.String, "by": pl.String}
    schema |= {"answers": pl.Int64, "at": pl.String, "note": pl.String}
    frame = pl.DataFrame(lines, schema=schema)
    frame = frame.select("row", *said_of, pl.exclude("row"))
    if state.settings.label == "weighed":
        sure = state.consensus.at(rows).max(axis=1).round(4)
        frame = frame.insert_column(2, pl.Series("consensus", sure, dtype=pl.Float64))
    if pool.table is not None:
        shown = pool.table.frame[rows] if rows else pool.table.frame.clear()
    elif pool.texts is not None:
        shown = pl.DataFrame(
            {"text": [pool.texts[row] for row in rows]}, schema={"text": pl.String}
        )
    else:
        return frame
    return pl.concat([frame, beside(shown, frame.columns)], how="horizontal")


def beside(shown: pl.DataFrame, taken: list[str]) -> pl.DataFrame:
    """Return the table's columns under names that are free: label_of_table, label_of_table_2."""
    used = {*taken, *shown.columns}
    renamed = {}
    for name in set(taken) & set(shown.columns):
        tries = (f"{name}_of_table{f'_{i}' if i > 1 else ''}" for i in count(1))
        renamed[name] = next(free for free in tries if free not in used)
    return shown.rename(renamed)


def export(
    state: State, pool: StudyPool | None, path: str | Path, *, raw: bool, force: bool
) -> int:
    """Write the labels, or every answer where there is no pool; return how many lines there are."""
    frame = answers_table(state) if pool is None else labels_table(state, pool)
    write_table(frame, path, raw=raw, force=force)
    return frame.height


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

    Parameters
    ----------
    key
        "row": row numbers. Another name: a column of the file and of the pool's table whose
        values say which row is meant.
    """
    kind = state.settings.kind
    label = (
        column_names(state.settings, state.classes)[0]
        if kind == "numbers" and label == "label"
        else label
    )
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
            f"The pool has no column {key!r}; one whose values tell its rows apart was expected. Use "
            "--key row with row numbers."
        )
    values = texts(pool.table.frame[key]).to_list()
    places = {value: row for row, value in enumerate(values)}
    if len(places) < len(values):
        raise DuplicateRows(
            f"Values of {key!r} stand more than once in the pool; distinct ones were expected. Use "
            "another column, or row numbers."
        )
    places.pop(None, None)
    return places


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

"""Labels out of a study and into it, as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl

from goalward.errors import BadInput, DuplicateRows
from goalward.journal.events import Label
from goalward.study.pools import StudyPool
from goalward.study.state import State
from goalward.tables.cells import texts
from goalward.tables.labels import read_labels, rows_meant, short
from goalward.tables.write import write_table

__all__ = [
    "Imported",
    "answers_table",
    "beside",
    "export",
    "label_cell",
    "label_kind",
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
    kind = label_kind(state.classes)
    lines = []
    for row, dev in zip(rows, state.settings.is_dev(rows).tolist(), strict=True):
        label = state.labels[row]
        said = {by: s for by, s in state.standings[row].items() if s.label == label}
        # Weighed, a label may be nobody's own: an adversary's answer speaks for another.
        newest = max((said or state.standings[row]).values(), key=lambda s: s.seq)
        lines.append(
            {
                "row": row,
                "label": label_cell(label, kind),
                "role": "dev" if dev else "train",
                "by": ", ".join(sorted(said)),
                "answers": sum(s.label is not None for s in state.standings[row].values()),
                "at": _when(newest.at),
                "note": "\n".join(note.text for note in state.notes.get(row, ())),
            }
        )
    schema = {"row": pl.Int64, "label": kind, "role": pl.String, "by": pl.String}
    schema |= {"answers": pl.Int64, "at": pl.String, "note": pl.String}
    frame = pl.DataFrame(lines, schema=schema)
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
    kind = label_kind(state.classes)
    lines = [
        {"row": row, "by": by, "label": label_cell(s.label, kind), "at": _when(s.at), "seq": s.seq}
        for row in sorted(state.standings)
        for by, s in sorted(state.standings[row].items())
    ]
    schema = {"row": pl.Int64, "by": pl.String, "label": kind, "at": pl.String}
    return pl.DataFrame(lines, schema=schema | {"seq": pl.Int64})


def matched_labels(
    path: str | Path, state: State, pool: Callable[[], StudyPool], *, label: str, key: str, by: str
) -> tuple[list[tuple[int, Label, str]], list[tuple[int, str]]]:
    """Return (row, label, annotator) of what fits, and (line, reason) of what does not.

    Parameters
    ----------
    key
        "row": row numbers. Another name: a column of the file and of the pool's table whose
        values say which row is meant.
    """
    frame, first = read_labels(path, label=label, key=key)
    places = None if key == "row" else _places(pool(), key)
    rows = rows_meant(frame[key], places, int(state.pool["n_rows"]))
    who = texts(frame["by"]) if "by" in frame.columns else [None] * frame.height
    classes = _classes(state)
    fits: list[tuple[int, Label, str]] = []
    refused: list[tuple[int, str]] = []
    lines = zip(rows, frame[label].to_list(), who, strict=True)
    for line, (row, said, name) in enumerate(lines, start=first):
        known = classes.get(str(said), [])
        if isinstance(row, str):
            refused.append((line, row))
        elif said is None or said == "":
            refused.append((line, "no label"))
        elif len(known) == 1:
            fits.append((row, known[0], (name or by)[:200]))
        else:
            among = f"may be any of {', '.join(map(repr, known))}"
            refused.append(
                (line, f"{short(said)} {among if known else 'is not one of the classes'}")
            )
    return fits, refused


def _classes(state: State) -> dict[str, list[Label]]:
    """Return what each text may mean: as Python writes a class, and as an export does."""
    found: dict[str, list[Label]] = {}
    kind = label_kind(state.classes)
    written = texts(pl.Series([label_cell(known, kind) for known in state.classes], dtype=kind))
    for known, text in zip(state.classes, written, strict=True):
        for name in {str(known), text}:
            found.setdefault(name, []).append(known)
    return found


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


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

"""Labels out of a study and into it, as tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from goalward.errors import BadInput, DuplicateRows
from goalward.journal.events import Label
from goalward.study.pools import Pool
from goalward.study.state import State
from goalward.tables.read import read_table
from goalward.tables.write import unescaped

__all__ = ["Imported", "answers_table", "labels_table", "read_labels"]


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


def labels_table(state: State, pool: Pool | None) -> pl.DataFrame:
    """Return one line per labelled row: its label, its role, who said so, and the table's columns."""
    rows = list(state.labels)
    lines = []
    for row, dev in zip(rows, state.settings.is_dev(rows).tolist(), strict=True):
        label = state.labels[row]
        said = {by: s for by, s in state.standings[row].items() if s.label == label}
        newest = max(said.values(), key=lambda s: s.seq)
        lines.append(
            {
                "row": row,
                "label": label,
                "role": "dev" if dev else "train",
                "by": ", ".join(sorted(said)),
                "answers": sum(s.label is not None for s in state.standings[row].values()),
                "at": _when(newest.at),
                "note": "\n".join(note.text for note in state.notes.get(row, ())),
            }
        )
    schema = {"row": pl.Int64, "label": _kind(state), "role": pl.String, "by": pl.String}
    schema |= {"answers": pl.Int64, "at": pl.String, "note": pl.String}
    frame = pl.DataFrame(lines, schema=schema)
    if pool is None:
        return frame
    if pool.table is not None:
        shown = pool.table.frame[rows] if rows else pool.table.frame.clear()
    elif pool.texts is not None:
        shown = pl.DataFrame(
            {"text": [pool.texts[row] for row in rows]}, schema={"text": pl.String}
        )
    else:
        return frame
    taken = {name: f"{name}_of_table" for name in shown.columns if name in frame.columns}
    return pl.concat([frame, shown.rename(taken)], how="horizontal")


def answers_table(state: State) -> pl.DataFrame:
    """Return one line per row and annotator; a skip has no label."""
    lines = [
        {"row": row, "by": by, "label": s.label, "at": _when(s.at), "seq": s.seq}
        for row in sorted(state.standings)
        for by, s in sorted(state.standings[row].items())
    ]
    schema = {"row": pl.Int64, "by": pl.String, "label": _kind(state), "at": pl.String}
    return pl.DataFrame(lines, schema=schema | {"seq": pl.Int64})


def read_labels(
    path: str | Path,
    state: State,
    pool: Callable[[], Pool],
    *,
    label: str,
    key: str,
    by: str,
) -> tuple[list[tuple[int, int, Label, str]], list[tuple[int, str]]]:
    """Return (line, row, label, annotator) of what fits, and (line, reason) of what does not.

    Parameters
    ----------
    key
        "row": row numbers. Another name: a column of the file and of the pool's table whose
        values say which row is meant.
    """
    frame = unescaped(read_table(path))
    for name in (label, key):
        if name not in frame.columns:
            raise BadInput(
                f"{Path(path).name} has the columns {', '.join(frame.columns[:12])}; one called {name!r} "
                "was expected. Name it with --label or --key."
            )
    places = None if key == "row" else _places(pool(), key)
    classes = {str(c): c for c in state.classes}
    total = int(state.pool["n_rows"])
    fits, refused = [], []
    names = (
        frame["by"].cast(pl.String).to_list() if "by" in frame.columns else [None] * frame.height
    )
    cells = zip(frame[key].to_list(), frame[label].to_list(), names, strict=True)
    # As an editor counts: after the header of a text table, from 1 in other files.
    first = 2 if Path(path).suffix.lower() in (".csv", ".tsv") else 1
    for line, (where, what, who) in enumerate(cells, start=first):
        row = _row(where, places, total)
        if isinstance(row, str):
            refused.append((line, row))
        elif what is None or what == "":
            refused.append((line, "no label"))
        elif str(what) not in classes:
            refused.append((line, f"{_short(what)} is not one of the classes"))
        else:
            fits.append((line, row, classes[str(what)], (who or by)[:200]))
    return fits, refused


def _places(pool: Pool, key: str) -> dict[str, int]:
    if pool.table is None or key not in pool.table.frame.columns:
        raise BadInput(
            f"The pool has no column {key!r}; one whose values tell its rows apart was expected. Use "
            "--key row with row numbers."
        )
    values = pool.table.frame[key].cast(pl.String).to_list()
    places = {value: row for row, value in enumerate(values)}
    if len(places) < len(values):
        raise DuplicateRows(
            f"Values of {key!r} stand more than once in the pool; distinct ones were expected. Use "
            "another column, or row numbers."
        )
    return places


def _row(where: Any, places: dict[str, int] | None, total: int) -> int | str:
    if places is not None:
        return places.get(str(where), f"{_short(where)} is not in the pool")
    try:
        row = int(where)
    except (TypeError, ValueError):
        return f"{_short(where)} is not a row number"
    return row if 0 <= row < total else f"row {row} is not in the pool of {total}"


def _kind(state: State) -> Any:
    """Return the column type of the labels: texts where types are mixed."""
    kinds = {type(label) for label in state.classes}
    types: dict[type, Any] = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64}
    return types.get(kinds.pop(), pl.String) if len(kinds) == 1 else pl.String


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

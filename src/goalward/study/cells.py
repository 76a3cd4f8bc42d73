"""Answers as columns of tables: one of classes, one for each label, or one of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from goalward.errors import DataMissing
from goalward.journal.events import Label
from goalward.study.settings import Settings
from goalward.tables.cells import listed, texts
from goalward.tables.labels import short

__all__ = ["NoAnswer", "answer_columns", "answers_in", "column_names", "label_cell", "label_kind"]

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
            f"The table has the columns {listed(frame.columns)} and none of a label; one for each "
            f"of {', '.join(names[:12])} was expected, with yes, no, or nothing."
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

"""Rows as the page shows them: plain data, cut where it is long, one row or a list of answers."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from goalward.study import State, Study

__all__ = ["PAGE", "Only", "answered_rows", "legible", "plain", "preview", "row_view"]

LONGEST = 20_000
"""Characters shown before somebody asks for all."""
LONGEST_CELL = 500
MOST_COLUMNS = 40
PAGE = 50
"""Answers on one page of the list."""


def row_view(study: Study, state: State, row: int, *, whole: bool = False) -> dict[str, Any]:
    """Return what a page needs of a row."""
    content = study.show(row)
    text = content.get("text")
    text = None if text is None else legible(str(text))
    utility, ranking = state.questions.get(row, (None, None))
    cells = [(name, plain(v)) for name, v in content["columns"].items() if v not in (None, "")]
    return {
        "row": row,
        "text": text if text is None or whole else text[:LONGEST],
        "length": 0 if text is None else len(text),
        "image": _image(content, row),
        "columns": [[legible(str(name)[:200]), _cut(str(v))] for name, v in cells[:MOST_COLUMNS]],
        "utility": utility,
        "ranking": ranking,
        "notes": _notes(state, row),
    }


def preview(content: dict[str, Any], longest: int = 160) -> str:
    """Return a line that stands for a row, of what `Study.show` gives of it."""
    said = content.get("text") or content.get("image")
    if said is None:
        said = ", ".join(f"{k}: {plain(v)}" for k, v in list(content["columns"].items())[:6])
    return _cut(" ".join(str(said)[: 4 * longest].split()), longest)


def legible(text: str) -> str:
    """Return a text that can be sent: half of a character pair as its number."""
    return text.encode("utf-8", "backslashreplace").decode()


def plain(value: Any) -> str | int | float | bool | None:
    """Return a cell as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)


class Only(StrEnum):
    """Which answers."""

    all = "all"
    skipped = "skipped"
    disagreeing = "disagreeing"
    noted = "noted"
    dev = "dev"


def answered_rows(
    study: Study,
    *,
    label: str | None = None,
    by: str | None = None,
    only: str = Only.all,
    search: str = "",
    page: int = 0,
) -> dict[str, Any]:
    """Return one page of answered rows, newest first, and how many there are in all.

    Parameters
    ----------
    label, by
        The label used (as text), and an annotator who said something.
    search
        Words the row's text must hold.
    """
    state = study.state
    dev = set(state.dev)
    kept = [
        row
        for row in sorted(state.standings, key=lambda row: -_newest(state, row))
        if (label is None or str(state.label(row)) == label)
        and (by is None or by in state.standings[row])
        and _is(state, row, only, dev)
        and (not search or search.casefold() in _words(study, row))
    ]
    lines = [_answer(study, state, row, dev) for row in kept[page * PAGE : (page + 1) * PAGE]]
    return {"total": len(kept), "page": page, "pages": -(-len(kept) // PAGE), "rows": lines}


def _answer(study: Study, state: State, row: int, dev: set[int]) -> dict[str, Any]:
    content, said = study.show(row), state.standings[row]
    when = datetime.fromtimestamp(max(s.at for s in said.values()), UTC)
    return {
        "row": row,
        "preview": preview(content, 240),
        "image": _image(content, row),
        "label": state.label(row),
        "dev": row in dev,
        "answers": [{"by": name, "label": said[name].label} for name in sorted(said)],
        "notes": _notes(state, row),
        "at": when.strftime("%Y-%m-%d %H:%M"),
    }


def _newest(state: State, row: int) -> int:
    return max(s.seq for s in state.standings[row].values())


def _is(state: State, row: int, only: str, dev: set[int]) -> bool:
    if only == Only.skipped:
        return state.label(row) is None
    if only == Only.disagreeing:
        said = {s.label for s in state.standings[row].values() if s.label is not None}
        return len(said) > 1
    if only == Only.noted:
        return row in state.notes
    return row in dev if only == Only.dev else True


def _words(study: Study, row: int) -> str:
    content = study.show(row)
    parts = [content.get("text"), content.get("image"), *content["columns"].values()]
    return " ".join(str(part) for part in parts if part is not None).casefold()


def _image(content: dict[str, Any], row: int) -> str | None:
    return f"/api/images/{row}" if content.get("image") else None


def _notes(state: State, row: int) -> list[dict[str, str]]:
    return [{"by": note.by, "text": note.text} for note in state.notes.get(row, ())]


def _cut(text: str, longest: int = LONGEST_CELL) -> str:
    return legible(text if len(text) <= longest else text[: longest - 1] + "…")

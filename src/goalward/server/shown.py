"""Rows as the page shows them: plain data, cut where they are long, pictures by row number."""

from __future__ import annotations

import math
from typing import Any

from goalward.study import State, Study

__all__ = ["legible", "plain", "preview", "shown"]

LONGEST = 20_000
"""Characters shown before somebody asks for all."""
LONGEST_CELL = 500
MOST_COLUMNS = 40


def shown(study: Study, state: State, row: int, *, whole: bool = False) -> dict[str, Any]:
    """Return what a page needs of a row."""
    found = study.show(row)
    text = found.get("text")
    text = None if text is None else legible(str(text))
    utility, ranking = state.questions.get(row, (None, None))
    cells = [(name, plain(v)) for name, v in found["columns"].items() if v not in (None, "")]
    return {
        "row": row,
        "text": text if text is None or whole else text[:LONGEST],
        "length": 0 if text is None else len(text),
        "image": f"/api/images/{row}" if found.get("image") else None,
        "columns": [[legible(str(name)[:200]), _cut(str(v))] for name, v in cells[:MOST_COLUMNS]],
        "utility": utility,
        "ranking": ranking,
        "notes": [{"by": n.by, "text": n.text} for n in state.notes.get(row, ())],
    }


def preview(study: Study, row: int, longest: int = 160) -> str:
    """Return a line that stands for a row."""
    found = study.show(row)
    said = found.get("text") or found.get("image")
    if said is None:
        said = ", ".join(f"{k}: {plain(v)}" for k, v in list(found["columns"].items())[:6])
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


def _cut(text: str, longest: int = LONGEST_CELL) -> str:
    return legible(text if len(text) <= longest else text[: longest - 1] + "…")
